"""Adds a person, and a tenant with it when wanted; pages for this come with the identity issue."""

import argparse
import getpass
import sys

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import User
from apps.accounts.services import membership_set, user_create
from apps.core.access import service_actor
from apps.core.clock import utc_now
from apps.core.errors import BerthError
from apps.tenants.choices import Role
from apps.tenants.selectors import tenant_by_slug
from apps.tenants.services import tenant_create


class Command(BaseCommand):
    """`manage.py add_user EMAIL [--operator] [--tenant SLUG [--role owner|member]]`."""

    help = (
        "Add a person; asks for the password (or reads it from standard input). A tenant that is named and new is made."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the arguments."""
        parser.add_argument("email")
        parser.add_argument("--operator", action="store_true", help="may add nodes and use the admin site")
        parser.add_argument("--tenant", help="short name of the tenant to belong to, such as vision-lab")
        parser.add_argument("--role", choices=Role.values, default=Role.OWNER)

    def handle(self, *args: object, **options: object) -> None:
        """Adds the person, or an existing one to another tenant."""
        email, slug = str(options["email"]).strip().lower(), options["tenant"]
        actor, now = service_actor("manage.py"), utc_now()
        try:
            user = User.objects.filter(email=email).first()
            if user is None:
                password = _password(email)
                user = user_create(
                    actor=actor, email=email, password=password, is_operator=bool(options["operator"]), now=now
                )
                self.stdout.write(f"Added {email}{' as an operator' if options['operator'] else ''}.")
            else:
                self.stdout.write(
                    f"{email} exists: password and operator's role stay as they are."
                    f" A new password: manage.py changepassword {email}"
                )
            if slug:
                slug = str(slug)
                tenant = tenant_by_slug(slug) or tenant_create(actor=actor, slug=slug, name=slug, now=now)
                membership_set(actor=actor, tenant=tenant, user=user, role=str(options["role"]), now=now)
                self.stdout.write(f"{email} is {options['role']} of {slug}.")
        except BerthError as error:
            raise CommandError(f"{error.detail} {' '.join(map(str, error.errors.values()))}".strip()) from error


def _password(email: str) -> str:
    password = getpass.getpass(f"Password for {email}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not password:
        raise CommandError(f"No password came. Type it when asked, or pipe it: manage.py add_user {email} < FILE")
    try:
        validate_password(password, User(email=email))
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    return password
