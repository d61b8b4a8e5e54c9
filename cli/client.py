"""One HTTP client for all verbs: sign-in, tenant header, retries and errors in words."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from cli import __version__
from cli.config import ConfigStore, Profile
from cli.errors import ApiError, CliError, InputError, NotSignedInError, UnreachableError
from cli.problems import problem_of

# httpx imports its own command line (rich, pygments, click) when it can; that doubles our start-up time.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
import httpx  # noqa: E402

REFRESH_BEFORE_S = 30.0
BACKOFF_S = (0.3, 0.7, 1.5, 3.0, 5.0, 5.0, 5.0)
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
BUSY = (502, 503, 504)

Note = Callable[[str], None]


def make_http(profile: Profile, transport: httpx.BaseTransport | None = None) -> httpx.Client:
    """Returns a connection pool for the profile's portal."""
    return httpx.Client(
        base_url=profile.url + "/api/v1",
        verify=tls_context(profile) or False,
        timeout=TIMEOUT,
        transport=transport,
        headers={
            "User-Agent": f"berth-cli/{__version__}",
            "Accept": "application/json",
            "Accept-Language": language(os.environ),
        },
    )


def tls_context(profile: Profile) -> Any:
    """Returns the TLS settings, None for a plain http address (loading certificates costs 40 ms)."""
    if not profile.url.startswith("https:"):
        return None
    import ssl

    import certifi

    try:
        context = ssl.create_default_context(cafile=profile.ca_file or None)
    except OSError as error:
        raise InputError(f"The certificate file {profile.ca_file} can't be read: {error}.") from None
    if not profile.ca_file:
        context.load_verify_locations(certifi.where())  # some systems have no store that Python finds
    return context


def language(environ: Mapping[str, str]) -> str:
    """Returns the language in which the portal shall give its reasons."""
    locale = environ.get("LC_ALL") or environ.get("LC_MESSAGES") or environ.get("LANG") or ""
    return "zh-hans, en;q=0.5" if locale.lower().startswith("zh") else "en"


