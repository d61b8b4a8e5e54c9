"""What import contracts can't say of the house."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPS = sorted(p.name for p in (ROOT / "apps").iterdir() if (p / "__init__.py").exists())
STATE_DOOR = ROOT / "apps/core/state.py"


def sources(*folders: str) -> list[Path]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in paths if "migrations" not in path.parts]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return names


@pytest.mark.parametrize("path", sources("apps", "workers", "cli"), ids=lambda p: str(p.relative_to(ROOT)))
def test_models_are_private_to_their_app(path: Path) -> None:
    own = path.relative_to(ROOT).parts[1] if path.is_relative_to(ROOT / "apps") else ""
    shared = {"apps.core.models", f"apps.{own}.models"}
    others = {n for n in imported(path) if n.startswith("apps.") and n.endswith(".models")} - shared
    allowed = {"apps.accounts.models"}  # Django's user model is everybody's
    assert not others - allowed, f"{path} reaches into another app's models: {others}"


@pytest.mark.parametrize("path", sources("apps"), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_catch_all_files(path: Path) -> None:
    assert path.name not in {"signals.py", "tasks.py", "utils.py", "helpers.py", "common.py"}


@pytest.mark.parametrize("path", sources("apps/scheduling/engine"), ids=lambda p: p.name)
def test_engines_are_pure(path: Path) -> None:
    banned = {
        "time",
        "datetime",
        "random",
        "os",
        "socket",
        "subprocess",
        "pathlib",
        "django",
        "celery",
        "paramiko",
        "threading",
    }
    found = {name.partition(".")[0] for name in imported(path)} & banned
    assert not found, f"{path} imports {found}: a decision depends on its snapshot only"


def test_importing_the_engine_loads_no_django() -> None:
    heavy = "[m for m in sys.modules if m.split('.')[0] in ('django', 'celery')]"
    code = f"import sys, apps.scheduling.engine; assert not {heavy}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def state_writes(path: Path) -> Iterator[int]:
    """Lines that set a `state` column by assignment or by `.update(state=…)`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("update", "bulk_update")
        ):
            if any(keyword.arg == "state" for keyword in node.keywords) and not _is_plain_dict_update(node):
                yield node.lineno
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == "state" and not _is_self(target):
                    yield node.lineno


def _is_plain_dict_update(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)


def _is_self(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"


@pytest.mark.parametrize("path", sources("apps"), ids=lambda p: str(p.relative_to(ROOT)))
def test_states_are_written_by_the_state_door_only(path: Path) -> None:
    if path != STATE_DOOR:
        assert list(state_writes(path)) == [], f"{path}: use core.state.transition()"


def test_every_tenant_table_gets_its_policy_in_the_migration_that_creates_it() -> None:
    missing = []
    for path in sorted((ROOT / "apps").glob("*/migrations/0*.py")):
        text = path.read_text()
        app = path.parts[-3]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("CreateModel"):
                body = ast.unparse(node)
                name = next(ast.literal_eval(k.value) for k in node.keywords if k.arg == "name")
                is_tenant = "('tenant_id'" in body or "('tenant', models.ForeignKey" in body
                later = f"model_name='{name.lower()}', name='tenant'" in ast.unparse(ast.parse(text))
                if (is_tenant or later) and f'tenant_policy("{app}_{name.lower()}")' not in text:
                    missing.append(f"{app}.{name}")
    assert missing == []


@pytest.mark.parametrize("path", sources("apps", "workers", "portal"), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_is_a_god_file(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 450, "past about 400 lines a file becomes a package"


def test_only_the_ssh_room_knows_paramiko() -> None:
    users = {
        p.relative_to(ROOT).parts[:2] for p in sources("apps", "workers", "portal", "cli") if "paramiko" in imported(p)
    }
    assert users <= {("workers", "ssh")}
