"""What every Transport does, the real one and the stand-in of tests alike."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
import uuid

import pytest

from workers.nodeops.quoting import as_root, quote
from workers.ssh import SshError, SshTimeout, TransferFailed, Transport

NASTY = [
    "plain",
    "",
    " a  b ",
    "it's",
    'say "x"',
    "$HOME `id` $(id)",
    "!!",
    "a\\b\\\\'c",
    "*?[a]{b,c}",
    "~root",
    "-n",
    "#;&|<>",
    "é中",
]


class TransportContract:
    """Subclasses give `transport` (a fixture) and nothing else."""

    def test_output_exit_code_and_stdin(self, transport: Transport) -> None:
        result = transport.exec("cat; echo err >&2; exit 7", stdin=b"in\0\xff", timeout_s=20)
        assert (result.rc, result.stdout, result.stderr) == (7, b"in\0\xff", b"err\n")

    def test_much_output_on_both(self, transport: Transport) -> None:
        script = "head -c 3000000 /dev/zero; head -c 300000 /dev/zero >&2; head -c 1000000 /dev/zero"
        result = transport.exec(script, timeout_s=30)
        assert (len(result.stdout), len(result.stderr)) == (4_000_000, 300_000)

    def test_a_command_that_ignores_its_stdin(self, transport: Transport) -> None:
        assert transport.exec("exit 3", stdin=bytes(900_000), timeout_s=20).rc == 3

    def test_deadline(self, transport: Transport) -> None:
        began = time.monotonic()
        with pytest.raises(SshTimeout):
            transport.exec("sleep 30", timeout_s=0.5)
        assert time.monotonic() - began < 20
        assert transport.exec("echo again", timeout_s=20).stdout == b"again\n"

    def test_quoting(self, transport: Transport) -> None:
        result = transport.exec("printf '<%s>' " + " ".join(map(quote, NASTY)), timeout_s=20)
        assert result.stdout.decode() == "".join(f"<{word}>" for word in NASTY)

    def test_root_script_with_arguments(self, transport: Transport) -> None:
        result = transport.exec(as_root('id -u; printf "<%s>" "$@"', *NASTY), timeout_s=20)
        assert result.stdout.decode() == "0\n" + "".join(f"<{word}>" for word in NASTY)

    def test_put(self, transport: Transport) -> None:
        path = f"/tmp/berth-put-{uuid.uuid4()}/a file"
        data = bytes(range(256)) * 20_000
        try:
            transport.put(
                path, (data[at : at + 70_000] for at in range(0, len(data), 70_000)), mode=0o640, timeout_s=30
            )
            told = transport.exec(
                f"sha256sum < {quote(path)}; stat -c %a {quote(path)}; ls -A {quote(path)}/..", timeout_s=20
            )
            transport.put(path, [b"new"], timeout_s=20)
            after = transport.exec(f"cat {quote(path)}; stat -c %a {quote(path)}", timeout_s=20)
        finally:
            transport.exec(f"rm -rf {quote(path.rpartition('/')[0])}", timeout_s=20)
        assert told.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
        assert told.stdout.split()[2] == b"640"
        assert after.stdout == b"new600\n"

    def test_put_where_nothing_can_be_written(self, transport: Transport) -> None:
        with pytest.raises(TransferFailed):
            transport.put("/proc/nothing/here", [b"x"], timeout_s=20)

    def test_stream_both_ways(self, transport: Transport) -> None:
        stream = transport.open_stream("cat; echo bye >&2")
        stream.set_deadline(20)
        stream.send(b"ping\0")
        got = b""
        while len(got) < 5:
            got += stream.recv(100)
        assert got == b"ping\0"
        stream.set_deadline(0.2)
        with pytest.raises(SshTimeout):
            stream.recv(100)
        stream.close()
        stream.close()

    def test_end_of_a_stream_and_its_last_words(self, transport: Transport) -> None:
        stream = transport.open_stream("echo out; echo sorry >&2; exit 1")
        stream.set_deadline(20)
        got = b""
        while chunk := stream.recv(100):
            got += chunk
        assert got == b"out\n"
        assert stream.last_words == "sorry"
        stream.close()

    def test_close_from_another_thread_ends_a_recv(self, transport: Transport) -> None:
        stream = transport.open_stream("sleep 100")
        stream.set_deadline(60)
        ended = threading.Event()

        def read() -> None:
            with contextlib.suppress(SshError):
                stream.recv(1)
            ended.set()

        thread = threading.Thread(target=read)
        thread.start()
        stream.close()
        assert ended.wait(20)
        thread.join()

    def test_closed(self, transport: Transport) -> None:
        alive = [transport.alive]
        transport.close()
        assert [*alive, transport.alive] == [True, False]
        with pytest.raises(SshError):
            transport.exec("true", timeout_s=5)
