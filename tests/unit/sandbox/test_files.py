"""Texts that the sandbox writes for its nodes, and what it reads from archives."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from portal.sandbox import SandboxError, gpus
from portal.sandbox.disk import check_place, cpuinfo, fingerprint, meminfo, with_root_password
from portal.sandbox.images import is_image_archive, loaded_name, write_mini_root
from portal.sandbox.state import NodeSpec

SPEC = NodeSpec("gpu-1", 10, gpus.new_gpus(2), "NVIDIA L40S", 46068, None, 2048)


def test_gpus_have_identities_of_their_own() -> None:
    made = [*gpus.new_gpus(8), *gpus.new_gpus(8)]
    assert len({gpu.uuid for gpu in made}) == 16
    assert len({gpu.serial for gpu in made}) == 16
    assert [gpu.minor for gpu in made] == [*range(8), *range(8)]
    assert len({gpu.pci_bus for gpu in made[:8]}) == 8


@pytest.mark.parametrize("count", [-1, 17])
def test_impossible_gpu_counts_are_refused(count: int) -> None:
    with pytest.raises(SandboxError, match="0 to 16"):
        gpus.new_gpus(count)


def test_gpu_values_are_kept_in_the_state_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert gpus.read_state(path) == {}
    keys = gpus.first_state(SPEC)
    gpus.write_state(path, gpus.changed(keys, {"temp": 96, "lost": True, "fan": None}, prefix="gpu1."))
    saved = gpus.read_state(path)
    assert (saved["gpu1.temp"], saved["gpu1.lost"], saved["default.name"]) == ("96", "1", "NVIDIA L40S")
    assert gpus.is_lost(saved, 1)
    assert not gpus.is_lost(saved, 0)
    assert gpus.changed(saved, {"temp": None, "lost": None}, prefix="gpu1.") == keys


@pytest.mark.parametrize("values", [{"temp": "1\ngpu0.lost=1"}, {"a=b": 1}, {"a\nb": 1}])
def test_values_that_would_break_the_file_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(SandboxError, match="no line breaks"):
        gpus.changed({}, values)


def test_cdi_names_each_gpu_by_index_and_uuid() -> None:
    document = yaml.safe_load(gpus.cdi_text(SPEC.gpus, "/usr/lib/x"))
    assert document["kind"] == "nvidia.com/gpu"
    names = [device["name"] for device in document["devices"]]
    assert names == ["0", SPEC.gpus[0].uuid, "1", SPEC.gpus[1].uuid, "all"]
    edits = {device["name"]: device["containerEdits"] for device in document["devices"]}
    assert [node["path"] for node in edits["1"]["deviceNodes"]] == ["/dev/nvidia1"]
    assert [node["path"] for node in edits["all"]["deviceNodes"]] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert edits[SPEC.gpus[1].uuid] == edits["1"]


def test_fingerprint_of_a_known_key(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    printed = subprocess.run(["ssh-keygen", "-l", "-f", key], capture_output=True, text=True, check=True).stdout
    assert fingerprint(key.with_suffix(".pub").read_text()) == printed.split()[1]


def test_only_roots_password_is_replaced() -> None:
    shadow = "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n"
    assert with_root_password(shadow, "$6$x$y") == "root:$6$x$y:19000:0:99999:7:::\nsshd:!:19000::::::\n"


def test_meminfo_shows_the_nodes_memory() -> None:
    text = meminfo("MemTotal:       24000000 kB\nMemFree: 1 kB\nBuffers:   7 kB\nSwapTotal:  5 kB\n", 512)
    assert text.splitlines() == [
        "MemTotal:         524288 kB",
        "MemFree:          524288 kB",
        "Buffers:   7 kB",
        "SwapTotal:             0 kB",
    ]


def test_cpuinfo_repeats_the_first_cpu() -> None:
    machine = "processor\t: 0\nmodel name\t: X: 1\ncore id\t\t: 0\n\nprocessor\t: 1\nmodel name\t: X: 1\n\n"
    blocks = cpuinfo(machine, 3).strip().split("\n\n")
    assert [block.splitlines()[0].split()[-1] for block in blocks] == ["0", "1", "2"]
    assert all("model name\t: X: 1" in block for block in blocks)


@pytest.mark.parametrize("place", ["/srv/a b", "/srv/a,b", "/srv/a:b", "/usr/sandbox", "/etc/x", "/var/lib/dpkg"])
def test_places_that_cannot_carry_a_disk_are_refused(place: str) -> None:
    with pytest.raises(SandboxError, match="state folder"):
        check_place(Path(place))


def test_other_places_are_fine() -> None:
    check_place(Path("/var/lib/berth/sandbox"))
    check_place(Path("/user/sandbox"))


def _tar(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def test_image_archives_are_told_from_root_file_systems(tmp_path: Path) -> None:
    assert is_image_archive(_tar(tmp_path / "docker.tar", "manifest.json", "a.tar"))
    assert is_image_archive(_tar(tmp_path / "oci.tar", "./oci-layout", "./index.json"))
    assert not is_image_archive(_tar(tmp_path / "root.tar", "bin/sh", "app/manifest.json"))
    (tmp_path / "junk").write_text("junk")
    with pytest.raises(SandboxError, match="not a tar archive"):
        is_image_archive(tmp_path / "junk")


def test_the_name_that_podman_reports() -> None:
    assert loaded_name("Loaded image: localhost/a:1\n") == "localhost/a:1"
    assert loaded_name("Loaded image(s): localhost/a:1,localhost/a:2\n") == "localhost/a:1"
    assert loaded_name("Loaded image: sha256:ab12\n") == "sha256:ab12"
    with pytest.raises(SandboxError, match="no image"):
        loaded_name("")


def test_the_mini_image_links_every_applet(tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_text("#!/bin/sh\nprintf 'busybox\\nls\\nsh\\n'\n")
    busybox.chmod(0o755)
    write_mini_root(tmp_path / "root.tar", busybox)
    with tarfile.open(tmp_path / "root.tar") as tar:
        links = {member.name: member.linkname for member in tar if member.issym()}
        assert tar.getmember("bin/busybox").isreg()
        assert tar.getmember("tmp").mode == 0o1777
    assert links == {"bin/ls": "busybox", "bin/sh": "busybox"}
