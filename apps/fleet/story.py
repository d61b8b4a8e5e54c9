"""A node's way as its page tells it: a sentence per event."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from apps.fleet.choices import GpuHealth


def event_text(event: Mapping[str, Any]) -> str:
    """Returns what happened, in the active language; an unknown event shows its name."""
    make = _SENTENCES.get(event["name"])
    return make(event["data"]) if make else str(event["name"])


def _connected(data: Mapping[str, Any]) -> str:
    return _("The agent connected after a reboot") if data.get("rebooted") else _("The agent connected")


def _preflight(data: Mapping[str, Any]) -> str:
    failed = data.get("failed") or []
    return _("Preflight found: %(list)s") % {"list": "; ".join(failed)} if failed else _("Preflight passed")


def _gpu_health(data: Mapping[str, Any]) -> str:
    health = data.get("health", "")
    word = str(GpuHealth(health).label) if health in GpuHealth.values else str(health)
    return f"{data.get('gpu')}: {word} {data.get('detail', '')}".strip()


def _inventory(data: Mapping[str, Any]) -> str:
    taken = _("Inventory taken: %(gpus)s GPUs") % {"gpus": data.get("gpus")}
    return "; ".join([taken, *(_change(one) for one in data.get("changes") or [])])


def _change(one: Mapping[str, Any]) -> str:
    before, after = ("–" if value is None else value for value in (one.get("before"), one.get("after")))
    return f"{one.get('of')} {one.get('field')}: {before} → {after}"


_SENTENCES = {
    "node.added": lambda d: pgettext("event", "Added"),
    "node.scan_failed": lambda d: _("The host key could not be fetched: %(error)s") % {"error": d.get("error", "")},
    "node.host_key_offered": lambda d: _("The node showed host key %(key)s") % {"key": d.get("fingerprint", "")},
    "node.trusted": lambda d: _("Host key %(key)s confirmed") % {"key": d.get("fingerprint", "")},
    "node.preflight": _preflight,
    "node.connected": _connected,
    "node.reachable": lambda d: _("Reachable again"),
    "node.inventory": _inventory,
    "node.ready": lambda d: _("Ready, %(gpus)s GPUs in the offer") % {"gpus": d.get("gpus")},
    "node.cordoned": lambda d: pgettext("event", "Cordoned"),
    "node.uncordoned": lambda d: pgettext("event", "Uncordoned"),
    "node.draining": lambda d: pgettext("event", "Drain begun"),
    "node.in_maintenance": lambda d: pgettext("event", "In maintenance"),
    "node.unreachable": lambda d: _("No sign of life; what runs goes on"),
    "node.down": lambda d: _("Declared down: %(reason)s") % {"reason": d.get("reason", "")},
    "node.retired": lambda d: pgettext("event", "Retired"),
    "node.gpu_health": _gpu_health,
}
