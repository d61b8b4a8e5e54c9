"""Following a job: its state until it ends, or its log byte by byte, through disconnects and restarts."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cli.client import Client
from cli.errors import ApiError, CliError, ExitCode, UnreachableError
from cli.jobs import Job, newest, words
from cli.live import ANEW, Live
from cli.logs import LogReader, Position
from cli.watch import Watch

GIVE_UP_S = 900.0  # without any answer of the portal
LATE_LOG_S = 60.0  # how long the rest of an ended job's log is waited for
BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
SUBSCRIBED_WITHIN_S = 0.2
GATHER_S = 0.25  # a starting job takes several steps within moments


class WatchInterruptedError(CliError):
    """The person pressed Ctrl-C; what was watched goes on."""

    exit_code = ExitCode.INTERRUPTED

    def report(self) -> str:
        """Returns the text for stderr."""
        return "\n" + "\n".join([self.message, *(f"  {line}" for line in self.lines)])


def interrupted(job: Job) -> WatchInterruptedError:
    """Returns what to say at Ctrl-C."""
    lines = [f"Follow it again:  berth job logs -f {job['id']}", f"Cancel it:        berth job cancel {job['id']}"]
    return WatchInterruptedError(f"Stopped watching; job {job['name']} goes on.", lines=lines)


@dataclass
class Patience:
    """Meets a portal that does not answer: notes it once, waits longer each time, gives up in the end."""

    note: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _since: float | None = field(default=None, init=False)
    _failures: int = field(default=0, init=False)

    def failed(self, error: CliError, resume: str) -> float:
        """Returns how long to wait before the next try; raises UnreachableError when it has lasted too long."""
        now = self.clock()
        if self._since is None:
            self._since = now
            self.note(f"{error.message} Trying again …")
        if now - self._since > GIVE_UP_S:
            raise UnreachableError(error.message, hint=f"Nothing was lost. Go on later: {resume}")
        self._failures += 1
        return BACKOFF_S[min(self._failures, len(BACKOFF_S)) - 1]

    def answered(self) -> None:
        """Notes that the portal is back."""
        if self._since is not None:
            self.note("The portal answers again.")
        self._since, self._failures = None, 0


def is_outage(error: CliError) -> bool:
    """Says whether trying again is right: no connection, or a portal that restarts."""
    return isinstance(error, UnreachableError) or (isinstance(error, ApiError) and error.status >= 500)


def wait_for_end(
    client: Client,
    job: Job,
    live: Live,
    watch: Watch,
    *,
    until: Callable[[Job], bool] = lambda job: job["state"] == "ended",
    timeout_s: float | None = None,
) -> Job:
    """Shows where the job stands until it has ended; raises CliError after `timeout_s`."""
    live.subscribe(f"job/{job['id']}")
    patience = Patience(watch.note)
    try:
        while not until(job):
            watch.show(job["shown_state"], words(job))
            left = None if timeout_s is None else timeout_s - watch.elapsed_s
            if left is not None and left <= 0:
                raise CliError(
                    f"Job {job['name']} is still {job['shown_state']} after {timeout_s:g} s; it goes on.",
                    hint=f"Wait again: berth job wait {job['id']}",
                )
            live.wait(left)
            try:
                job = client.get(f"/jobs/{job['id']}")
                patience.answered()
            except CliError as error:
                if not is_outage(error):
                    raise
                live.wait(patience.failed(error, f"berth job wait {job['id']}"))
    except KeyboardInterrupt:
        watch.hide()
        raise interrupted(job) from None
    watch.hide()
    return job


class LogFollower:
    """Prints a job's log as it comes, over all its attempts or one of them."""

    def __init__(
        self, client: Client, job: Job, reader: LogReader, live: Live, watch: Watch, *, only: int | None = None
    ) -> None:
        self._client, self._job, self._reader, self._live, self._watch = client, job, reader, live, watch
        self._only = only
        self._patience = Patience(self._note)
        self._ended_at: float | None = None
        self._read_job_at = 0.0
        self._place = Position(0, 0, 0, False)

    def run(self) -> Job:
        """Prints until the end and returns the job as it then stands."""
        try:
            news = self._begin()
            while not self._step(news):
                news = self._news()
        except KeyboardInterrupt:
            self._watch.hide()
            raise interrupted(self._job) from None
        self._watch.hide()
        return self._job

    def _begin(self) -> set[str]:
        """Subscribes; what the job in hand tells already is not read again: a fresh one has no log yet."""
        job = self._job
        fresh = job["state"] == "pending" and not job["attempts"] and self._only is None
        self._live.subscribe(f"job/{job['id']}", known_seq=job["seq"] if fresh else None)
        if not fresh:
            return self._live.wait(SUBSCRIBED_WITHIN_S) or {ANEW}
        self._read_job_at = time.monotonic()
        self._watch.show(job["shown_state"], words(job))
        return self._news()

    def _news(self) -> set[str]:
        """Waits for what is new; steps of the job's state that follow each other closely are read together."""
        news = self._live.wait() or {ANEW}
        while news == {"event"} and (early := self._read_job_at + GATHER_S - time.monotonic()) > 0:
            news |= self._live.wait(early)
        return news

    def _step(self, news: set[str]) -> bool:
        """Reads what is new; returns whether the end has been printed."""
        try:
            if news & {"log", ANEW}:
                self._read_log()
            if news & {"event", ANEW} or self._place.complete:
                self._read_job()
            self._patience.answered()
        except CliError as error:
            if not is_outage(error):
                raise
            self._wait_out(error)
            return False
        return self._finished()

    def _wait_out(self, error: CliError) -> None:
        where = f" You have {self._reader.offset} bytes of the log." if self._reader.offset else ""
        resume = f"berth job logs -f {self._job['id']}{where}"
        time.sleep(self._patience.failed(error, resume))

    def _read_log(self) -> None:
        try:
            self._place = self._reader.catch_up()
        except ApiError as error:
            # The first attempt may begin between the portal's two looks, at the job and at its log: not yet, then.
            if error.status != 404 or self._reader.attempt is not None:
                raise

    def _read_job(self) -> None:
        self._read_job_at = time.monotonic()
        self._job = self._client.get(f"/jobs/{self._job['id']}")
        if (newest(self._job).get("log_bytes") or 0) > self._reader.offset or self._job["state"] == "ended":
            self._read_log()
        if self._job["state"] == "pending" or (not self._reader.offset and self._job["state"] != "ended"):
            self._watch.show(self._job["shown_state"], words(self._job))

    def _finished(self) -> bool:
        if self._only is not None:
            return self._place.complete and self._place.attempt > 0
        if self._next_attempt_due():
            return self._step({ANEW})
        if self._job["state"] != "ended":
            self._ended_at = None
            return False
        if self._place.complete or not newest(self._job):
            return True
        return self._too_late()

    def _next_attempt_due(self) -> bool:
        """Goes on to the next attempt once this one's log is complete, or the next one is well under way."""
        last, place = newest(self._job), self._place
        if not place.attempt or place.attempt >= last.get("no", 0):
            return False
        if not place.complete and last["state"] not in ("running", "stopping", "ended"):
            return False
        rest = "" if place.complete else " The end of its log has not reached the portal."
        self._note(f"Attempt {place.attempt} ended.{rest} Attempt {place.attempt + 1} follows.")
        self._reader.next_attempt()
        return True

    def _too_late(self) -> bool:
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        if now - self._ended_at <= LATE_LOG_S:
            return False
        self._note("The end of the log has not reached the portal; what came was printed.")
        return True

    def _note(self, text: str) -> None:
        self._watch.note(text)
