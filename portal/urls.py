"""Where everything is reached."""

from django.contrib import admin
from django.urls import include, path

from portal.health import healthz, readyz

urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("admin/", admin.site.urls),
    path("api/v1/", include("portal.api_urls")),
    path("", include("apps.console.urls")),
    path("", include("apps.workloads.urls")),
    path("", include("apps.fleet.urls")),
]

handler400 = "portal.api_errors.bad_request"
handler404 = "portal.api_errors.not_found"
handler500 = "portal.api_errors.server_error"
