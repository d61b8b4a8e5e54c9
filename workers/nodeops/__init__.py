"""Facts about nodes, operations on them, and the quoting of every command."""

from workers.nodeops.commands import AGENT_HOME, attach_command, file_path
from workers.nodeops.facts import Facts, gather
from workers.nodeops.install import forget_links, install_agent, install_public_key, put_file
from workers.nodeops.preflight import judge, preflight
from workers.nodeops.types import Check, NodeOpError

__all__ = [
    "AGENT_HOME",
    "Check",
    "Facts",
    "NodeOpError",
    "attach_command",
    "file_path",
    "forget_links",
    "gather",
    "install_agent",
    "install_public_key",
    "judge",
    "preflight",
    "put_file",
]
