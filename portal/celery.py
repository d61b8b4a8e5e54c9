"""Celery's application; what each queue does stands in workers/ in the module of its name."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("berth")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.imports = ("workers.scheduling", "workers.nodes", "workers.metering", "workers.notifications")
app.conf.task_routes = {
    "scheduling.*": {"queue": "scheduling"},
    "nodes.*": {"queue": "nodes"},
    "metering.*": {"queue": "metering"},
    "notifications.*": {"queue": "notifications"},
}
