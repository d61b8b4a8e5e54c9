"""The portal's side of the agent protocol (docs/protocol.md)."""

from workers.agent.wire import DATA_CHUNK, STREAM_LOG, STREAM_OUTPUTS
from workers.link.client import AgentLink, LinkClosedError
from workers.link.types import Alive, Hello, LinkHandler, Op, Result, Samples, Status

__all__ = [
    "DATA_CHUNK",
    "STREAM_LOG",
    "STREAM_OUTPUTS",
    "AgentLink",
    "Alive",
    "Hello",
    "LinkClosedError",
    "LinkHandler",
    "Op",
    "Result",
    "Samples",
    "Status",
]
