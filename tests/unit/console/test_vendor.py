"""The third-party files are those on record."""

import pytest

from portal import vendor_static


def test_the_files_are_those_on_record() -> None:
    assert vendor_static.problems() == []


def test_a_changed_file_is_found(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path
    from shutil import copytree

    copy = Path(str(tmp_path)) / "vendor"
    copytree(vendor_static.VENDOR_DIR, copy)
    monkeypatch.setattr(vendor_static, "VENDOR_DIR", copy)
    (copy / "htmx.min.js").write_text("alert(1)")
    (copy / "extra.js").write_text("")
    assert vendor_static.problems() == ["extra.js is not on record", "htmx.min.js is missing or was changed"]
