"""Signing in and out, and choosing the tenant."""

import dataclasses
import getpass
import sys
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from cli.errors import ApiError, InputError
from cli.shell import Shell, group, verb

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

tenant_app = group("Choose the tenant in which you act.")


def register(app: typer.Typer) -> None:
    """Adds login, logout, whoami and the tenant verbs."""
    verb(app, "login", printing=False, examples=LOGIN_EXAMPLES)(login)
    verb(app, "logout", printing=False)(logout)
    verb(app, "whoami", examples="berth whoami\nberth whoami --json")(whoami)
    app.add_typer(tenant_app, name="tenant")


LOGIN_EXAMPLES = """
berth login --url https://berth.example.org --email ada@example.org
berth login --profile staging --url https://staging.example.org
berth login --email ada@example.org < password.txt
"""


def login(
    shell: Shell,
    url: Annotated[str, typer.Option(help="Address of the portal.", show_default=False)] = "",
    email: Annotated[str, typer.Option(help="Your email address.", show_default=False)] = "",
    ca_file: Annotated[str, typer.Option(help="PEM file of a private certificate authority.", show_default=False)] = "",
) -> None:
    """Sign in. The password is asked for, or read from standard input; it is never kept."""
    name, profile = shell.profile()
    url = _portal_url(url or profile.url or _ask("Address of the portal", "--url"))
    moved = url != profile.url
    email = email or profile.email or _ask("Email", "--email")
    profile = dataclasses.replace(
        profile, url=url, ca_file=ca_file or ("" if moved else profile.ca_file),
        tenant=shell.tenant or ("" if moved else profile.tenant), access="", refresh="", expires_at=0.0,
    )  # fmt: skip
    if url.startswith("http:") and urlsplit(url).hostname not in LOCAL_HOSTS:
        shell.note(f"Warning: {url} is not encrypted; others on the way can read your password. Use https.")
    client = shell.client_for(name, profile)
    try:
        client.sign_in(email, read_password(f"Password of {email}: "))
        me = client.get("/me")
        tenants = [tenant["slug"] for tenant in me["tenants"]]
        kept = client.profile.tenant if client.profile.tenant in tenants else ""
        kept = kept or (tenants[0] if len(tenants) == 1 else "")
        shell.store.save(name, dataclasses.replace(client.profile, tenant=kept), make_current=True)
    finally:
        client.http.close()
    shell.say(f"Signed in to {url} as {me['email']}{_where(kept)}.")
    if not kept and tenants:
        shell.say(f"You are in {len(tenants)} tenants: {', '.join(tenants)}. Choose one: berth tenant use SLUG")


def _where(tenant: str) -> str:
    return f", tenant {tenant}" if tenant else ""


def _portal_url(text: str) -> str:
    url = text.strip().rstrip("/").removesuffix("/api/v1")
    if "://" not in url:
        url = ("http://" if url.partition(":")[0] in LOCAL_HOSTS else "https://") + url
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise InputError(f"{text!r} is not the address of a portal.", hint="Give it as https://berth.example.org")
    return url


def _ask(label: str, option: str) -> str:
    if not sys.stdin.isatty():
        raise InputError(f"{option} is missing.", hint=f"Give {option}; nothing can be asked without a terminal.")
    sys.stderr.write(f"{label}: ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer:
        raise InputError(f"{label} is needed.")
    return answer


def read_password(prompt: str) -> str:
    """Asks on the terminal without echo, or reads the first line of standard input."""
    password = getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise InputError("No password was given.", hint="Type it when asked, or send it on standard input.")
    return password


def logout(shell: Shell) -> None:
    """End the sign-in, here and on the portal."""
    _, profile = shell.profile()
    if not profile.access and not profile.refresh:
        shell.say("You are not signed in.")
        return
    shell.client.sign_out()
    shell.say(f"Signed out of {profile.url}.")


def whoami(shell: Shell) -> None:
    """Show who you are, where, and in which tenants."""
    me = shell.client.get("/me")
    client = shell.client
    tenants = ", ".join(_tenant_text(tenant, client.tenant) for tenant in me["tenants"])
    facts = [
        ("Person", f"{me['name']} <{me['email']}>" if me["name"] else me["email"]),
        ("Portal", client.profile.url),
        ("Profile", client.profile_name),
        ("Tenants", tenants or "none yet: ask an owner or operator to add you"),
        ("Operator", "yes: may add and change nodes" if me["is_operator"] else ""),
    ]
    shell.facts({**me, "url": client.profile.url, "profile": client.profile_name}, facts, name="email")


def _tenant_text(tenant: dict[str, Any], chosen: str) -> str:
    used = ", in use" if tenant["slug"] == chosen else ""
    return f"{tenant['slug']} ({tenant['role']}{used})"


@verb(tenant_app, "use", examples="berth tenant use vision-lab")
def tenant_use(shell: Shell, slug: Annotated[str, typer.Argument(help="The tenant's short name.")]) -> None:
    """Act in this tenant from now on."""
    tenants = shell.client.get("/me")["tenants"]
    found = next((tenant for tenant in tenants if tenant["slug"] == slug), None)
    if found is None:
        known = ", ".join(tenant["slug"] for tenant in tenants) or "none"
        raise ApiError(f"You are in no tenant {slug!r}.", status=404, hint=f"Yours: {known}.")
    client = shell.client
    shell.store.save(client.profile_name, dataclasses.replace(client.profile, tenant=slug))
    shell.done(found, f"Now acting in tenant {slug} ({found['name']}).", name="slug")


@verb(tenant_app, "ls", examples="berth tenant ls")
def tenant_list(shell: Shell) -> None:
    """List your tenants."""
    chosen = shell.client.tenant
    columns = [
        ("TENANT", lambda row: str(row["slug"])),
        ("NAME", lambda row: str(row["name"])),
        ("ROLE", lambda row: str(row["role"])),
        ("IN USE", lambda row: "yes" if row["slug"] == chosen else ""),
    ]
    shell.rows(shell.client.get("/me")["tenants"], columns, name="slug", empty="You are in no tenant yet.")
