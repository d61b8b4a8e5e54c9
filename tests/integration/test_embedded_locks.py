"""Locks and ports against the real kernel."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from portal.embedded import locks
from portal.env import EnvError, load


def test_a_port_in_use_is_named_and_can_be_passed_over(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        env = load({"BERTH_DATA_DIR": str(tmp_path), "BERTH_HTTP_PORT": str(port)})
        with pytest.raises(EnvError, match="BERTH_HTTP_PORT"):
            env.check_port()
        assert env.with_free_port().http_port > port


def test_a_lock_lives_as_long_as_the_process_that_inherited_it(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    lock = locks.acquire(path)
    assert lock is not None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.descriptor])
    lock.note(child.pid)
    lock.release()
    assert locks.acquire(path) is None
    assert locks.is_held(path)
    assert locks.noted_pid(path) == child.pid
    assert locks.holders(path) == [child.pid]
    child.kill()
    child.wait()
    assert locks.wait_until_free(path, 5)
    assert locks.noted_pid(path) is None
    assert not locks.is_held(path)


def test_a_noted_pid_that_is_another_process_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.write_text(f"{os.getppid()}\n")
    assert locks.noted_pid(path) is None
    path.write_text("cut sho")
    assert locks.noted_pid(path) is None


def test_shared_locks_go_together(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    first, second = locks.acquire(path, shared=True), locks.acquire(path, shared=True)
    assert first is not None
    assert second is not None
    assert locks.acquire(path) is None
    first.release()
    second.release()
    alone = locks.acquire(path)
    assert alone is not None
    alone.release()


def test_a_child_that_is_being_forked_holds_no_lock_up(tmp_path: Path) -> None:
    """Between fork and exec a child has every descriptor of its parent: closing ours would not unlock."""
    path = tmp_path / "children.lock"
    alone = locks.acquire(path)
    assert alone is not None
    child_has_it = os.dup(alone.descriptor)
    alone.share()
    shared = locks.acquire(path, shared=True)
    assert shared is not None
    shared.drop()
    alone.drop()
    assert not locks.is_held(path)
    assert locks.wait_until_free(path, 0.0)
    os.close(child_has_it)
