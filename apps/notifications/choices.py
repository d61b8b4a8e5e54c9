"""States of a message to a person."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class NotificationState(models.TextChoices):
    """Where a message stands."""

    PENDING = "pending", _("pending")
    SENT = "sent", _("sent")
    FAILED = "failed", _("failed")


MAX_TRIES = 8
"""After these tries over about a day a message is given up and says so."""
