"""Nodes, their GPUs, who holds their links, and what was asked of them."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.core import ids
from apps.core.triggers import StateMachine
from apps.fleet.choices import (
    NODE_TRANSITIONS,
    OPERATION_TRANSITIONS,
    WHOLE_SHARE,
    GpuHealth,
    NodeState,
    OperationKind,
    OperationState,
)


class PortalKey(models.Model):
    """The SSH key with which this installation signs in to nodes; the private half is sealed."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    name = models.CharField(max_length=32, unique=True)
    public_line = models.TextField()
    private_sealed = models.BinaryField()
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """A GPU server that Berth reaches by SSH."""

    EVENT_KIND: ClassVar[str] = "node"

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    name = models.SlugField(max_length=63)
    address = models.CharField(max_length=255)
    port = models.PositiveIntegerField(default=22)
    ssh_user = models.CharField(max_length=64, default="root")
    host_key_type = models.CharField(max_length=64, blank=True)
    host_key = models.TextField(blank=True)
    offered_key_type = models.CharField(max_length=64, blank=True)
    offered_key = models.TextField(blank=True)
    expected_fingerprint = models.CharField(max_length=64, blank=True)
    password_sealed = models.BinaryField(null=True, blank=True)
    state = models.CharField(max_length=16, choices=NodeState.choices, default=NodeState.ENROLLING)
    state_changed_at = models.DateTimeField(db_default=Now())
    state_before_loss = models.CharField(max_length=16, choices=NodeState.choices, blank=True)
    state_detail = models.TextField(blank=True)
    seq = models.BigIntegerField(default=0)
    boot_id = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=32, blank=True)
    agent_epoch = models.CharField(max_length=64, blank=True)
    clock_skew_ms = models.BigIntegerField(null=True, blank=True)
    last_alive_at = models.DateTimeField(null=True, blank=True)
    cpu_milli = models.BigIntegerField(default=0)
    cpu_milli_used = models.BigIntegerField(default=0)
    memory_mib = models.BigIntegerField(default=0)
    memory_mib_used = models.BigIntegerField(default=0)
    inventory = models.JSONField(default=dict)
    preflight = models.JSONField(default=list)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name"], condition=~Q(state=NodeState.RETIRED), name="node_name_once"),
            models.UniqueConstraint(
                fields=["address", "port"], condition=~Q(state=NodeState.RETIRED), name="node_address_once"
            ),
            models.CheckConstraint(
                condition=Q(cpu_milli_used__gte=0, memory_mib_used__gte=0), name="node_use_not_negative"
            ),
        ]
        triggers = [StateMachine(name="node_state", initial=[NodeState.ENROLLING], transitions=NODE_TRANSITIONS)]

    def __str__(self) -> str:
        return self.name


class GpuDevice(models.Model):
    """One GPU, known by its UUID and PCI address; the index is for display only."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=64, unique=True)
    pci_address = models.CharField(max_length=32)
    index = models.IntegerField(null=True, blank=True)
    model = models.CharField(max_length=120)
    memory_mib = models.BigIntegerField()
    health = models.CharField(max_length=16, choices=GpuHealth.choices, default=GpuHealth.OK)
    health_detail = models.CharField(max_length=255, blank=True)
    share_used = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(share_used__gte=0, share_used__lte=WHOLE_SHARE), name="gpu_share_in_whole"
            )
        ]

    def __str__(self) -> str:
        return f"{self.model} {self.uuid}"


class NodeLink(models.Model):
    """The lease that makes one node-worker process the owner of a node's connection; `token` only grows."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True)
    owner = models.CharField(max_length=128, blank=True)
    token = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField(db_default=Now())
    connected_at = models.DateTimeField(null=True, blank=True)
    last_error = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"{self.node_id} {self.owner} #{self.token}"


class NodeOperation(models.Model):
    """Something asked of a node; one live operation of a kind per object."""

    EVENT_KIND: ClassVar[str] = ""  # the events of its node and its job tell its story

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE)
    kind = models.CharField(max_length=32, choices=OperationKind.choices)
    object_id = models.UUIDField()
    args_sealed = models.BinaryField()
    state = models.CharField(max_length=16, choices=OperationState.choices, default=OperationState.QUEUED)
    state_changed_at = models.DateTimeField(db_default=Now())
    seq = models.BigIntegerField(default=0)
    token = models.BigIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField()
    result = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "object_id"],
                condition=Q(state__in=[OperationState.QUEUED, OperationState.CLAIMED]),
                name="operation_live_once",
            )
        ]
        indexes = [
            models.Index(
                fields=["node", "created_at"],
                condition=Q(state__in=[OperationState.QUEUED, OperationState.CLAIMED]),
                name="operation_live",
            )
        ]
        triggers = [
            StateMachine(name="operation_state", initial=[OperationState.QUEUED], transitions=OPERATION_TRANSITIONS)
        ]

    def __str__(self) -> str:
        return f"{self.kind} on {self.node_id} ({self.state})"
