"""The mock NVML library under the unmodified bindings, without a node: device nodes are plain files here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest

from portal.sandbox import gpus, native
from portal.sandbox.state import NodeSpec

SPEC = NodeSpec("gpu-1", 10, gpus.new_gpus(4), "NVIDIA H100", 81559, None, 2048)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return native.build(tmp_path_factory.mktemp("native"))


class Driver:
    """A state folder and device folder, and the library read through Python or nvidia-smi."""

    def __init__(self, folder: Path, built: Path) -> None:
        self.built = built
        self.state = folder / "state"
        self.dev = folder / "dev"
        self.dev.mkdir()
        for name in ("nvidiactl", *(f"nvidia{minor}" for minor in range(4))):
            (self.dev / name).touch()
        gpus.write_state(self.state, gpus.first_state(SPEC))
        own = {"MOCK_NVML_DIR": str(folder), "MOCK_NVML_DEV": str(self.dev), "LD_LIBRARY_PATH": str(built)}
        self.environment = {**os.environ, **own}

    def set(self, prefix: str, **values: object) -> None:
        gpus.write_state(self.state, gpus.changed(gpus.read_state(self.state), values, prefix=prefix))

    def python(self, expression: str) -> Any:
        """Return the value of an expression over `n` (pynvml, initialised) and `h` (handle by index)."""
        text = (
            "import json, pynvml as n\nh = n.nvmlDeviceGetHandleByIndex\n"
            f"try:\n n.nvmlInit()\n print(json.dumps({expression}))\n"
            "except n.NVMLError as error:\n print(json.dumps({'error': error.value}))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", text], env=self.environment, capture_output=True, text=True, check=True, timeout=30
        )
        return json.loads(done.stdout)

    def smi(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [str(self.built / "nvidia-smi"), *words]
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False, timeout=30)


@pytest.fixture
def driver(tmp_path: Path, built: Path) -> Driver:
    return Driver(tmp_path, built)


def test_a_build_is_kept(built: Path) -> None:
    before = (built / native.LIBRARY).stat().st_mtime_ns
    assert native.build(built.parent) == built
    assert (built / native.LIBRARY).stat().st_mtime_ns == before


def test_only_gpus_with_a_device_node_are_seen(driver: Driver) -> None:
    (driver.dev / "nvidia0").unlink()
    (driver.dev / "nvidia2").unlink()
    assert driver.python("[n.nvmlDeviceGetUUID(h(i)) for i in range(n.nvmlDeviceGetCount())]") == [
        SPEC.gpus[1].uuid,
        SPEC.gpus[3].uuid,
    ]
    assert driver.python("[n.nvmlDeviceGetMinorNumber(h(1)), n.nvmlDeviceGetIndex(h(1))]") == [3, 1]
    assert driver.python("n.nvmlDeviceGetName(h(2))") == {"error": pynvml.NVML_ERROR_INVALID_ARGUMENT}
    missing = driver.python(f"n.nvmlDeviceGetHandleByUUID('{SPEC.gpus[0].uuid}')")
    assert missing == {"error": pynvml.NVML_ERROR_NOT_FOUND}


def test_without_a_driver_node_the_driver_is_not_loaded(driver: Driver) -> None:
    (driver.dev / "nvidiactl").unlink()
    assert driver.python("1") == {"error": pynvml.NVML_ERROR_DRIVER_NOT_LOADED}
    assert driver.smi("-L").returncode == 9


def test_values_of_the_state_file_are_reported(driver: Driver) -> None:
    driver.set("gpu2.", temp=71, util_gpu=42, power_mw=123456, ecc_dbe_vol=3, nvlink_down="1,17", procs="77:1048576")
    assert driver.python(
        "[n.nvmlDeviceGetTemperature(h(2), 0), n.nvmlDeviceGetUtilizationRates(h(2)).gpu,"
        " n.nvmlDeviceGetPowerUsage(h(2)), n.nvmlDeviceGetTotalEccErrors(h(2), 1, 0),"
        " [n.nvmlDeviceGetNvLinkState(h(2), i) for i in (0, 1, 7, 17)],"
        " [(p.pid, p.usedGpuMemory) for p in n.nvmlDeviceGetComputeRunningProcesses(h(2))],"
        " n.nvmlDeviceGetMemoryInfo(h(2)).used, n.nvmlDeviceGetMemoryInfo(h(2), n.nvmlMemory_v2).total]"
    ) == [71, 42, 123456, 3, [1, 0, 1, 0], [[77, 1 << 20]], 1 << 20, 81559 << 20]


def test_lost_broken_and_unsupported(driver: Driver) -> None:
    driver.set("gpu0.", lost=1)
    driver.set("gpu1.", error=pynvml.NVML_ERROR_RESET_REQUIRED)
    driver.set("gpu2.", unsupported="ecc,mig")
    assert driver.python("n.nvmlDeviceGetCount()") == 4
    assert driver.python("n.nvmlDeviceGetName(h(0))") == {"error": pynvml.NVML_ERROR_GPU_IS_LOST}
    assert driver.python("n.nvmlDeviceGetName(h(1))") == {"error": pynvml.NVML_ERROR_RESET_REQUIRED}
    assert driver.python("n.nvmlDeviceGetEccMode(h(2))") == {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    assert driver.python("n.nvmlDeviceGetName(h(2))") == "NVIDIA H100"
    assert driver.python("n.nvmlDeviceGetFanSpeed(h(3))") == {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    assert driver.python("n.nvmlDeviceGetEncoderUtilization(h(3))") == {"error": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}


def test_an_xid_is_delivered_once(driver: Driver) -> None:
    events = driver.state.with_name("events")
    events.write_text("xid=1:13\n")
    found = driver.python(
        "(s := n.nvmlEventSetCreate(), n.nvmlDeviceRegisterEvents(h(1), n.nvmlEventTypeXidCriticalError, s),"
        f" open({str(events)!r}, 'a').write('xid=2:31\\nxid=1:79\\n'), [n.nvmlEventSetWait_v2(s, 0).eventData],"
        " n.nvmlEventSetWait_v2(s, 0))[3]"
    )
    assert found == {"error": pynvml.NVML_ERROR_TIMEOUT}
    first = driver.python(
        "(s := n.nvmlEventSetCreate(), n.nvmlDeviceRegisterEvents(h(1), n.nvmlEventTypeXidCriticalError, s),"
        f" open({str(events)!r}, 'a').write('xid=2:31\\nxid=1:79\\n'), n.nvmlEventSetWait_v2(s, 0).eventData)[3]"
    )
    assert first == 79


def test_a_holder_makes_its_gpu_busy(driver: Driver) -> None:
    folder = driver.state.with_name("busy") / "3"
    folder.mkdir(parents=True)
    (folder / "container").write_text("4711\n")
    assert driver.python("[n.nvmlDeviceGetUtilizationRates(h(i)).gpu > 80 for i in range(4)]") == [False] * 3 + [True]


def test_nvidia_smi_prints_what_can_still_be_read(driver: Driver) -> None:
    driver.set("gpu1.", lost=1)
    done = driver.smi("--query-gpu=index,temperature.gpu", "--format=csv,noheader")
    assert done.returncode == 15
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        "0",
        "Unable to determine the device handle for GPU1: GPU is lost",
        "2",
        "3",
    ]
    assert driver.smi("-L", "-i", "2").stdout.startswith("GPU 2: NVIDIA H100 (UUID: ")
    assert driver.smi("-L", "-i", "9").returncode == 6
    assert driver.smi("--format").returncode == 2
