"""Real inputs from people who run GPU servers, read as their INDEX says; they are not part of the project."""

import csv
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from workers.nodeops.gpu.metrics import read_counters, read_exposition
from workers.nodeops.gpu.smi import SmiReport, read_csv, read_list, table_faults
from workers.nodeops.gpu.smi_xml import read_xml
from workers.nodeops.gpu.topology import read_topology
from workers.nodeops.gpu.xid import Act, act_of, read_kernel_log, worst

ROOT = Path(os.environ.get("BERTH_FIXTURES", Path(__file__).parents[3] / "../shared/fixtures"))
CAPTURES = [
    ("nvidia-geforce-rtx-2080-super__595.71.05", "NVIDIA GeForce RTX 2080 SUPER", None),
    ("nvidia-geforce-rtx-4080-super__595.71.05", "NVIDIA GeForce RTX 4080 SUPER", None),
    ("nvidia-h100-80gb-hbm3__590.48.01", "NVIDIA H100 80GB HBM3", 81559),
    ("nvidia-h200__590.48.01", "NVIDIA H200", 143771),
]


def shared(name: str) -> str:
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"no shared fixture {name}")
    return path.read_text(errors="replace")


def section(capture: str, title: str) -> str:
    """The output of one command in a capture."""
    found = re.search(rf"^# {re.escape(title)}.*\n(?:#.*\n)+((?:(?!####).*\n)*)", capture, re.MULTILINE)
    assert found, title
    return found[1]


def xml(name: str) -> SmiReport:
    return read_xml(shared(f"a-nvidia-smi/{name}"))


@pytest.mark.parametrize(("name", "model", "memory"), CAPTURES)
@pytest.mark.parametrize("when", ["idle", "load"])
def test_captures(name: str, model: str, memory: int | None, when: str) -> None:
    capture = shared(f"a-nvidia-smi/capture__linux-x86_64__{name}.txt")
    (gpu,) = read_csv(section(capture, f"{when} :: query-gpu")).gpus
    assert (gpu.model, gpu.fault) == (model, "")
    assert gpu.get("memory_total_mib").value == memory or memory is None
    assert gpu.get("power_limit_watts").value
    assert gpu.get("persistence").value == ("Enabled" if "h100" in name else gpu.get("persistence").value)
    assert read_topology(section(capture, "capabilities :: topo -m")).gpus == ("GPU0",)
    assert not gpu.get("ecc_mode").value if "geforce" in name else gpu.get("ecc_mode").value == "Enabled"


def test_h100_cap() -> None:
    capture = shared(f"a-nvidia-smi/capture__linux-x86_64__{CAPTURES[2][0]}.txt")
    assert read_csv(section(capture, "idle :: query-gpu")).gpus[0].get("power_limit_watts").value == 700


def test_err_fan() -> None:
    assert list(table_faults(shared("a-nvidia-smi/err_fan_table.txt"))) == ["00000000:CC:00.0"]


def test_lost_amid_rows() -> None:
    report = read_csv(shared("a-nvidia-smi/gpu_lost_csv_stdout.txt"), ("index", "pci.bus_id", "name"))
    assert [g.index for g in report.gpus if not g.fault] == [0, 1, 2, 4, 5, 6, 7]
    assert [(g.index, g.pci) for g in report.gpus if g.fault] == [(3, "00000000:04:00.0")]


def test_wddm_query() -> None:
    first, second = read_csv(shared("a-nvidia-smi/nvidia_gpu_exporter__query.txt")).gpus
    assert (first.get("fan_percent").value, first.get("memory_used_mib").value) == (38, 575)
    assert (second.index, second.get("serial").value) == (1, None)


@pytest.mark.parametrize(
    ("name", "driver", "gpus"),
    [
        ("pai__nvidia_smi_outdated_gpu.xml", "384.111", 1), ("pai__nvidia_smi_sample.xml", "384.66", 2),
        ("telegraf__a10g.xml", "515.105.01", 1), ("telegraf__quadro-p400.xml", "418", 1),
        ("telegraf__rtx-3090-v12.xml", "525", 1), ("telegraf__tesla-t4.xml", "", 1),
    ],
)  # fmt: skip
def test_xml_of_every_age(name: str, driver: str, gpus: int) -> None:
    report = xml(name)
    assert (len(report.gpus), report.driver.startswith(driver)) == (gpus, True)
    assert all(g.uuid and not g.fault and not g.mig for g in report.gpus)


