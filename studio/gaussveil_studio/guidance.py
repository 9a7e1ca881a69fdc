"""What helps to choose: which epsilon others published with, for whom, and where they say so."""

from __future__ import annotations

import tomllib
from pathlib import Path

PUBLISHED: list[dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)["published"]
