"""What a column may be declared to hold: a word such as number, or the name of a type such as DOUBLE."""

from __future__ import annotations

import re

from gaussveil.engines.dialect import KINDS
from gaussveil.errors import ParameterError

_ALIASES = {
    "STRING": "VARCHAR",
    "TEXT": "VARCHAR",
    "INT": "INTEGER",
    "REAL": "FLOAT",
} | {
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "TIMESTAMP_NTZ": "TIMESTAMP",
}
WHOLE_KINDS = {
    prefix + size
    for prefix in ("", "U")
    for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
}
_OTHER_KINDS = {*WHOLE_KINDS, *KINDS.values(), "FLOAT"}


def sql_kind(word: object) -> str:
    """The SQL type of a word such as number, or of the name of a type such as DOUBLE."""
    if isinstance(word, str):
        name = word.strip().upper()
        kind = KINDS.get(name.lower()) or _ALIASES.get(name, name)
        if kind in _OTHER_KINDS or re.fullmatch(r"DECIMAL(\(\d+, ?\d+\))?", kind):
            return kind
    raise ParameterError(
        f"the type of a column must be one of {', '.join(KINDS)}. Got {word!r}."
    )