def test_xml_particulars() -> None:
    assert "counts 6 GPUs and describes 2" in xml("pai__nvidia_smi_sample.xml").problems[0]
    assert xml("pai__nvidia_smi_outdated_gpu.xml").gpus[0].get("utilisation_percent").value is None
    assert xml("telegraf__rtx-3090-v12.xml").gpus[0].get("power_watts").value == 27.23
    assert xml("telegraf__a10g.xml").gpus[0].get("remap_pending").value == "No"
    t4 = xml("telegraf__tesla-t4.xml").gpus[0]
    assert (t4.get("fan_percent").value, t4.get("retirement_pending").value) == (None, "No")


def test_topologies() -> None:
    read = read_topology(shared("a-nvidia-smi/topo_b300_8gpu_9nic.txt"))
    assert [len(i) for i in read.islands()] == [8]
    assert [len(group) for group in read.numa_groups().values()] == [4, 4]
    assert all(read.near_nics(gpu) for gpu in read.gpus)
    assert read_topology(shared("a-nvidia-smi/topo_2x5090_phb.txt")).islands() == (("GPU0",), ("GPU1",))


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("akash_mixed_xids.txt", {43: Act.TELL_OWNER, 31: Act.TELL_OWNER, 94: Act.RESET_WHEN_IDLE}),
        ("xid13_109.txt", {13: Act.TELL_OWNER, 109: Act.RESET}),
        ("gpud__dmesg-with-xid-119.log", {119: Act.RESET}),
        ("gpud__kmsg.2.peermem.log", {}),
        ("xid45_fleet_counts.txt", {}),
    ],
)
def test_kernel_logs(name: str, events: dict[int, Act]) -> None:
    found = read_kernel_log(shared(f"b-xid/{name}").splitlines())
    assert {event.code: event.act for event in found} == events
    assert len(worst(found)) == sum(act.isolates for act in events.values())


def test_application_faults_take_nothing_away() -> None:
    found = read_kernel_log(shared("b-xid/gpud__dmesg.decode.iso.log").splitlines())
    assert found
    assert worst(found) == {}


def test_acts_agree_with_nvidias_catalogue() -> None:
    rows = [r for r in csv.reader(shared("b-xid/nvidia_xid_catalog__Xids.csv").splitlines()) if r[:1] == ["XID"]]
    buckets = {int(r[1]): r[8] for r in rows if len(r) > 8 and r[1].isdigit() and "Unused" not in r[3]}
    assert buckets
    for code, bucket in buckets.items():
        act = act_of(code)
        if bucket == "IGNORE" and code != 43:  # the owner is told of 43
            assert act is Act.IGNORE, code
        if bucket == "RESET_GPU":
            assert act is Act.RESET, code
        if bucket == "RESTART_APP" and code != 94:  # contained, yet its row is remapped by a reset
            assert act is Act.TELL_OWNER, code


def test_metrics() -> None:
    (series,) = [s for s in read_exposition(shared("e-metrics/dcgm_xid_label.prom")) if "xid" in s.labels]
    assert (series.name, series.labels["xid"]) == ("DCGM_FI_DEV_XID_ERRORS_ACTIVE", "42")
    load = read_exposition(shared(f"e-metrics/nvidia_gpu_exporter__linux-x86_64__{CAPTURES[3][0]}__load.metrics"))
    idle = read_exposition(shared(f"e-metrics/nvidia_gpu_exporter__linux-x86_64__{CAPTURES[0][0]}__idle.metrics"))
    assert any(s.name == "nvidia_smi_clocks_current_sm_clock_hz" and s.value == 1.98e9 for s in load)
    assert not [s for s in idle if "ecc_errors" in s.name]
    names = Counter(s.name for s in load)
    assert names.most_common(1)


@pytest.mark.parametrize("name", ["1.x-compatibility-metrics", "dcp-metrics-included", "default-counters"])
def test_counter_lists(name: str) -> None:
    counters = read_counters(shared(f"e-metrics/dcgm-exporter__{name}.csv"))
    assert len(counters) > 10
    assert set(counters.values()) <= {"gauge", "counter", "label"}


def test_the_list_of_a_capture() -> None:
    capture = shared(f"a-nvidia-smi/capture__linux-x86_64__{CAPTURES[3][0]}.txt")
    assert [g.model for g in read_list(section(capture, "capabilities :: list")).gpus] == ["NVIDIA H200"]
