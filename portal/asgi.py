"""HTTP and WebSocket of the web process."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from portal.handler import http_handler

django_application = http_handler()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - Django must be set up first
from django.conf import settings  # noqa: E402

from portal.body_limit import BodyLimit  # noqa: E402
from portal.routing import websocket_urlpatterns  # noqa: E402

http_application = BodyLimit(
    django_application,
    limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
    upload_path="/api/v1/files",
    upload_limit=settings.BERTH_FILE_LIMIT_BYTES,
)
application = ProtocolTypeRouter({"http": http_application, "websocket": URLRouter(websocket_urlpatterns)})
