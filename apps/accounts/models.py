"""People and what they belong to."""

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models
from django.db.models.functions import Lower, Now

from apps.core import ids
from apps.tenants.choices import Role
from apps.tenants.types import TenantRef


class UserManager(BaseUserManager["User"]):
    """Makes users by email address."""

    def create_user(self, email: str, password: str | None = None, **extra: Any) -> "User":
        """Creates a user; without a password nobody can sign in as him."""
        user = self.model(email=email.strip().lower(), **extra)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **extra: Any) -> "User":
        """Creates an operator who may use the admin site."""
        return self.create_user(email, password, is_operator=True, is_superuser=True, **extra)


class User(AbstractBaseUser, PermissionsMixin):
    """A person; `is_operator` grants the platform's operator role."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    is_operator = models.BooleanField(default=False)
    language = models.CharField(max_length=8, default="en")
    timezone = models.CharField(max_length=64, default="UTC")
    created_at = models.DateTimeField(db_default=Now())

    # What a sign-in check read along, for the one use that follows it.
    memberships_read: list[tuple[TenantRef, str]] | None = None

    objects: ClassVar[UserManager] = UserManager()
    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_ci_once")]

    def __str__(self) -> str:
        return self.name or self.email

    @property
    def is_staff(self) -> bool:
        """Django's admin site asks this."""
        return self.is_operator


class Membership(models.Model):
    """A person's role in a tenant."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} {self.role} {self.tenant}"
