"""The command line."""

from schedlab.cli.main import app, main

__all__ = ["app", "main"]
