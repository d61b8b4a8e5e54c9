"""A person submits a job in a browser, watches it and cancels it; the page survives the death of its server."""

import hashlib
import re
import uuid

import pytest
from playwright.sync_api import FilePayload, expect

from apps.core.clock import utc_now
from apps.core.tenancy import system_scope
from apps.monitoring.services import readings_store
from apps.monitoring.types import GpuReading
from apps.scheduling.services import cycle_run
from apps.workloads.models import AllocationDevice, Attempt, Job
from tests.journeys.conftest import Visit, Web, until
from tests.spine_world import PlayedNode, make_node, submit
from tests.world import World, job_exits, job_runs

pytestmark = [pytest.mark.journey]


def extend(node: PlayedNode, attempt_id: uuid.UUID, offset: int, data: bytes) -> int:
    """Appends bytes to a log as the node worker does; returns its length."""
    return node.send(attempt_id, data, offset=offset)


def newest_attempt() -> uuid.UUID:
    with system_scope():
        return Attempt.objects.latest("created_at").id


def test_submit_watch_cancel(world: World, visit: Visit) -> None:
    page = visit.page
    node = make_node()
    visit.sign_in(world.bob)
    page.keyboard.press("n")
    page.wait_for_url("**/jobs/new")
    page.get_by_label("Name").fill("no blanks allowed")
    page.get_by_label("Image").fill("localhost/demo:1")
    page.get_by_label("Command").fill("python train.py --lr '0.1 0.2'")
    page.get_by_label("Environment").fill("SEED=7")
    expect(page.locator("#preview-yaml")).to_contain_text('command: ["python", "train.py", "--lr", "0.1 0.2"]')
    page.get_by_role("button", name="Submit job").click()
    expect(page.locator('[data-field="name"] .field-error')).to_contain_text("Use letters, digits")
    expect(page.get_by_label("Command")).to_have_value("python train.py --lr '0.1 0.2'")
    expect(page.get_by_label("Environment")).to_have_value("SEED=7")
    page.get_by_label("Name").fill("watched")
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    expect(page.locator("#job-lead")).to_contain_text("Waiting for the scheduler to look at it.")
    visit.is_live()
    page.evaluate("window.sameDocument = true")

    cycle_run(now=utc_now())
    expect(page.locator("#job-live .state")).to_have_text("placed")
    attempt = newest_attempt()
    node.status(attempt, "preparing")
    node.status(attempt, "created", container_id="c1")
    node.status(attempt, "running", started_mono_ns=1, started_utc_ns=1, boot_id="boot-1", container_id="c1")
    expect(page.locator("#job-live .state")).to_have_text("running")
    length = 0
    for line in (b"epoch 1\rEPOCH 1\n", b"caf\xc3", b"\xa9 \x1b[32mgreen", b"\x1b[0m \x00 \xff\n"):
        length = extend(node, attempt, length, line)
    until(lambda: visit.log() == "EPOCH 1\ncafé green ␀ �\n", "the log arrives")
    assert page.locator(".log .f2").inner_text() == "green"
    with system_scope():
        gpu = AllocationDevice.objects.get().gpu.uuid
    reading = GpuReading(
        gpu_uuid=gpu, at=utc_now(), utilisation_percent=91.0, memory_used_mib=2048.0, temperature_celsius=None,
        power_watts=400.0, sm_clock_mhz=None,
    )  # fmt: skip
    readings_store(readings=[reading])
    expect(page.locator(".gpu-row")).to_contain_text("91 %2.0 GiBunknown400 W")
    assert page.evaluate("window.sameDocument") is True

    page.locator("#act-cancel").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#job-live .state").first).to_have_text("stopping")
    visit.is_live()
    node.status(
        attempt, "exited", exit_code=143, signal="SIGTERM", oom=False, timed_out=False, stopped="cancelled",
        started_mono_ns=1, ended_mono_ns=2, ended_utc_ns=2, ran_ns=1_000_000_000, streams={},
    )  # fmt: skip
    expect(page.locator("#job-live .state").first).to_have_text("cancelled")
    assert visit.log() == "EPOCH 1\ncafé green ␀ �\n"
    with system_scope():
        assert Job.objects.get().result == "cancelled"


def test_files_go_up_before_the_form_and_a_double_click_makes_one_job(world: World, visit: Visit) -> None:
    page = visit.page
    visit.sign_in(world.bob)
    visit.go("/jobs/new")
    page.get_by_label("Name").fill("with-files")
    page.get_by_label("Image").fill("localhost/demo:1")
    page.get_by_label("Command").fill("cat /berth/in/data/a.txt")
    files: list[FilePayload] = [
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"hello"},
        {"name": "b", "mimeType": "text/plain", "buffer": b""},
    ]
    page.locator("[data-file-input]").set_input_files(files)
    path = page.get_by_label("Path below /berth/in")
    expect(path).to_have_count(2)
    path.first.fill("data/a.txt")
    page.get_by_label("Remove b").click()
    expect(page.locator("#preview-yaml")).to_contain_text("path: data/a.txt")
    page.get_by_role("button", name="Submit job").dblclick()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    with system_scope():
        (file,) = Job.objects.get().files
    assert (file["path"], file["size"], file["sha256"]) == ("data/a.txt", 5, hashlib.sha256(b"hello").hexdigest())


