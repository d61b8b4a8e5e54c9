"""Brings the console's third-party files from the npm registry, and checks that they are what was brought.

`python -m portal.vendor_static` packs each release with npm, takes the files named here and writes
`static/vendor/VENDOR.json`; `--check` compares the files with it and needs no network.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VENDOR_DIR = Path(__file__).resolve().parent.parent / "static" / "vendor"
RECORD = "VENDOR.json"
PACK_SECONDS = 120

ICONS = [
    "alert-triangle",
    "anchor",
    "archive",
    "arrow-bar-to-down",
    "arrow-down-circle",
    "briefcase",
    "check",
    "chevron-down",
    "chevron-right",
    "circle-check",
    "circle-minus",
    "circle-x",
    "clock",
    "copy",
    "copy-plus",
    "device-desktop",
    "download",
    "fingerprint",
    "info-circle",
    "key",
    "language",
    "loader-2",
    "logout",
    "map-pin",
    "menu-2",
    "moon",
    "player-pause",
    "player-play",
    "player-stop",
    "plug-connected-x",
    "plus",
    "power",
    "progress",
    "refresh",
    "rotate",
    "search",
    "server",
    "shield-check",
    "sun",
    "temperature",
    "text-wrap",
    "tool",
    "trash",
    "upload",
    "user",
    "wifi-off",
    "x",
]

_SVG_BODY = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)


@dataclass(frozen=True)
class Package:
    """A release of an npm package and what becomes of its files: target name → bytes."""

    name: str
    version: str
    licence: str
    make: Callable[[tarfile.TarFile], dict[str, bytes]]


def _read(archive: tarfile.TarFile, path: str) -> bytes:
    member = archive.extractfile(f"package/{path}")
    if member is None:
        raise SystemExit(f"The package has no file {path}.")
    return member.read()


def _tabler(archive: tarfile.TarFile) -> dict[str, bytes]:
    css = _read(archive, "dist/css/tabler.min.css")
    banner = re.search(rb"/\*!(.*?)\*/", css, re.DOTALL)
    if banner is None or b"MIT" not in banner.group(1):
        raise SystemExit("Tabler's style sheet no longer says that it is under the MIT licence.")
    # the map is not shipped, and Django's manifest refuses a reference to a missing file
    css = re.sub(rb"/\*# sourceMappingURL=[^*]*\*/", b"", css)
    # the package carries no licence file; its licence lies in the style sheet's banner
    return {"tabler.min.css": css, "tabler.LICENSE": banner.group(1).strip() + b"\n"}


def _htmx(archive: tarfile.TarFile) -> dict[str, bytes]:
    return {"htmx.min.js": _read(archive, "dist/htmx.min.js"), "htmx.LICENSE": _read(archive, "LICENSE")}


def _icons(archive: tarfile.TarFile) -> dict[str, bytes]:
    symbols = []
    for name in ICONS:
        body = _SVG_BODY.search(_read(archive, f"icons/outline/{name}.svg").decode())
        if body is None:
            raise SystemExit(f"The icon {name} is not an SVG.")
        paths = " ".join(body.group(1).split())
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{paths}</symbol>')
    sprite = '<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n"
    return {"icons.svg": sprite.encode(), "icons.LICENSE": _read(archive, "LICENSE")}


PACKAGES = (
    Package("@tabler/core", "1.6.1", "MIT", _tabler),
    Package("htmx.org", "2.0.11", "0BSD", _htmx),
    Package("@tabler/icons", "3.52.0", "MIT", _icons),
)


def bring() -> None:
    """Fetches every package through npm and writes the files with their record."""
    VENDOR_DIR.mkdir(parents=True, exist_ok=True)
    record = [_bring(package) for package in PACKAGES]
    (VENDOR_DIR / RECORD).write_text(json.dumps(record, indent=2) + "\n")


def _bring(package: Package) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"{package.name}@{package.version}", "--json", "--pack-destination", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PACK_SECONDS, check=True)
        answer = json.loads(done.stdout)[0]
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            files = package.make(archive)
    for name, data in files.items():
        (VENDOR_DIR / name).write_bytes(data)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    return {
        "name": package.name, "version": package.version, "licence": package.licence,
        "integrity": answer["integrity"], "sha256": hashes,
    }  # fmt: skip


def problems() -> list[str]:
    """Returns what does not fit between the files, their record and this module; empty when all is well."""
    record = {entry["name"]: entry for entry in json.loads((VENDOR_DIR / RECORD).read_text())}
    found = [
        f"{p.name} {p.version} is wanted, but not on record: run python -m portal.vendor_static"
        for p in PACKAGES
        if record.get(p.name, {}).get("version") != p.version
    ]
    hashes = {name: sha for entry in record.values() for name, sha in entry["sha256"].items()}
    present = {path.name for path in VENDOR_DIR.iterdir()} - {RECORD}
    found += [f"{name} is not on record" for name in sorted(present - hashes.keys())]
    for name, wanted in sorted(hashes.items()):
        path = VENDOR_DIR / name
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
            found.append(f"{name} is missing or was changed")
    return found


def main() -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m portal.vendor_static", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare the files with their record")
    if not parser.parse_args().check:
        bring()
    found = problems()
    for problem in found:
        sys.stderr.write(f"static/vendor: {problem}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
