"""Making people and memberships."""

import datetime as dt

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from apps.accounts.models import Membership, User
from apps.audit.services import audit_record
from apps.core.access import Actor, Permission, require
from apps.core.errors import InvalidInput
from apps.core.tenancy import system_scope, tenant_scope
from apps.tenants.types import TenantRef


def user_create(
    *, actor: Actor, email: str, password: str, name: str = "", is_operator: bool = False, now: dt.datetime
) -> User:
    """Creates a person; raises InvalidInput when the address is taken."""
    require(actor, Permission.TENANT_MANAGE)
    try:
        validate_email(email)
    except ValidationError as error:
        raise InvalidInput(
            "A person needs an email address.", errors={"email": "Give one such as ada@example.org."}
        ) from error
    make = User.objects.create_superuser if is_operator else User.objects.create_user
    try:
        with system_scope(), transaction.atomic():
            user = make(email, password, name=name)
            audit_record(
                actor=actor, action="user.create", object_kind="user", object_id=user.id, object_label=user.email,
                tenant_id=None, after={"email": user.email, "is_operator": is_operator}, now=now,
            )  # fmt: skip
    except IntegrityError as error:
        raise InvalidInput("Somebody has this email address.", errors={"email": "Choose another one."}) from error
    return user


def membership_set(*, actor: Actor, tenant: TenantRef, user: User, role: str, now: dt.datetime) -> Membership:
    """Gives a person a role in the tenant, or changes it."""
    require(actor, Permission.TENANT_MANAGE, tenant_id=tenant.id)
    with tenant_scope(tenant.id):
        membership, _ = Membership.objects.update_or_create(tenant_id=tenant.id, user=user, defaults={"role": role})
        audit_record(
            actor=actor, action="membership.set", object_kind="user", object_id=user.id, object_label=user.email,
            tenant_id=tenant.id, after={"role": role}, now=now,
        )  # fmt: skip
    return membership


def signin_record(*, user: User | None, email: str, actor: Actor, outcome: str, now: dt.datetime) -> None:
    """Puts a sign-in, or its failure, on record."""
    with system_scope():
        audit_record(
            actor=actor, action="user.sign_in", object_kind="user", object_id=user.id if user else "",
            object_label=email[:255], tenant_id=None, outcome=outcome, now=now,
        )  # fmt: skip


def user_language_set(*, user: User, language: str) -> None:
    """Keeps the language in which a person reads pages and mails."""
    User.objects.filter(pk=user.pk).update(language=language)