def test_each_attempt_has_its_log(world: World, visit: Visit) -> None:
    page = visit.page
    node = make_node()
    job = submit(world.bob.actor, world.acme)  # type: ignore[arg-type]
    job_exits(node, job_runs(node, job.id), b"first log\n", exit_code=1)
    visit.sign_in(world.bob)
    visit.go(f"/jobs/{job.id}")
    until(lambda: visit.log() == "first log\n", "the first log is shown")
    page.get_by_role("button", name="Requeue").click()
    expect(page.locator("#job-lead")).to_contain_text("Back in the queue")
    until(lambda: visit.log() == "first log\n", "the first log stays while it waits")
    visit.is_live()
    extend(node, job_runs(node, job.id), 0, b"second log\n")
    until(lambda: visit.log() == "second log\n", "the page goes to the new attempt")
    page.locator("[data-log-attempt]").select_option("1")
    until(lambda: visit.log() == "first log\n", "the old log can be looked at")


def test_the_log_is_whole_after_the_server_was_killed(world: World, visit: Visit, web: Web) -> None:
    page = visit.page
    node = make_node()
    job = submit(world.bob.actor, world.acme)  # type: ignore[arg-type]
    attempt = job_runs(node, job.id)
    visit.sign_in(world.bob)
    visit.go(f"/jobs/{job.id}")
    visit.is_live()
    lines = [f"line {i} é\n".encode() for i in range(3000)]
    length = extend(node, attempt, 0, b"".join(lines[:1000]))
    until(lambda: visit.log() == b"".join(lines[:1000]).decode(), "the first part arrives")
    web.kill()
    expect(page.locator("[data-live]")).to_contain_text("reconnecting…")
    length = extend(node, attempt, length, b"".join(lines[1000:2000]))
    web.start()
    visit.is_live()
    until(lambda: visit.log() == b"".join(lines[:2000]).decode(), "what was written meanwhile arrives, once")
    extend(node, attempt, length, b"".join(lines[2000:]))
    until(lambda: visit.log() == b"".join(lines).decode(), "and what comes after")


def test_a_big_log_shows_its_tail_and_stays_bounded(world: World, visit: Visit) -> None:
    page = visit.page
    node = make_node()
    job = submit(world.bob.actor, world.acme)  # type: ignore[arg-type]
    attempt = job_runs(node, job.id)
    chunk = b"".join(b"%09d some words of a training run\n" % i for i in range(25_000))
    length = 0
    for _ in range(30):
        length = extend(node, attempt, length, chunk)
    visit.sign_in(world.bob)
    visit.go(f"/jobs/{job.id}")
    page.wait_for_selector(".log-now", state="attached")
    until(lambda: visit.log().endswith("000024999 some words of a training run\n"), "the tail is shown")
    assert len(visit.log()) <= 256 * 1024
    visit.is_live()
    page.get_by_role("button", name="load earlier").click()
    until(lambda: len(visit.log()) > 512 * 1024, "earlier lines are shown")
    assert visit.log().encode() == (chunk * 2)[-len(visit.log()) :]
    for _ in range(30):
        length = extend(node, attempt, length, chunk)
    extend(node, attempt, length, b"the very end\n")
    until(lambda: visit.log().endswith("the very end\n"), "the new tail is shown")
    assert len(visit.log()) <= 13 * 1024 * 1024
    page.get_by_label("Search the loaded log").fill("very end")
    expect(page.locator("[data-log-hits]")).to_have_text("1 / 1")


CASES = [
    ("plain\n", "plain\n"), ("a\rb\n", "b\n"), ("abc\rX\n", "Xbc\n"), ("10%\r100%\r\n", "100%\n"),
    ("ab\b\bX\n", "Xb\n"),
    ("long line\r\x1b[Kx\n", "x\n"), ("\x1b[1;31mred\x1b[0m\n", "red\n"), ("\x1b]0;title\x07t\x1b(B\x1b[2Jx\n", "tx\n"),
    ("a\x00b\x07\n", "a␀b\n"), ("é检\U0001f600\n", "é检\U0001f600\n"), ("\x1b[38;5;196mx\x1b[38;2;1;2;250my\n", "xy\n"),
    ("<b>&amp;</b>\n", "<b>&amp;</b>\n"),
]  # fmt: skip
READ = """async ([bytes, cut]) => {
  const { LineReader } = await import("/static/js/ansi.js");
  const reader = new LineReader();
  const all = new Uint8Array(bytes);
  const lines = [...reader.feed(all.subarray(0, cut)), ...reader.feed(all.subarray(cut), true)];
  const text = (runs) => runs.map((run) => run[0]).join("");
  return lines.map((runs) => text(runs) + "\\n").join("") + text(reader.runs);
}"""


def test_terminal_text_is_read_the_same_however_it_is_cut(visit: Visit) -> None:
    visit.go("/sign-in")
    for sent, shown in CASES:
        data = sent.encode()
        for cut in range(len(data) + 1):
            assert visit.page.evaluate(READ, [list(data), cut]) == shown, (sent, cut)
    assert visit.page.evaluate(READ, [[0xFF, 0x41, 0xC3, 0x0A], 3]) == "�A�\n"
    long = visit.page.evaluate(READ, [list(b"x" * 20_000), 0])
    assert long.replace("\n", "") == "x" * 20_000
