"""Record, state, spec, inputs and outputs."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agent import spec as specs
from workers.agent.build import build, built_agent
from workers.agent.failpoints import Failpoints
from workers.agent.holder import hold, release, release_strays
from workers.agent.inputs import drop_unused, place_inputs
from workers.agent.outputs import spool_outputs
from workers.agent.paths import DEFAULT_HOME, Paths
from workers.agent.process import ProcessId, Wake
from workers.agent.pump import open_fifo
from workers.agent.record import Record
from workers.agent.spool import Spool
from workers.agent.state import AttemptState

ATTEMPT = "11111111-1111-4111-8111-111111111111"
SPEC: dict[str, Any] = {
    "attempt_id": ATTEMPT,
    "job_id": "j-1",
    "tenant_id": "t-1",
    "image": "localhost/a/b:1",
    "command": ["true"],
    "env": {"A": "b"},
    "gpus": ["GPU-1"],
    "cpus": 1.5,
    "memory_mib": 512,
    "shm_mib": 64,
    "time_limit_s": 0,
    "stop_grace_s": 10,
    "log_limit_bytes": 1 << 30,
    "outputs_limit_bytes": 1 << 30,
    "files": [{"path": "a/b", "sha256": "0" * 64, "size": 1}],
    "network": "none",
}


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(Paths.of(str(tmp_path / "home")))


def again(record: Record) -> Record:
    return Record(record._paths)


def test_epoch_and_heartbeat_stay(record: Record) -> None:
    beat = record.beat()
    other = again(record)
    assert other.epoch == record.epoch
    assert other.last_alive == beat
    assert again(other).last_alive == beat


def test_journal_notes_each_life_once(record: Record, tmp_path: Path) -> None:
    record.journal("start", ATTEMPT, "c1", pid=7)
    record.journal("start", ATTEMPT, "c1", pid=7)
    other = again(record)
    other.journal("start", ATTEMPT, "c1", pid=7)
    other.journal("start", ATTEMPT, "c1", pid=8)
    other.journal("start", ATTEMPT, "c1", pid=0)
    lines = (tmp_path / "home/record/journal").read_text().splitlines()
    assert len(lines) == 2
    with (tmp_path / "home/record/journal").open("a") as file:
        file.write('{"half')
    assert not again(record).removed(ATTEMPT)
    record.journal("remove", ATTEMPT, "")
    assert record.removed(ATTEMPT)


def test_link_tokens_only_grow(record: Record) -> None:
    assert [record.accept_token(n) for n in (3, 3, 2)] == [True, True, False]
    assert not again(record).accept_token(2)
    assert again(record).accept_token(4)


def test_results_are_kept_until_forgotten(record: Record) -> None:
    result = {"id": "../../etc/x", "token": 1}
    record.save_result(result)
    assert again(record).results() == [result]
    assert record.result("../../etc/x") == result
    record.forget_result("../../etc/x")
    record.forget_result("../../etc/x")
    assert record.results() == []


def test_half_made_attempts_are_dropped(record: Record, tmp_path: Path) -> None:
    (tmp_path / "home/record/attempts/half").mkdir()
    whole = tmp_path / "home/record/attempts/whole"
    whole.mkdir()
    (whole / "state.json").write_text("{}")
    assert record.attempt_ids() == ["whole"]


def test_statuses_are_numbered_kept_and_acknowledged(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    state = AttemptState(str(tmp_path), heard.append)
    state.report("preparing", job="j")
    for layers in range(3):
        state.report("pulling", data={"done": layers})
    state.report("running", process=[1, 2])
    assert [status["seq"] for status in heard] == [1, 2, 3, 4, 5]
    reloaded = AttemptState(str(tmp_path), heard.append)
    assert [(one["seq"], one["state"]) for one in reloaded.pending()] == [
        (1, "preparing"),
        (4, "pulling"),
        (5, "running"),
    ]
    assert reloaded.process("process") == ProcessId(1, 2)
    reloaded.acknowledge(4)
    assert not reloaded.acknowledged
    reloaded.acknowledge(5)
    assert AttemptState(str(tmp_path), heard.append).acknowledged


def test_a_whole_spec_passes_unchanged() -> None:
    assert specs.attempt_spec({**SPEC, "more": 1}) == {key: SPEC[key] for key in SPEC if key != "network"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attempt_id", "../x"),
        ("image", "--privileged"),
        ("job_id", "a b"),
        ("cpus", True),
        ("cpus", float("nan")),
        ("memory_mib", 1.5),
        ("time_limit_s", -1),
        ("command", "true"),
        ("command", ["a\0b"]),
        ("env", {"A=B": "x"}),
        ("env", {"A": 1}),
        ("gpus", ["--privileged=1 "]),
        ("files", [{"path": "../x", "sha256": "0" * 64, "size": 1}]),
        ("files", [{"path": "/x", "sha256": "0" * 64, "size": 1}]),
        ("files", [{"path": "a//b", "sha256": "0" * 64, "size": 1}]),
        ("files", [{"path": "a", "sha256": "0" * 63, "size": 1}]),
        ("files", ["a"]),
        ("network", "host"),
    ],
)
def test_bad_specs_are_refused(name: str, value: object) -> None:
    with pytest.raises(specs.ArgsError):
        specs.attempt_spec({**SPEC, name: value})


@given(st.dictionaries(st.sampled_from(sorted(SPEC)), st.none() | st.integers() | st.text() | st.lists(st.text())))
def test_fuzzed_specs_raise_nothing_else(changes: dict[str, Any]) -> None:
    refused = False
    try:
        spec = specs.attempt_spec({**SPEC, **changes})
    except specs.ArgsError:
        refused = True
        spec = {}
    assert refused or spec["attempt_id"] == ATTEMPT


def entry(path: str, data: bytes) -> dict[str, Any]:
    return {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def test_inputs_are_checked_and_linked(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "in"
    store.mkdir()
    good = entry("d/a", b"data")
    (store / good["sha256"]).write_bytes(b"data")
    assert place_inputs(str(store), [good, {**good, "path": "b"}], str(folder)) is None
    assert place_inputs(str(store), [good], str(folder)) is None
    assert (folder / "d/a").read_bytes() == (folder / "b").read_bytes() == b"data"
    for bad, code in (
        (entry("x", b"absent"), "file_missing"),
        ({**good, "path": "d/a/below"}, "file_path"),
        ({**good, "path": "y", "size": 5}, "file_corrupt"),
    ):
        fault = place_inputs(str(store), [bad], str(folder))
        assert fault is not None
        assert fault.code == code
    assert list(store.iterdir()) == []


def test_unused_files_go_after_a_day(tmp_path: Path) -> None:
    for name in ("old", "old-linked", "new"):
        (tmp_path / name).write_text("x")
    os.utime(tmp_path / "old", (1, 1))
    os.utime(tmp_path / "old-linked", (1, 1))
    folder = tmp_path.parent / "elsewhere"
    folder.mkdir()
    os.link(tmp_path / "old-linked", folder / "link")
    drop_unused(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old-linked"]


def tar_of(folder: Path, spool_folder: Path, limit: int) -> tuple[bytes, bool]:
    spool = Spool(str(spool_folder))
    complete = spool_outputs(str(folder), spool, limit)
    data = spool.read(0, spool.length)
    spool.close()
    return data, complete


def test_outputs_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "d").mkdir(parents=True)
    (out / "d/a").write_bytes(b"x" * 5000)
    os.link(out / "d/a", out / "hard")
    (out / "link").symlink_to("/etc/passwd")
    os.mkfifo(out / "fifo")
    (out / os.fsdecode(b"bad\xff")).write_text("name")
    data, complete = tar_of(out, tmp_path / "1", 1 << 20)
    assert (data, complete) == tar_of(out, tmp_path / "2", 1 << 20)
    assert complete
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == [os.fsdecode(b"bad\xff"), "d", "d/a", "hard", "link"]


def test_no_outputs_are_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert tar_of(tmp_path / "out", tmp_path / "1", 1 << 20) == (b"", True)


@given(sizes=st.lists(st.integers(0, 40_000), max_size=8), limit=st.integers(0, 120_000))
def test_outputs_never_pass_their_limit(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int) -> None:
    folder = tmp_path_factory.mktemp("outputs")
    (folder / "out").mkdir()
    for number, size in enumerate(sizes):
        (folder / "out" / str(number)).write_bytes(bytes(size))
    data, complete = tar_of(folder / "out", folder / "1", limit)
    assert len(data) <= max(limit, 10240)
    with tarfile.open(fileobj=io.BytesIO(data or bytes(10240))) as tar:
        assert complete == (len(tar.getnames()) == len(sizes))


def test_failpoints(tmp_path: Path) -> None:
    points = Failpoints(str(tmp_path))
    points.reach("before_create", "k")
    (tmp_path / "before_create").write_text("park other\n")
    assert not points.armed("before_create", "k")
    assert points.armed("before_create", "other")
    (tmp_path / "before_create").write_text("park")
    assert points.armed("before_create", "k")


def test_a_process_is_told_from_a_later_one() -> None:
    me = ProcessId.of(os.getpid())
    assert me is not None
    assert me.alive()
    assert not me._replace(start=me.start + 1).alive()
    assert ProcessId.of(2**22 + 1) is None
    wake = Wake()
    wake.set()
    assert not me.wait(wake, 20)
    assert not me.wait(wake, 0.01)
    assert me._replace(start=1).wait(wake, 20)
    wake.close()
    wake.set()


def test_the_default_run_folder_is_lost_at_a_boot() -> None:
    assert Paths.of(DEFAULT_HOME).run == "/run/berth"
    assert Paths.of("/x").run == "/x/run"


def test_the_same_sources_build_the_same_agent(tmp_path: Path) -> None:
    first, second = build(tmp_path / "1"), build(tmp_path / "2")
    assert first.version == second.version
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.path.name == f"{first.version}.pyz"


def test_stray_holders_are_found_by_their_fifo(tmp_path: Path) -> None:
    fifo = open_fifo(str(tmp_path / "fifo"))
    kept, stray = hold(fifo), hold(fifo)
    os.close(fifo)
    assert kept is not None
    assert stray is not None
    for holder in (kept, stray):  # the kernel shows a command's words a moment after its start
        while not Path(f"/proc/{holder.pid}/cmdline").read_bytes():
            time.sleep(0.001)
    release_strays(str(tmp_path / "elsewhere"), [])
    assert kept.alive()
    assert stray.alive()
    release_strays(str(tmp_path), [kept, None])
    os.waitpid(stray.pid, 0)
    assert kept.alive()
    release(kept)
    assert not kept.alive()


def test_the_first_note_of_a_start_tells_when(record: Record) -> None:
    assert record.start_of(ATTEMPT, "c1") is None
    record.journal("start", ATTEMPT, "c1", pid=7, started_mono_ns=1000)
    record.journal("start", ATTEMPT, "c1", pid=0, started_mono_ns=2000)
    assert record.start_of(ATTEMPT, "c1") == 1000
    assert again(record).start_of(ATTEMPT, "c1") == 1000
    assert record.start_of(ATTEMPT, "c2") is None


def test_the_built_agent_lies_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_DATA_DIR", str(tmp_path))
    assert built_agent.__wrapped__().path.parent == tmp_path / "agent"
    assert len(list((tmp_path / "agent").iterdir())) == 1
