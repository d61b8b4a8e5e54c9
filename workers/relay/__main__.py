"""The relay's process: `python -m workers.relay`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

import django

django.setup()

from workers.relay.loop import main  # noqa: E402 - Django must be set up first

if __name__ == "__main__":
    main()
