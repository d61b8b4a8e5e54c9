"""The REST API: the routes of all apps under one version, its schema and its page."""

from csp.decorators import csp_update
from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny

from apps.accounts.api import api_urlpatterns as accounts
from apps.console.api import api_urlpatterns as console
from apps.storage.api import api_urlpatterns as storage
from apps.workloads.api import api_urlpatterns as workloads

_OPEN = {"permission_classes": [AllowAny], "authentication_classes": []}
# Swagger UI sets styles and icons inline; nothing of a tenant is on its page
_docs = csp_update({"style-src": ["'unsafe-inline'"]})(
    SpectacularSwaggerSplitView.as_view(url_name="api-schema", **_OPEN)
)

urlpatterns = [
    *accounts,
    *storage,
    *workloads,
    *console,
    path("schema", SpectacularAPIView.as_view(**_OPEN), name="api-schema"),
    path("docs", _docs, name="api-docs"),
]
