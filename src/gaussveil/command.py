"""The `gaussveil` script: the command line, or one sentence where only the light core is installed."""

from __future__ import annotations

import sys

from gaussveil.lazy_exports import missing


def main() -> None:
    """Run the command line."""
    try:
        from gaussveil.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.exit(f"error: {missing('the command line', error)}")
    run()
