"""Simulated GPU nodes on one Linux machine: real sshd, podman, cgroups and namespaces, a mock NVML. Needs root."""

from portal.sandbox.cluster import SandboxCluster
from portal.sandbox.errors import SandboxError
from portal.sandbox.node import SandboxNode

__all__ = ["SandboxCluster", "SandboxError", "SandboxNode"]
