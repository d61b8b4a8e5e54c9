"""The `berth` command: a client of Berth's HTTP and WebSocket API that can be installed alone."""

__version__ = "0.1.0"
