"""One form of log for everything that runs for long: a JSON object per line on stderr.

    {"time": "2026-01-05T12:00:00.123Z", "level": "info", "source": "gaussveil.gateway", "event": "listening", ...}

`event` says what happened, further fields are public facts about it: names, counts, never a value of the data.
"""

from __future__ import annotations

import json
import logging
import sys
import time


class JsonLines(logging.Formatter):
    """A record as one JSON object; `extra={"facts": {...}}` adds fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; of an exception its kind only, since its words may quote what it failed on."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "source": record.name,
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            entry["error"] = record.exc_info[0].__name__
        return json.dumps(entry, allow_nan=False)


def log_to_stderr() -> None:
    """Print what our own code logs, and nothing that libraries would like to say: they may say it with values in it."""
    log = logging.getLogger("gaussveil")
    log.setLevel(logging.INFO)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    log.handlers[:] = [handler]
    log.propagate = False
    logging.getLogger().addHandler(logging.NullHandler())
