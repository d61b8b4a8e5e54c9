"""Entry point of `python -m portal.sandbox`."""

import sys

from portal.sandbox.cli import main

sys.exit(main())
