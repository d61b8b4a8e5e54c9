"""The real transport: one paramiko connection per node, pinned, bounded in channels and time."""

from __future__ import annotations

import contextlib
import io
import logging
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import paramiko

from workers.nodeops.quoting import discard_command, rename_command, upload_command
from workers.ssh.types import (
    AuthFailed,
    ByteStream,
    ExecResult,
    HostKey,
    HostKeyMismatch,
    HostUnreachable,
    SshError,
    SshTarget,
    SshTimeout,
    TransferFailed,
    Transport,
)

MAX_CHANNELS = 8  # a stock sshd allows 10 sessions and frees them late
MAX_OUTPUT_BYTES = 8 << 20
_TCP_USER_TIMEOUT = 18
_DEAD_AFTER_MS = 6000
_KEEPALIVE_S = 2
_CHUNK = 1 << 16
_WINDOW_BYTES = 4 << 20
_PACKET_BYTES = 1 << 18  # in packets of 32 KiB half of a fast stream's time goes into their bookkeeping
_SEND_S = 10.0

# Every failure becomes an error with advice here; paramiko's own lines about it would only be noise.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_KEY_TYPES: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def scan_host_key(host: str, port: int, *, timeout_s: float = 10) -> HostKey:
    """Ask a host for its key without signing in; raises HostUnreachable."""
    transport = _handshake(host, port, None, timeout_s)
    try:
        return _shown_key(transport)
    finally:
        transport.close()


def connect(
    target: SshTarget,
    *,
    host_key: HostKey,
    private_key: str | None,
    password: str | None = None,
    timeout_s: float = 10,
) -> Transport:
    """Sign in with a key or a password; raises HostUnreachable, HostKeyMismatch, AuthFailed."""
    if (private_key is None) == (password is None):
        raise ValueError("give a private key or a password")
    transport = _handshake(target.host, target.port, host_key, timeout_s)
    try:
        shown = _shown_key(transport)
        if shown != host_key:
            raise HostKeyMismatch(
                f"{target.host} shows the key {shown.fingerprint}, pinned is {host_key.fingerprint}: "
                "if it was reinstalled, trust the new key on its page; if not, someone may be in between"
            )
        _sign_in(transport, target, private_key, password)
    except BaseException:
        transport.close()
        raise
    transport.set_keepalive(_KEEPALIVE_S)
    return ParamikoTransport(transport, f"{target.user}@{target.host}:{target.port}")


