"""Keeps the NVML child running and what it last said."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import threading
import time
from typing import IO, Any, Callable, Dict, List, Optional

from workers.agent import clock
from workers.agent.files import read_text
from workers.agent.host import host_facts
from workers.agent.kernel import KernelLog
from workers.agent.paths import Paths

_AGAIN_S = 60.0
_SILENT_S = 30.0
_BUSY_S, _IDLE_S = 2, 10


class Monitor:
    """GPU samples and inventory; every method returns in bounded time even when the driver hangs."""

    def __init__(self, program: List[str], paths: Paths, version: str, emit: Callable[[Dict[str, Any]], None]) -> None:
        self._program = program
        self._paths = paths
        self._version = version
        self._emit = emit
        self._kernel = KernelLog()
        self._busy: Callable[[], Dict[str, str]] = dict
        self._child: Optional["subprocess.Popen[str]"] = None
        self._stopped = threading.Event()
        self._heard = time.monotonic()
        self._paced = (0, 0)
        self._gpus: Optional[Dict[str, Any]] = None
        self._known = threading.Event()
        self.inventory_hash: Optional[str] = None
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def start(self, busy: Callable[[], Dict[str, str]]) -> None:
        """Begin; `busy` tells the containers that run: {container id: attempt}."""
        self._busy = busy
        self._thread.start()

    def tick(self) -> None:
        """Once a second: set the pace, and say so when the driver stays silent."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        pace = _BUSY_S if self._busy() else _IDLE_S
        if (child.pid, pace) != self._paced:  # only changes: a hung child would let the pipe fill up
            self._paced = (child.pid, pace)
            self._tell(child, str(pace))
        if time.monotonic() - self._heard > _SILENT_S:
            self._heard = time.monotonic()
            self._samples({"gpus": [], "nvml_error": f"the NVIDIA driver has not answered for {_SILENT_S:.0f} s"})

    def inventory(self, timeout_s: float) -> Dict[str, Any]:
        """Facts of the host and its GPUs, read again."""
        self._known.clear()
        child = self._child
        if child is not None and child.poll() is None:
            self._tell(child, "inventory")
            self._known.wait(timeout_s)
        return self._facts()

    def stop(self) -> None:
        """End the child by SIGTERM and wait for it; never SIGKILL, which has frozen GPUs."""
        self._stopped.set()
        child = self._child
        if child is not None and child.poll() is None:
            child.terminate()
            # Stuck in the driver after that? It ends by itself: its stdin closes with us.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(5)
        self._kernel.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            child = subprocess.Popen(
                self._program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                universal_newlines=True,
                cwd="/",
            )
            self._child = child
            if child.stdout is not None:
                self._listen(child.stdout)
            child.wait()
            self._stopped.wait(_AGAIN_S)

    def _listen(self, lines: IO[str]) -> None:
        for line in lines:
            self._heard = time.monotonic()
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.pop("kind", "") == "inventory":
                self._gpus = message
                self._facts()
                self._known.set()
            else:
                self._samples(message)

    def _samples(self, message: Dict[str, Any]) -> None:
        containers = self._busy()
        for gpu in message["gpus"]:
            for process in gpu.get("processes") or []:
                process["attempt"] = _attempt_of(process["pid"], containers)
        self._emit({"type": "samples", **clock.now(), **message, "kernel": self._kernel.lines()})

    def _facts(self) -> Dict[str, Any]:
        silent = {"gpus": [], "nvml_error": "the NVIDIA driver has not answered yet"}
        facts = host_facts(self._paths.home, self._version)
        facts.update({"nvidia_driver": None, "cuda": None}, **(self._gpus or silent))
        steady = {key: value for key, value in facts.items() if key not in ("disk_free_mib", "boot_id")}
        facts["hash"] = hashlib.sha256(json.dumps(steady, sort_keys=True).encode()).hexdigest()
        self.inventory_hash = facts["hash"] if self._gpus is not None else None
        return facts

    @staticmethod
    def _tell(child: "subprocess.Popen[str]", line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has just ended
            if child.stdin is not None:
                child.stdin.write(line + "\n")
                child.stdin.flush()


def _attempt_of(pid: int, containers: Dict[str, str]) -> Optional[str]:
    """The attempt whose container a process is in; NVML's process numbers are the host's."""
    text = read_text(f"/proc/{pid}/cgroup")
    return next((attempt for container, attempt in containers.items() if container in text), None)
