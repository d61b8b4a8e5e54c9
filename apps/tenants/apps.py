"""The app of tenants and quotas."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Tenants, roles, quotas."""

    name = "apps.tenants"
    label = "tenants"
