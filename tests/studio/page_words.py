"""The words of a page, as its readers see them, and what no reader should have to see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape

from gaussveil_studio.spoken import is_plain

# Scripts to copy, what is no text, choices of names that people gave; and all tags.
UNSEEN = re.compile(r"<(pre|code|script|style|option)\b.*?</\1>|<[^>]*>", re.DOTALL)
OWN_NAME = re.compile(r"gaussveil (studio|\d\S*)")
OF_PROGRAMS = re.compile(r"\d[eE](\+\d|-0)|\bTrue\b|\bFalse\b|\d\.\d{8}")


def lines_of(page: str) -> list[str]:
    """What stands on a page, line by line."""
    lines = unescape(UNSEEN.sub("\n", page)).splitlines()
    return [OWN_NAME.sub("", line).strip() for line in lines if line.strip()]


def require_words(page: str, given: Iterable[str], where: object) -> None:
    """A page names nothing internal and writes numbers as people do; `given` are names that people gave."""
    names = sorted(given, key=len, reverse=True)
    for line in lines_of(page):
        told = line
        for name in names:
            told = told.replace(name, "")
        assert is_plain(told), (where, line)
        assert not OF_PROGRAMS.search(told), (where, line)
