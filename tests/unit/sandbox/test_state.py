"""What a sandbox cluster keeps on disk."""

import threading
from pathlib import Path

import pytest

from portal.sandbox import SandboxError
from portal.sandbox.cluster import saved_cluster
from portal.sandbox.errors import DamagedStateError
from portal.sandbox.gpus import new_gpus
from portal.sandbox.state import NodeSpec, load_spec, locked, save_spec, write_atomic

SPEC = NodeSpec("gpu-1", 10, new_gpus(2), "NVIDIA H100", 81559, None, 2048)


def test_a_description_comes_back_as_it_was(tmp_path: Path) -> None:
    save_spec(tmp_path / "node.json", SPEC)
    assert load_spec(tmp_path / "node.json") == SPEC


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"gpus": [{"minor": 0}]}', '{"gpus": [], "colour": 1}'])
def test_a_damaged_description_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "node.json").write_text(text)
    with pytest.raises(DamagedStateError, match="is damaged"):
        load_spec(tmp_path / "node.json")


def test_write_atomic_sets_the_mode_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_atomic(path, "one", mode=0o600)
    write_atomic(path, "two", mode=0o600)
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_held_elsewhere_is_waited_for_in_vain(tmp_path: Path) -> None:
    path = tmp_path / "locks/node"
    with locked(path), pytest.raises(SandboxError, match="stayed locked"), locked(path, timeout_s=0):
        pass
    with locked(path, timeout_s=0):
        pass


def test_a_lock_keeps_threads_apart(tmp_path: Path) -> None:
    inside: list[int] = []
    worst: list[int] = []

    def work() -> None:
        with locked(tmp_path / "lock"):
            inside.append(1)
            worst.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == [1] * 8


def test_the_saved_cluster_is_found_again(tmp_path: Path) -> None:
    assert saved_cluster(tmp_path) is None
    (tmp_path / "cluster.json").write_text('{"name": "ab", "subnet": "10.1.2.0/24"}')
    assert saved_cluster(tmp_path) == ("ab", "10.1.2.0/24")
