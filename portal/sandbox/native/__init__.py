"""C sources and shell steps of the sandbox, and their cached build."""

import hashlib
import shutil
from pathlib import Path

from portal.sandbox.shell import require_tools, run

HERE = Path(__file__).parent
BOOT = HERE / "boot.sh"
ENTER = HERE / "enter.sh"
LIBRARY = "libnvidia-ml.so.1"
_COMMON = ["gcc", "-O2", "-Wall", "-Wextra"]
_SHARED = ["-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}"]
_NVML = ["state.c", "nvml.c", "nvml_health.c"]
_TARGETS = {
    LIBRARY: [*_SHARED, *_NVML],
    "nvidia-smi": ["-static", "smi.c", "smi_fields.c", *_NVML],
    "gpuhook": ["-static", "gpuhook.c"],
    "init": ["-static", "init.c"],
}


def build(cache: Path) -> Path:
    """Compile the mock NVML, nvidia-smi, the GPU hook and init once per source text; return their folder."""
    digest = hashlib.sha256(repr(_TARGETS).encode())
    for source in sorted([*HERE.glob("*.c"), *HERE.glob("*.h")]):
        digest.update(source.name.encode() + source.read_bytes())
    folder = cache / digest.hexdigest()[:16]
    if folder.is_dir():
        return folder
    require_tools(["gcc"])
    scratch = cache / f".{folder.name}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for target, arguments in _TARGETS.items():
        sources = [str(HERE / word) if word.endswith(".c") else word for word in arguments]
        run([*_COMMON, "-o", str(scratch / target), *sources], timeout_s=120)
    scratch.rename(folder)
    return folder
