"""A user's client: signs in, submits with an Idempotency-Key, and repeats until it has its answer."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import httpx

ANSWER_WITHIN_S = 240.0
_AGAIN = frozenset({401, 409, 429, 500, 502, 503, 504})


class ClientError(Exception):
    """The API refused for good, or gave no answer in time."""


class Client:
    """One user of one tenant."""

    def __init__(self, base_url: str, email: str, password: str) -> None:
        self._http = httpx.Client(base_url=f"{base_url}/api/v1/", timeout=60, trust_env=False)
        self._credentials = {"email": email, "password": password}
        self._access = ""

    def sign_in(self) -> None:
        """Get an access token, which is good for minutes."""
        self._access = str(self._insist("POST", "auth/token", json=self._credentials)[0].json()["access"])

    def submit(self, spec: dict[str, Any], key: str) -> tuple[dict[str, Any], int]:
        """Submit once, however often it takes; return the job and how often it was repeated."""
        answer, repeats = self._insist("POST", "jobs", json=spec, headers={"Idempotency-Key": key})
        return dict(answer.json()), repeats

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job."""
        return dict(self._insist("GET", f"jobs/{job_id}")[0].json())

    def log(self, job_id: str, attempt: int) -> bytes:
        """Return the whole log of an attempt."""
        return self._insist("GET", f"jobs/{job_id}/log/download", params={"attempt": attempt})[0].content

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        self._insist("POST", f"jobs/{job_id}/cancel")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _insist(self, method: str, path: str, **options: Any) -> tuple[httpx.Response, int]:
        deadline, repeats = time.monotonic() + ANSWER_WITHIN_S, 0
        headers = options.pop("headers", {})
        while True:
            problem = ""
            try:
                authorization = {"Authorization": f"Bearer {self._access}"} if self._access else {}
                answer = self._http.request(method, path, headers={**headers, **authorization}, **options)
                if answer.is_success:
                    return answer, repeats
                problem = f"{answer.status_code} {answer.text[:300]}"
                if answer.status_code not in _AGAIN:
                    raise ClientError(f"{method} {path}: {problem}")
                if answer.status_code == 401 and path != "auth/token":
                    self._access = ""
                    self.sign_in()
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            if time.monotonic() > deadline:
                raise ClientError(f"{method} {path}: no answer within {ANSWER_WITHIN_S:.0f} s: {problem}")
            repeats += 1
            time.sleep(0.3)


class Submission(threading.Thread):
    """A submit under way, which a parked request may hold for long."""

    def __init__(self, client: Client, spec: dict[str, Any]) -> None:
        super().__init__(name=f"submit-{spec['name']}", daemon=True)
        self._client = client
        self._spec = spec
        self.job: dict[str, Any] | None = None
        self.repeats = 0
        self.error = ""

    def run(self) -> None:
        """The thread."""
        try:
            self.job, self.repeats = self._client.submit(self._spec, str(uuid.uuid4()))
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