class Client:
    """Speaks to one portal as one person; keeps the tokens fresh."""

    def __init__(
        self,
        store: ConfigStore,
        profile_name: str,
        profile: Profile,
        *,
        http: httpx.Client,
        tenant: str = "",
        note: Note = lambda text: None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.profile_name, self.profile = store, profile_name, profile
        self.http, self.tenant, self.note, self.sleep, self.now = http, tenant, note, sleep, now

    # -- sign-in

    def sign_in(self, email: str, password: str) -> None:
        """Exchanges the password for tokens; they are kept by the caller's save()."""
        answer = self._send("POST", "/auth/token", json={"email": email, "password": password})
        if answer.status_code in (400, 401, 403):
            problem = problem_of(answer)
            raise NotSignedInError(
                problem.message, lines=problem.lines, hint="Check the email address and the password."
            )
        self._take_tokens(json_of(_checked(answer)), email=email)

    def sign_out(self) -> None:
        """Ends the sign-in on the portal and forgets it here."""
        if self.profile.refresh:
            headers = {"Authorization": f"Bearer {self.profile.access}"}
            answer = self._send("POST", "/auth/logout", json={"refresh": self.profile.refresh}, headers=headers)
            if answer.status_code >= 400 and answer.status_code not in (400, 401):  # those: it has ended already
                _checked(answer)
        self._keep(dataclasses.replace(self.profile, access="", refresh="", expires_at=0.0))

    def access_token(self, *, renew: bool = False) -> str:
        """Returns a token that holds for a while, refreshing it when needed; raises NotSignedInError."""
        if not self.profile.access and not self.profile.refresh:
            raise NotSignedInError("You are not signed in.", hint=self._sign_in_hint())
        stale = self.profile.expires_at - self.now() < REFRESH_BEFORE_S
        if renew or stale:
            self._refresh(self.profile.access)
        return self.profile.access

    def _refresh(self, seen_access: str) -> None:
        # Each refresh token works once, so only one process at a time may use it; the next one finds fresh tokens.
        with self.store.locked():
            _, kept = self.store.profile(self.profile_name)
            if kept.access != seen_access and kept.expires_at - self.now() > REFRESH_BEFORE_S:
                self.profile = kept
                return
            answer = self._send("POST", "/auth/refresh", json={"refresh": kept.refresh or self.profile.refresh})
            if answer.status_code in (400, 401, 403):
                raise NotSignedInError("Your sign-in has ended.", hint=self._sign_in_hint())
            self._take_tokens(json_of(_checked(answer)), email=self.profile.email)

    def _take_tokens(self, tokens: Mapping[str, Any], *, email: str) -> None:
        self._keep(
            dataclasses.replace(
                self.profile,
                email=email,
                access=str(tokens["access"]),
                refresh=str(tokens["refresh"]),
                expires_at=self.now() + float(tokens["expires_in"]),
            )
        )

    def _keep(self, profile: Profile) -> None:
        self.profile = profile
        self.store.save(self.profile_name, profile)

    def _sign_in_hint(self) -> str:
        profile = "" if self.profile_name == "default" else f" --profile {self.profile_name}"
        return f"Sign in: berth login{profile}"

    # -- requests

    def get(self, path: str, **params: Any) -> Any:
        """Returns the JSON answer of a GET; a lost connection is tried again shortly."""
        return json_of(self.request("GET", path, params=_given(params), tries=3))

    def post(self, path: str, body: Any = None) -> Any:
        """Returns the JSON answer of a POST, which is sent once."""
        return json_of(self.request("POST", path, json={} if body is None else body))

    def pages(self, path: str, *, limit: int | None, **params: Any) -> tuple[list[Any], bool]:
        """Returns up to `limit` rows over all pages (None: every row) and whether more stand."""
        rows: list[Any] = []
        cursor: str | None = None
        while True:
            size = 200 if limit is None else min(200, limit - len(rows))
            page = self.get(path, limit=size, cursor=cursor, **params)
            rows += page["results"]
            cursor = page.get("next_cursor")
            if not cursor or (limit is not None and len(rows) >= limit):
                return rows, bool(cursor)

    def request(self, method: str, path: str, *, tries: int = 1, **options: Any) -> httpx.Response:
        """Sends a signed request and returns its good answer; raises ApiError, NotSignedInError, UnreachableError.

        With `tries` above 1 a lost connection or a busy portal is met again: only for requests that may repeat.
        """
        for attempt in range(tries):
            last = attempt == tries - 1
            try:
                answer = self._signed(method, path, **options)
            except UnreachableError as error:
                if last:
                    raise
                self._wait_again(error.message, attempt)
                continue
            busy = answer.status_code in BUSY or problem_of(answer).code == "idempotency_in_flight"
            if busy and not last:
                self._wait_again(f"The portal answered {answer.status_code}.", attempt)
                continue
            return _checked(answer)
        raise AssertionError("tries must be at least 1")

    def _wait_again(self, why: str, attempt: int) -> None:
        if attempt:  # the first repeat comes at once and is nobody's concern
            self.note(f"{why} Trying again …")
        self.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])

    @contextmanager
    def stream(self, path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Iterator[httpx.Response]:
        """Opens a GET whose body is read as it comes; no compression, so that bytes are the stored ones."""
        given = {"Accept": "*/*", "Accept-Encoding": "identity", **(headers or {})}
        answer = self._signed("GET", path, params=_given(params), headers=given, streamed=True)
        try:
            if answer.status_code >= 300:
                answer.read()
                _checked(answer)
            yield answer
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        finally:
            answer.close()

    def _signed(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = dict(options.pop("headers", {}))
        content = options.pop("make_content", None)
        answer: httpx.Response | None = None
        for renew in (False, True):
            headers["Authorization"] = f"Bearer {self.access_token(renew=renew)}"
            if self.tenant:
                headers["Berth-Tenant"] = self.tenant
            if content is not None:
                options["content"] = content()  # a stream can be sent once only
            answer = self._send(method, path, headers=headers, **options)
            if answer.status_code != 401:
                return answer
            answer.close()
        raise NotSignedInError("The portal did not accept your sign-in.", hint=self._sign_in_hint())

    def _send(self, method: str, path: str, *, streamed: bool = False, **options: Any) -> httpx.Response:
        if not self.profile.url:
            raise NotSignedInError(
                "No portal is known yet.", hint="Sign in: berth login --url https://berth.example.org"
            )
        try:
            return self.http.send(self.http.build_request(method, path, **options), stream=streamed)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UnreachableError:
        url, host = self.profile.url, urlsplit(self.profile.url).netloc
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            hint = "Its certificate is not trusted here. For a private authority: berth login --ca-file FILE"
            return UnreachableError(f"The connection to {url} is not safe.", hint=hint)
        reasons: dict[type[Exception], str] = {
            httpx.ConnectError: f"No connection to {url}",
            httpx.ConnectTimeout: f"No connection to {url} within {TIMEOUT.connect:.0f} s",
            httpx.ReadTimeout: f"{url} took the request but did not answer within {TIMEOUT.read:.0f} s",
        }
        why = reasons.get(type(error), f"The connection to {url} broke")
        detail = f" ({text})" if text else ""
        return UnreachableError(
            f"{why}{detail}.", hint=f"Check that the portal runs and that {host} is right and reachable from here."
        )


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if value not in (None, "")}


def json_of(answer: httpx.Response) -> Any:
    """Returns the JSON of a good answer; raises CliError when something else than a portal has answered."""
    try:
        return answer.json()
    except ValueError:
        raise not_a_portal(answer) from None


def not_a_portal(answer: httpx.Response) -> CliError:
    """Returns what to say when the answer is not as a portal gives it."""
    return CliError(
        f"{answer.url} did not answer as a Berth portal does.",
        hint="Is the address right? Set it: berth login --url URL",
    )


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_redirect:
        place = answer.headers.get("Location", "elsewhere")
        raise CliError(f"The portal has moved to {place}.", hint="Sign in there: berth login --url URL")
    if answer.status_code < 400:
        return answer
    problem: ApiError = problem_of(answer)
    raise problem
