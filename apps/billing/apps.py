"""The app of metering."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """Usage intervals (prices and invoices come later)."""

    name = "apps.billing"
    label = "billing"
