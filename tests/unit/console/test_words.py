"""The console speaks both languages completely."""

import ast
import re
import struct
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "locale" / "zh_Hans" / "LC_MESSAGES"
LINE = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d)\])? (".*")$')
Catalogue = dict[str, str]


def read_po(path: Path) -> tuple[Catalogue, list[str]]:
    """Returns msgid → msgstr as a .mo file has it, and the flags used."""
    found: Catalogue = {}
    flags: list[str] = []
    for block in path.read_text().split("\n\n"):
        parts: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            match = LINE.match(line)
            if match:
                key = match[1] + (match[2] or "")
                parts[key] = ast.literal_eval(match[3])
            elif line.startswith('"'):
                parts[key] += ast.literal_eval(line)
            elif line.startswith("#,"):
                flags.append(line)
        if "msgid" in parts:
            name = parts["msgid"] + (f"\0{parts['msgid_plural']}" if "msgid_plural" in parts else "")
            found[f"{parts['msgctxt']}\x04{name}" if "msgctxt" in parts else name] = parts.get(
                "msgstr", parts.get("msgstr0", "")
            )
    return found, flags


def read_mo(path: Path) -> Catalogue:
    """Returns the contents of a .mo file."""
    data = path.read_bytes()
    count, originals, translations = struct.unpack_from("<3I", data, 8)

    def text(table: int, i: int) -> str:
        length, offset = struct.unpack_from("<2I", data, table + 8 * i)
        return data[offset : offset + length].decode()

    return {text(originals, i): text(translations, i) for i in range(count)}


@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_every_message_has_its_chinese_and_the_compiled_file_is_current(domain: str) -> None:
    catalogue, flags = read_po(FOLDER / f"{domain}.po")
    assert [name for name, text in catalogue.items() if not text] == []
    assert not [flag for flag in flags if "fuzzy" in flag]
    assert read_mo(FOLDER / f"{domain}.mo") == catalogue


@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_placeholders_are_the_same_in_both_languages(domain: str) -> None:
    catalogue, _ = read_po(FOLDER / f"{domain}.po")
    holders = re.compile(r"%\(\w+\)[.\d]*\w")
    for name, text in catalogue.items():
        if name:
            assert set(holders.findall(name)) == set(holders.findall(text)), name


def test_the_words_are_those_of_the_word_list() -> None:
    catalogue, _ = read_po(FOLDER / "django.po")
    wanted = {
        "pending": "排队中", "placed": "已分配", "starting": "启动中", "running": "运行中", "stopping": "停止中",
        "ended": "已结束", "succeeded": "成功", "failed": "失败", "cancelled": "已取消", "lost": "已丢失",
        "Nodes": "节点", "Jobs": "作业", "Tenant": "租户", "Cordon": "停止调度", "Drain": "排空",
        "unreachable": "失联", "down": "离线", "maintenance": "维护", "Requeue": "重新排队", "Quota": "配额",
        "Host key fingerprint": "主机密钥指纹", "Image": "镜像",
    }  # fmt: skip
    assert {name: catalogue[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("folder", "pattern", "call", "domain"),
    [
        ("templates", "*.html", r'\{% trans "([^"]+)" %\}', "django"),
        ("apps", "*.py", r'\b(?:_|gettext_lazy)\(\s*"((?:[^"\\]|\\.)+)"\s*\)', "django"),
        ("static/js", "*.js", r'\b_\("([^"]+)"\)', "djangojs"),
    ],
)
def test_what_the_sources_say_is_in_the_catalogue(folder: str, pattern: str, call: str, domain: str) -> None:
    catalogue, _ = read_po(FOLDER / f"{domain}.po")
    sources = sorted((FOLDER.parents[2] / folder).rglob(pattern))
    said = {text.replace('\\"', '"') for path in sources for text in re.findall(call, path.read_text())}
    assert said
    assert sorted(said - catalogue.keys()) == [], "run manage.py makemessages, translate, run msgfmt"
