"""The kinds of releases as orders.toml describes them; apart from the models, so that a release need not load those."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

KINDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("orders.toml").read_text(encoding="utf-8"))
EVERY = KINDS.pop("every")["fields"]
