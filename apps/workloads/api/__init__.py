"""REST: jobs, their events, bytes, readings and usage."""

from apps.workloads.api.urls import api_urlpatterns

__all__ = ["api_urlpatterns"]
