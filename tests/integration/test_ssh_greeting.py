"""A host that begins to greet and then says nothing, as a frozen node does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from workers.ssh import HostUnreachable, scan_host_key


@pytest.fixture
def mute() -> Iterator[int]:
    """The port of a server that sends its banner and no more."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"SSH-2.0-frozen\r\n")
                over.wait(30)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        over.set()
        thread.join()


def test_it_counts_as_unreachable(mute: int) -> None:
    with pytest.raises(HostUnreachable, match="frozen or overloaded"):
        scan_host_key("127.0.0.1", mute, timeout_s=1)
