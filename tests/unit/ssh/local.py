"""A Transport whose node is this machine: the same contract as the real one, without SSH."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from workers.ssh import ExecResult, HostUnreachable, SshTimeout, TransferFailed


class LocalTransport:
    """Runs each command line by `/bin/sh -c`, as sshd does with the login shell."""

    def __init__(self, env: dict[str, str] | None = None, shell: tuple[str, ...] = ("/bin/sh", "-c")) -> None:
        self._env = env
        self._shell = shell
        self._streams: list[LocalStream] = []
        self._closed = False

    @property
    def alive(self) -> bool:
        return not self._closed

    def exec(self, command: str, *, stdin: bytes = b"", timeout_s: float) -> ExecResult:
        self._check()
        process = self._start(command)
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise SshTimeout("the command did not finish in time") from None
        return ExecResult(process.returncode if process.returncode >= 0 else -1, out, err)

    def open_stream(self, command: str, *, timeout_s: float = 10) -> LocalStream:
        self._check()
        stream = LocalStream(self._start(command))
        self._streams.append(stream)
        return stream

    def put(self, path: str, chunks: Iterable[bytes], *, mode: int = 0o600, timeout_s: float) -> None:
        self._check()
        temporary = Path(f"{path}.part")
        try:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
            temporary.chmod(mode)
            temporary.replace(path)
        except OSError as error:
            raise TransferFailed(str(error)) from None

    def close(self) -> None:
        self._closed = True
        for stream in self._streams:
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise HostUnreachable("the transport is closed")

    def _start(self, command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._shell, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._env,
            start_new_session=True,
        )


class LocalStream:
    """Pipes to one local process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._in, self._out, self._err = process.stdin.fileno(), process.stdout.fileno(), process.stderr.fileno()
        self._deadline: float | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._words = b""

    @property
    def last_words(self) -> str:
        while not self._closed.is_set() and select.select([self._err], [], [], 0)[0]:
            data = os.read(self._err, 4096)
            if not data:
                break
            self._words = (self._words + data)[-1000:]
        return self._words.decode(errors="replace").strip()

    def send(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._in, view) :]
        except OSError as error:
            raise HostUnreachable(f"the stream is closed ({error})") from None

    def recv(self, max_bytes: int) -> bytes:
        waited = 0.0
        while not self._closed.is_set():
            if select.select([self._out], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    return os.read(self._out, max_bytes)
                return b""
            waited += 0.05
            if self._deadline is not None and waited >= self._deadline:
                raise SshTimeout("nothing came")
        return b""

    def set_deadline(self, seconds: float | None) -> None:
        self._deadline = seconds

    def close(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._process.stderr):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
