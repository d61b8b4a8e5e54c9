"""Tenants and their counters."""

from django.db import models
from django.db.models.functions import Now

from apps.core import ids
from apps.tenants.choices import Resource


class Tenant(models.Model):
    """A group of people who share quota, bill and data; nothing crosses its border."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    slug = models.SlugField(unique=True, max_length=48)
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class QuotaUse(models.Model):
    """One counter of a tenant: `used` moves only by compare-and-add against `ceiling` (null: unlimited)."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    resource = models.CharField(max_length=16, choices=Resource.choices)
    ceiling = models.BigIntegerField(null=True, blank=True)
    used = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "resource"], name="quota_use_once"),
            models.CheckConstraint(condition=models.Q(used__gte=0), name="quota_use_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.resource} {self.used}/{self.ceiling if self.ceiling is not None else '∞'}"
