"""Where everything is reached."""

from django.contrib import admin
from django.urls import path

from portal.health import healthz, readyz

urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("admin/", admin.site.urls),
]
