#!/usr/bin/env python
"""Django's command line for Berth."""

import os
import sys


def main() -> None:
    """Runs a management command with Berth's settings."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
