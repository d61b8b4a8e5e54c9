"""Lets `python -m cli` be `berth`."""

from cli.main import main

main()
