"""Roles and what they permit; resources that a quota counts."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.core.access import Permission


class Role(models.TextChoices):
    """A member's role in a tenant."""

    OWNER = "owner", _("owner")
    MEMBER = "member", _("member")


MEMBER_PERMISSIONS = frozenset(
    {Permission.JOB_VIEW, Permission.JOB_SUBMIT, Permission.MEMBER_VIEW, Permission.USAGE_VIEW}
)

ROLE_PERMISSIONS: dict[str, frozenset[Permission]] = {
    Role.MEMBER: MEMBER_PERMISSIONS,
    Role.OWNER: MEMBER_PERMISSIONS | {Permission.JOB_MANAGE, Permission.AUDIT_VIEW, Permission.TENANT_MANAGE},
}

OPERATOR_PERMISSIONS = frozenset(
    {Permission.NODE_VIEW, Permission.NODE_MANAGE, Permission.TENANT_MANAGE, Permission.AUDIT_VIEW}
)


class Resource(models.TextChoices):
    """What a quota counts: jobs not yet ended (checked at submit), GPUs in use (checked at placement)."""

    JOBS = "jobs", _("jobs")
    GPUS = "gpus", _("GPUs")
