"""The app of stored bytes."""

from django.apps import AppConfig


class StorageConfig(AppConfig):
    """Blob stores and files."""

    name = "apps.storage"
    label = "storage"