class ParamikoTransport:
    """A Transport over one signed-in paramiko connection."""

    def __init__(self, transport: paramiko.Transport, name: str) -> None:
        self._transport = transport
        self._name = name
        self._slots = threading.BoundedSemaphore(MAX_CHANNELS)

    @property
    def alive(self) -> bool:
        return self._transport.is_active()

    def exec(self, command: str, *, stdin: bytes = b"", timeout_s: float) -> ExecResult:
        deadline = time.monotonic() + timeout_s
        with self._session(command, deadline) as channel:
            _send(channel, [stdin], deadline)
            return _collect(channel, deadline)

    def open_stream(self, command: str, *, timeout_s: float = 10) -> ByteStream:
        deadline = time.monotonic() + timeout_s
        self._take_slot(deadline)
        try:
            return ParamikoStream(self._channel(command, deadline), self._slots.release)
        except BaseException:
            self._slots.release()
            raise

    def put(self, path: str, chunks: Iterable[bytes], *, mode: int = 0o600, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{secrets.token_hex(6)}.part"
        try:
            with self._session(upload_command(path, temporary, mode), deadline) as channel:
                sent = _send(channel, chunks, deadline)
                result = _collect(channel, deadline)
            # Renamed by a second command: a connection that breaks looks like the end of the file to the first.
            if result.rc != 0 or result.stdout.split()[-1:] != [str(sent).encode()]:
                words = result.stderr.decode(errors="replace").strip()[-300:]
                raise TransferFailed(f"{path} could not be written on {self._name}: {words or 'not all bytes arrived'}")
            self._must(rename_command(path, temporary), deadline)
        except TransferFailed:
            with contextlib.suppress(SshError):
                self.exec(discard_command(temporary), timeout_s=10)
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _must(self, command: str, deadline: float) -> None:
        result = self.exec(command, timeout_s=max(1.0, deadline - time.monotonic()))
        if result.rc != 0:
            raise TransferFailed(result.stderr.decode(errors="replace").strip()[-300:] or "the rename failed")

    @contextlib.contextmanager
    def _session(self, command: str, deadline: float) -> Iterator[paramiko.Channel]:
        self._take_slot(deadline)
        try:
            channel = self._channel(command, deadline)
            try:
                yield channel
            except TimeoutError:
                raise SshTimeout(f"{self._name} did not finish a command in time") from None
            except (OSError, EOFError, paramiko.SSHException) as error:
                raise self._died(error) from None
            finally:
                _close(channel)
        finally:
            self._slots.release()

    def _take_slot(self, deadline: float) -> None:
        if not self._slots.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise SshTimeout(f"{self._name}: all {MAX_CHANNELS} channels stayed busy until the deadline")

    def _channel(self, command: str, deadline: float) -> paramiko.Channel:
        channel = self._open_session(deadline)
        try:
            channel.settimeout(max(0.1, deadline - time.monotonic()))
            channel.exec_command(command)  # workers.nodeops quotes every command  # nosec B601
        except (OSError, EOFError, paramiko.SSHException) as error:
            _close(channel)
            raise self._died(error) from None
        return channel

    def _open_session(self, deadline: float) -> paramiko.Channel:
        """Open a session, patiently: sshd frees earlier ones late, and a refusal then only means `not yet`."""
        pause = 0.05
        while True:
            try:
                return self._transport.open_session(timeout=max(0.1, deadline - time.monotonic()))
            except (OSError, EOFError, paramiko.SSHException) as error:
                # Not only ChannelException: with several refusals at once paramiko tells some threads no reason.
                if not self._transport.is_active():
                    raise self._died(error) from None
                if time.monotonic() + pause >= deadline:
                    raise SshTimeout(f"{self._name} opened no session in time ({error})") from None
            time.sleep(pause)
            pause = min(1.0, pause * 2)

    def _died(self, error: Exception) -> SshError:
        if self._transport.is_active():
            return SshTimeout(f"{self._name} does not answer in time ({error or 'timeout'})")
        return HostUnreachable(f"the connection to {self._name} died ({error or type(error).__name__}): connect again")


class ParamikoStream:
    """A ByteStream over one channel; stderr is drained, its last words are kept."""

    def __init__(self, channel: paramiko.Channel, release: Callable[[], None]) -> None:
        self._channel = channel
        channel.settimeout(_SEND_S)  # of sends alone: recv waits by select, so that the two don't share one timeout
        self._deadline: float | None = None
        self._descriptor = channel.fileno()
        self._release: Callable[[], None] | None = release
        self._lock = threading.Lock()
        self._last_words = b""

    def send(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise SshTimeout("the node does not read") from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostUnreachable(f"the stream is closed ({error})") from None

    def recv(self, max_bytes: int) -> bytes:
        until = None if self._deadline is None else time.monotonic() + self._deadline
        while not (self._channel.recv_ready() or self._channel.eof_received or self._channel.closed):
            self._drain_stderr()
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise SshTimeout("the node sends nothing")
            _wait_readable(self._descriptor, left)
        try:
            return self._channel.recv(max_bytes)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostUnreachable(f"the stream is closed ({error})") from None

    def set_deadline(self, seconds: float | None) -> None:
        self._deadline = seconds

    def close(self) -> None:
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            _close(self._channel)
            release()

    @property
    def last_words(self) -> str:
        """The end of what the command wrote to stderr."""
        self._drain_stderr()
        return self._last_words.decode(errors="replace").strip()

    def _drain_stderr(self) -> None:
        while self._channel.recv_stderr_ready():
            self._last_words = (self._last_words + self._channel.recv_stderr(_CHUNK))[-1000:]


def _handshake(host: str, port: int, pinned: HostKey | None, timeout_s: float) -> paramiko.Transport:
    try:
        sock = socket.create_connection((host, port), timeout=timeout_s)
    except socket.gaierror:
        raise HostUnreachable(f"{host!r} is no address and no known name: check the spelling") from None
    except ConnectionRefusedError:
        raise HostUnreachable(f"nothing listens on {host}:{port}: is sshd running there, is the port right?") from None
    except OSError as error:
        raise HostUnreachable(f"{host}:{port} can't be reached ({error}): check power, network, firewall") from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Both are needed: the keepalive makes traffic, and unanswered traffic is what the timeout notices.
    sock.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, _DEAD_AFTER_MS)
    try:
        transport = paramiko.Transport(sock, default_window_size=_WINDOW_BYTES, default_max_packet_size=_PACKET_BYTES)
        transport.banner_timeout = transport.auth_timeout = timeout_s
        options = transport.get_security_options()
        # AES-GCM needs no second pass over the bytes for their authentication code: twice as fast.
        usable = [name for name in options.ciphers if "cbc" not in name]
        options.ciphers = sorted(usable, key=lambda name: "gcm" not in name)
        if pinned is not None:
            options.key_types = _key_types(pinned.type, tuple(options.key_types))
        transport.start_client(timeout=timeout_s)
    except paramiko.SSHException as error:
        sock.close()
        if pinned is not None and "host key" in str(error):
            raise HostKeyMismatch(f"{host} no longer has a host key of the pinned type {pinned.type}") from None
        raise HostUnreachable(
            f"{host}:{port} does not speak SSH with us ({error}): is it sshd, and is it overloaded (MaxStartups)?"
        ) from None
    except (OSError, EOFError) as error:
        sock.close()
        raise HostUnreachable(f"{host}:{port} closed the connection while greeting ({error})") from None
    return transport


def _key_types(pinned: str, offered: tuple[str, ...]) -> list[str]:
    """Ask for the pinned key's type alone, so that a host with several keys shows the one we know."""
    wanted = {"rsa-sha2-512", "rsa-sha2-256"} if pinned == "ssh-rsa" else {pinned}
    return [name for name in offered if name in wanted] or list(offered)


def _shown_key(transport: paramiko.Transport) -> HostKey:
    try:
        key = transport.get_remote_server_key()
    except paramiko.SSHException:  # start_client returns in silence when its time is over
        raise HostUnreachable("the host began to greet and stopped: is it frozen or overloaded?") from None
    return HostKey(key.get_name(), key.get_base64())


def _sign_in(transport: paramiko.Transport, target: SshTarget, private_key: str | None, password: str | None) -> None:
    try:
        if private_key is not None:
            transport.auth_publickey(target.user, _load_key(private_key))
        elif password is not None:
            transport.auth_password(target.user, password)
    except paramiko.BadAuthenticationType as error:
        allowed = ", ".join(error.allowed_types)
        raise AuthFailed(f"{target.host} accepts only {allowed} for {target.user}: use that, or allow this") from None
    except paramiko.AuthenticationException:
        what = "the key: is its public line in authorized_keys?" if private_key else "the password"
        raise AuthFailed(f"{target.host} refuses {target.user} with {what}") from None
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise HostUnreachable(f"{target.host} broke off while signing in ({error})") from None
    if not transport.is_authenticated():
        raise AuthFailed(f"{target.host} wants another factor for {target.user}: give it a user with key sign-in alone")


def _load_key(text: str) -> paramiko.PKey:
    for kind in _KEY_TYPES:
        try:
            return kind.from_private_key(io.StringIO(text))
        except (paramiko.SSHException, ValueError, IndexError):
            continue
    raise AuthFailed("the private key can't be read: give an unencrypted Ed25519, ECDSA or RSA key in OpenSSH form")


def _send(channel: paramiko.Channel, chunks: Iterable[bytes], deadline: float) -> int:
    sent = 0
    for chunk in chunks:
        if chunk:
            channel.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                channel.sendall(chunk)
            except OSError:
                if channel.closed or channel.eof_received:
                    break  # the command has ended without reading all of it: its own words tell why
                raise
            sent += len(chunk)
    with contextlib.suppress(OSError):
        _end_input(channel)
    return sent


def _close(channel: paramiko.Channel) -> None:
    """Close a channel; on a connection that is dead already there is nothing left to say."""
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        channel.close()


def _end_input(channel: paramiko.Channel) -> None:
    """Send the end of the input, never after the channel's CLOSE.

    paramiko's own shutdown_write builds the message under the channel's lock and sends it outside. When the command
    ends in that moment, the CLOSE overtakes it, and sshd drops the whole connection: "ieof packet referred to
    nonexistent channel". Seen once in a few runs of 200 commands at once.
    """
    inside: Any = channel  # its private halves of shutdown_write
    with inside.lock:
        message = inside._send_eof()
        if message is not None:
            inside.transport._send_user_message(message)


def _wait_readable(descriptor: int, timeout_s: float | None) -> None:
    """Wait at most a second: a close from another thread takes the descriptor away unseen."""
    poller = select.poll()  # select() knows no descriptor above 1023
    poller.register(descriptor, select.POLLIN)
    poller.poll(1000 * (1.0 if timeout_s is None else min(timeout_s, 1.0)))


def _collect(channel: paramiko.Channel, deadline: float) -> ExecResult:
    """Both outputs to their end without a thread; raises TimeoutError at the deadline."""
    out, err = bytearray(), bytearray()
    descriptor = channel.fileno()
    while True:
        ended = channel.eof_received or channel.closed
        while channel.recv_ready():
            out += channel.recv(_CHUNK)
        while channel.recv_stderr_ready():
            err += channel.recv_stderr(_CHUNK)
        if len(out) + len(err) > MAX_OUTPUT_BYTES:
            raise SshError(f"a command wrote more than {MAX_OUTPUT_BYTES} bytes")
        if ended:
            break
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        _wait_readable(descriptor, left)
    if not channel.status_event.wait(max(0.1, deadline - time.monotonic())):
        raise TimeoutError
    return ExecResult(channel.exit_status, bytes(out), bytes(err))
