"""A portal in memory that answers as docs/api.md says; tests make it break where they want."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx

ADA = "ada@example.org"
PASSWORD = "correct horse"
TIME = "2026-11-30T12:00:00Z"
FINGERPRINT = "SHA256:" + "q" * 43


class BrokenStream(httpx.SyncByteStream):
    """A body that breaks off after some bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        if self._body:
            yield self._body
        raise httpx.ReadError("connection reset")


class FakePortal:
    """State and answers; `before` may raise or answer in place of the portal."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.logs: dict[tuple[str, int], bytes] = {}
        self.sealed: set[tuple[str, int]] = set()
        self.outputs: dict[str, bytes] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, int] = {}
        self.keys: dict[str, dict[str, Any]] = {}
        self.requests: list[httpx.Request] = []
        self.tenants = [{"id": str(uuid.uuid4()), "slug": "lab", "name": "Lab", "role": "owner"}]
        self.quota: list[dict[str, Any]] = [{"resource": "gpus", "used": 2, "ceiling": 8}]
        self.token = 0
        self.expires_in = 600
        self.before: Callable[[httpx.Request], httpx.Response | None] = lambda request: None
        self.log_answer: Callable[[httpx.Response], httpx.Response] = lambda answer: answer
        self.on_get_job: Callable[[dict[str, Any]], None] = lambda job: None
        self.on_get_node: Callable[[dict[str, Any]], None] = lambda node: None

    # -- what tests set up

    def add_job(self, name: str = "digits", *, state: str = "pending", result: str = "", **more: Any) -> dict[str, Any]:
        """Puts a job in."""
        job = {
            "id": str(uuid.uuid4()), "name": name, "state": state, "result": result, "shown_state": result or state,
            "seq": 1, "spec": spec_of(name), "created_by": ADA, "created_at": TIME, "started_at": None,
            "ended_at": None, "cancel_requested_at": None, "waits": None, "end": None, "attempts": [],
            "gpu_seconds": None, **more,
        }  # fmt: skip
        self.jobs[job["id"]] = job
        self.events[job["id"]] = [{"seq": 1, "name": "job.submitted", "data": {}, "at": TIME}]
        return job

    def run(self, job: dict[str, Any], log: bytes = b"", no: int = 1) -> None:
        """Makes the job run, with this log so far."""
        job.update(state="running", shown_state="running", result="", started_at=TIME, waits=None, end=None)
        job["attempts"] = [*job["attempts"][: no - 1], attempt_of(no)]
        self.logs[job["id"], no] = log

    def end(self, job: dict[str, Any], result: str = "succeeded", *, code: int = 0) -> None:
        """Ends the job and seals its log."""
        reason = "exited" if not code else "exit_code"
        text = "Finished with exit code 0." if not code else f"The command ended with exit code {code}."
        step = "" if not code else "The last lines of the log usually say why."
        end = {"reason": reason, "text": text, "next_step": step, "detail": "", "exit_code": code, "signal": ""}
        job.update(state="ended", result=result, shown_state=result, ended_at="2026-11-30T12:00:21Z", end=end)
        if job["attempts"]:
            last = job["attempts"][-1]
            last.update(state="ended", end_reason=reason, exit_code=code)
            self.sealed.add((job["id"], last["no"]))

    def add_node(self, name: str = "gpu-01", **more: Any) -> dict[str, Any]:
        """Puts a node in."""
        node = {
            "id": str(uuid.uuid4()), "name": name, "address": "10.0.0.11", "port": 22, "ssh_user": "root",
            "state": "enrolling", "state_detail": "fetching the host key", "state_changed_at": TIME, "seq": 1,
            "host_key_fingerprint": "", "offered_fingerprint": "", "boot_id": "", "agent_version": "",
            "clock_skew_ms": None, "last_alive_at": None, "cpu_milli": 0, "cpu_milli_used": 0, "memory_mib": 0,
            "memory_mib_used": 0, "gpus": [], "inventory": {}, "preflight": [], "jobs": [], **more,
        }  # fmt: skip
        self.nodes[name] = node
        return node

    # -- answers

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answers one request."""
        request.read()
        self.requests.append(request)
        early = self.before(request)
        if early is not None:
            return early
        parts = request.url.path.removeprefix("/api/v1/").split("/")
        if parts[0] == "auth":
            return self._auth(parts[1], json.loads(request.content))
        if request.headers.get("Authorization") != f"Bearer access-{self.token}":
            return problem(401, "not_authenticated", "The token is not valid.")
        answer: httpx.Response = getattr(self, f"_{parts[0]}")(request, parts[1:])
        return answer

    def _auth(self, what: str, body: dict[str, Any]) -> httpx.Response:
        if what == "logout":
            return httpx.Response(204)
        if what == "token" and body != {"email": ADA, "password": PASSWORD}:
            return problem(401, "sign_in_failed", "Email or password is wrong.")
        if what == "refresh" and body["refresh"] != f"refresh-{self.token}":
            return problem(401, "token_not_valid", "The token is blacklisted.")
        self.token += 1
        tokens = {"access": f"access-{self.token}", "refresh": f"refresh-{self.token}", "expires_in": self.expires_in}
        return httpx.Response(200, json=tokens)

    def _me(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        me = {"id": str(uuid.uuid4()), "email": ADA, "name": "Ada", "is_operator": True, "language": "en"}
        return httpx.Response(200, json={**me, "tenants": self.tenants})

    def _quota(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        return httpx.Response(200, json={"results": self.quota})

    def _files(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        digest = hashlib.sha256(request.content).hexdigest()
        self.files[digest] = len(request.content)
        return httpx.Response(201, json={"sha256": digest, "size": len(request.content)})

    def _jobs(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        if not parts:
            return self._submit(request) if request.method == "POST" else self._list(request, list(self.jobs.values()))
        job = self.jobs.get(parts[0])
        if job is None:
            return problem(404, "not_found", "There is no such job.")
        if len(parts) == 1:
            self.on_get_job(job)
            return httpx.Response(200, json=job)
        verb: httpx.Response = getattr(self, f"_job_{parts[1]}")(request, job)
        return verb

    def _submit(self, request: httpx.Request) -> httpx.Response:
        key, body = request.headers["Idempotency-Key"], json.loads(request.content)
        if key not in self.keys:
            given = {key: value for key, value in body.items() if key != "env"}
            job = self.add_job(body["name"])
            job["spec"] |= given | {"env_names": sorted(body.get("env", {}))}
            self.keys[key] = job
        return httpx.Response(201, json=self.keys[key])

    def _list(self, request: httpx.Request, rows: list[dict[str, Any]]) -> httpx.Response:
        query = request.url.params
        search, state = query.get("search", ""), query.get("state", "")
        rows = [row for row in reversed(rows) if search in row["name"]]
        rows = [row for row in rows if state in ("", row["state"], row.get("shown_state"))]
        begin, limit = int(query.get("cursor", 0)), int(query["limit"])
        cursor = str(begin + limit) if begin + limit < len(rows) else None
        return httpx.Response(200, json={"results": rows[begin : begin + limit], "next_cursor": cursor})

    def _job_cancel(self, request: httpx.Request, job: dict[str, Any]) -> httpx.Response:
        if job["state"] == "ended":
            return problem(409, "conflict", f"The job has ended ({job['result']}).")
        job.update(state="stopping", shown_state="stopping")
        return httpx.Response(200, json=job)

    def _job_requeue(self, request: httpx.Request, job: dict[str, Any]) -> httpx.Response:
        job.update(state="pending", shown_state="pending", result="")
        return httpx.Response(200, json=job)

    def _job_clone(self, request: httpx.Request, job: dict[str, Any]) -> httpx.Response:
        changes = json.loads(request.content)
        twin = self.add_job(changes.get("name", job["name"]))
        twin["spec"] = job["spec"] | changes
        return httpx.Response(201, json=twin)

    def _job_events(self, request: httpx.Request, job: dict[str, Any]) -> httpx.Response:
        after = int(request.url.params.get("after", 0))
        return httpx.Response(200, json={"results": [e for e in self.events[job["id"]] if e["seq"] > after][:2]})

    def _job_outputs(self, request: httpx.Request, job: dict[str, Any]) -> httpx.Response:
        body, wanted = self.outputs[job["id"]], request.headers.get("Range")
        if wanted:
            begin = int(wanted.removeprefix("bytes=").rstrip("-"))
            return self.log_answer(httpx.Response(206, stream=httpx.ByteStream(body[begin:])))
        return self.log_answer(httpx.Response(200, stream=httpx.ByteStream(body)))

    def _job_log(self, request: httpx.Request, job: dict[str, Any]) -> httpx.Response:
        query = request.url.params
        no = int(query.get("attempt") or (job["attempts"][-1]["no"] if job["attempts"] else 0))
        body, wanted = self.logs.get((job["id"], no), b""), int(query.get("offset", 0))
        begin = min(wanted if wanted >= 0 else max(0, len(body) + wanted), len(body))
        complete = (job["id"], no) in self.sealed or (not no and job["state"] == "ended")
        headers = {
            "Berth-Attempt": str(no), "Berth-Offset": str(begin), "Berth-Length": str(len(body)),
            "Berth-Complete": str(complete).lower(), "Berth-Truncated": "false",
        }  # fmt: skip
        if complete and no:
            headers["Berth-SHA256"] = hashlib.sha256(body).hexdigest()
        part = body[begin : begin + int(query.get("limit", 1 << 20))]
        return self.log_answer(httpx.Response(200, stream=httpx.ByteStream(part), headers=headers))

    def _nodes(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        if not parts and request.method == "POST":
            body = json.loads(request.content)
            return httpx.Response(201, json=self.add_node(body["name"], address=body["address"]))
        if not parts:
            return self._list(request, list(self.nodes.values()))
        node = next((one for one in self.nodes.values() if parts[0] in (one["name"], one["id"])), None)
        if node is None:
            return problem(404, "not_found", "There is no such node.")
        if len(parts) == 1:
            self.on_get_node(node)
        else:
            self._node_act(node, parts[1], json.loads(request.content))
        return httpx.Response(200, json=node)

    def _node_act(self, node: dict[str, Any], what: str, body: dict[str, Any]) -> None:
        states = {
            "cordon": "cordoned", "uncordon": "ready", "drain": "draining", "maintenance": "maintenance",
            "retire": "retired",
        }  # fmt: skip
        if what == "trust":
            node.update(host_key_fingerprint=body["fingerprint"], state_detail="connecting")
        else:
            node.update(state=states[what], state_detail=body.get("reason", ""))


def problem(status: int, code: str, detail: str, **errors: Any) -> httpx.Response:
    """Returns a problem document."""
    body = {"type": "about:blank", "title": "Not possible", "status": status, "detail": detail, "code": code}
    return httpx.Response(status, json={**body, "errors": errors})


def spec_of(name: str) -> dict[str, Any]:
    """Returns a spec as the portal shows it."""
    return {
        "name": name, "image": "local/digits:1", "command": ["python", "train.py"], "env_names": [], "gpus": 1,
        "gpu_model": "", "gpu_memory_mib": 0, "cpus": 1.0, "memory_mib": 1024, "shm_mib": 64, "time_limit_s": 86400,
        "max_retries": 0, "files": [],
    }  # fmt: skip


def attempt_of(no: int) -> dict[str, Any]:
    """Returns a running attempt."""
    return {
        "id": str(uuid.uuid4()), "no": no, "state": "running", "node": "gpu-01", "end_reason": "", "end_detail": "",
        "exit_code": None, "signal": "", "created_at": TIME, "started_at": TIME, "ended_at": None,
        "gpu_uuids": ["GPU-1"], "log_bytes": 0, "log_sha256": "", "log_truncated": False, "outputs_bytes": 0,
        "outputs_sha256": "", "progress": {},
    }  # fmt: skip


def gpu_of(index: int, **more: Any) -> dict[str, Any]:
    """Returns an idle GPU."""
    return {
        "id": str(uuid.uuid4()), "uuid": f"GPU-{index}", "pci_address": f"0000:0{index}:00.0", "index": index,
        "model": "NVIDIA H100", "memory_mib": 81920, "health": "ok", "health_detail": "", "share_free": 1000, **more,
    }  # fmt: skip
