"""The cluster's image store: one folder that every node reads, so that adding a node imports nothing."""

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from portal.sandbox.errors import SandboxError
from portal.sandbox.shell import require_tools, run

MINI_IMAGE = "localhost/berth-sandbox/mini:1"
UNNAMED_IMAGE = "localhost/berth-sandbox/loaded:1"
RUN_FOLDER = "images-run"
_SHORT = "/mnt"
_APPLETS_IN_PLACE = {"busybox"}


class ImageStore:
    """A podman store below the cluster's state folder, mounted read-only into every node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ensure(self) -> None:
        """Make the store, so that nodes can name it in their storage.conf."""
        if not (self.folder / "overlay-images/images.lock").exists():
            self._podman(["images", "-q"])

    def load(self, archive: Path, name: str | None = None) -> str:
        """Add an image archive (docker or OCI), by default under its own name, or a root file system tar."""
        if not archive.is_file():
            raise SandboxError(f"{archive}: no such image archive")
        if not is_image_archive(archive):
            name = name or UNNAMED_IMAGE
            self._podman(["import", "-q", "-", name], archive=archive)
            return name
        own_name = loaded_name(self._podman(["load", "-q"], archive=archive))
        if name:
            self._podman(["tag", own_name, name])
        return name or own_name

    def names(self) -> list[str]:
        """Return the names of the images in the store."""
        return self._podman(["images", "--format", "{{.Repository}}:{{.Tag}}"]).split()

    def build_mini(self) -> str:
        """Make the tiny busybox image unless it is there; return its name."""
        if MINI_IMAGE in self.names():
            return MINI_IMAGE
        require_tools(["busybox"])
        with tempfile.TemporaryDirectory(prefix="mini.", dir=self.folder.parent) as scratch:
            archive = Path(scratch, "root.tar")
            write_mini_root(archive, Path(shutil.which("busybox") or "/bin/busybox"))
            settings = ["-c", 'CMD ["/bin/sh"]', "-c", "ENV PATH=/bin:/usr/bin"]
            self._podman(["import", "-q", *settings, "-", MINI_IMAGE], archive=archive)
        return MINI_IMAGE

    def _podman(self, arguments: list[str], *, archive: Path | None = None) -> str:
        """Run podman on the store, `archive` as its input, in a mount namespace of its own.

        Podman leaves a bind mount on its store behind, writes the store's path into its database and refuses paths of
        more than 50 characters: hence the namespace, and a short name for the state folder inside it.
        """
        for name in (self.folder.name, RUN_FOLDER):
            self.folder.with_name(name).mkdir(parents=True, exist_ok=True)
        place = ["--root", f"{_SHORT}/{self.folder.name}", "--runroot", f"{_SHORT}/{RUN_FOLDER}/run"]
        place += ["--tmpdir", f"{_SHORT}/{RUN_FOLDER}/own", "--storage-driver", "overlay"]
        modes = ["--cgroup-manager", "cgroupfs", "--events-backend", "none"]
        step = f'mount --bind "$1" {_SHORT} && shift && exec podman "$@"'
        private = ["unshare", "--mount", "--propagation", "private", "sh", "-c", step, "sh", str(self.folder.parent)]
        with (archive or Path(os.devnull)).open("rb") as given:
            return run([*private, *place, *modes, *arguments], input_file=given, timeout_s=600)


def is_image_archive(archive: Path) -> bool:
    """Return whether a tar file is a docker or OCI archive rather than a root file system."""
    try:
        with tarfile.open(archive) as tar:
            names = {member.name.removeprefix("./") for member in tar}
    except tarfile.TarError as error:
        raise SandboxError(f"{archive} is not a tar archive") from error
    return bool({"manifest.json", "index.json"} & names)


def loaded_name(output: str) -> str:
    """Return the name or id that `podman load` reports."""
    lines = [line.partition(":")[2].strip() for line in output.splitlines() if line.startswith("Loaded image")]
    if not lines:
        raise SandboxError("podman loaded no image from the archive")
    return lines[-1].split(",")[0]


def write_mini_root(archive: Path, busybox: Path) -> None:
    """Write a root file system with a static busybox and its applets."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True, timeout=10).stdout.split()
    with tarfile.open(archive, "w") as tar:
        for folder in ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin", "var"):
            _add(tar, folder, tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        tar.add(busybox.resolve(), "bin/busybox")
        for applet in sorted(set(listed) - _APPLETS_IN_PLACE):
            _add(tar, f"bin/{applet}", tarfile.SYMTYPE, target="busybox")
        for name, line in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")):
            with tempfile.TemporaryFile() as text:
                text.write(line.encode())
                member = tarfile.TarInfo(f"etc/{name}")
                member.size = text.tell()
                text.seek(0)
                tar.addfile(member, text)


def _add(tar: tarfile.TarFile, name: str, kind: bytes, *, mode: int = 0o755, target: str = "") -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.linkname = kind, mode, target
    tar.addfile(member)
