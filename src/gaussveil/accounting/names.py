"""Names of accounts and populations: one budget, one name, however it is typed, and no second that looks the same.

A name is kept in one spelling (NFKC, one space between words, none around them). A new name holds nothing invisible
and letters of one script, and none that exists may differ from it by case or by letters that look alike alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from gaussveil.errors import LedgerStateError, ParameterError

_BREAKING = ("Cc", "Zl", "Zp")
_UNSEEN = ("Cf", "Cn", "Co", "Cs")
# Letters and marks that print nothing, though their category says otherwise: fillers and selectors of variants.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))

# Scripts in which people write; those left out hold letters of others in the same shapes (Cherokee, Lisu, Coptic ...).
_SCRIPTS = (
    *(
        "LATIN",
        "GREEK",
        "CYRILLIC",
        "ARMENIAN",
        "GEORGIAN",
        "HEBREW",
        "ARABIC",
        "ETHIOPIC",
        "DEVANAGARI",
        "BENGALI",
    ),
    *(
        "GURMUKHI",
        "GUJARATI",
        "ORIYA",
        "TAMIL",
        "TELUGU",
        "KANNADA",
        "MALAYALAM",
        "SINHALA",
        "TIBETAN",
        "THAI",
        "LAO",
    ),
    *("MYANMAR", "KHMER", "CJK", "BOPOMOFO", "HIRAGANA", "KATAKANA", "HANGUL"),
)
_SHARED = frozenset(
    "0123456789\u30fc\u3005\u3006\u3007"
)  # digits, and marks of Japanese that no script owns
_WRITTEN_TOGETHER = (
    frozenset(("CJK", "HIRAGANA", "KATAKANA")),
    frozenset(("CJK", "HANGUL")),
)
# Latin letters of living alphabets; what lies beyond is phonetic notation, much of it in the shapes of plain letters.
_LATIN = (range(0x41, 0x1C0), range(0x1CD, 0x250), range(0x1E00, 0x1F00))

_ALIKE = str.maketrans("I1|0", "lllO")
LOOK_ALIKES = Path(__file__).with_name(
    "look_alikes.txt"
)  # a plain letter, then all that look like it in common fonts


def one_spelling(name: str, what: str = "name") -> str:
    """The name in its one spelling, if it is text that a log can show on one line."""
    if not isinstance(name, str) or not name.strip():
        raise ParameterError(
            f"{what} must be text and not empty. Got {type(name).__name__}."
        )
    if any(unicodedata.category(letter) in _BREAKING for letter in name):
        raise ParameterError(
            f"{what} must hold no control characters such as line breaks: they would forge lines of logs"
        )
    return " ".join(unicodedata.normalize("NFKC", name).split()) or name


def _check_scripts(name: str, what: str) -> None:
    """Refuse letters that look like those of another script."""
    scripts = {
        _script(letter) for letter in name if unicodedata.category(letter)[0] in "LN"
    } - {""}
    foreign = scripts.difference(_SCRIPTS)
    if foreign:
        raise ParameterError(
            f"{what} must be written in letters that are told apart from others. Got {foreign.pop().lower()} letters."
        )
    if len(scripts) > 1 and not any(
        scripts <= together for together in _WRITTEN_TOGETHER
    ):
        mixed = " and ".join(sorted(script.lower() for script in scripts))
        raise ParameterError(
            f"{what} must be written in letters of one script: others look alike. Got {mixed} in {name!a}."
        )


def new_name(name: str, existing: Iterable[str], what: str = "name") -> str:
    """The spelling under which something new may be opened; refused where people could take it for something else."""
    name = one_spelling(name, what)
    for letter in name:
        _check_letter(letter, what)
    _check_marks(name, what)
    _check_scripts(name, what)
    looks = _looks(name)
    for other in existing:
        if name == other:
            raise LedgerStateError(
                f"the ledger has {shown(name)} already; use it, or choose another name"
            )
        if looks & _looks(one_spelling(other)):
            raise LedgerStateError(
                f"the ledger has {shown(other)} already, which could be taken for {shown(name)}; use that one, or "
                "choose a name that differs by more than case or letters that look alike"
            )
    return name


def shown(name: str) -> str:
    """The name in quotes, as nobody can take it for another: one that could not be opened today in plain ASCII."""
    if _is_plain(name):
        return repr(name)
    return ascii(name)


def listed(name: str) -> str:
    """The same for tables and lists: without quotes where the name needs none."""
    if _is_plain(name):
        return name
    return ascii(name)


def _is_plain(name: str) -> bool:
    try:
        return new_name(name, ()) == name
    except ParameterError:
        return False


def _check_letter(letter: str, what: str) -> None:
    unseen = unicodedata.category(letter) in _UNSEEN or letter in _BLANK
    if unseen or any(ord(letter) in selectors for selectors in _SELECTORS):
        raise ParameterError(
            f"{what} must hold no letters that are not seen. Got {letter!a}."
        )


def _check_marks(name: str, what: str) -> None:
    """An accent or a stroke sits on a letter: beside it or on a space, NFKC makes it of signs that look alike."""
    below = ""
    for letter in name:
        kind = unicodedata.category(letter)[0]
        if kind == "M" and below not in ("L", "M"):
            raise ParameterError(
                f"{what} must hold accents on letters alone. Got {letter!a} after something else."
            )
        below = kind


def _script(letter: str) -> str:
    """The script of a letter or numeral by its Unicode name; empty where several scripts share it."""
    if letter in _SHARED:
        return ""
    if letter.isascii():
        return "LATIN"
    script = (
        unicodedata.name(letter, "UNNAMED")
        .removeprefix("EXTENDED ")
        .split()[0]
        .split("-")[0]
    )
    if script == "LATIN" and not any(ord(letter) in letters for letters in _LATIN):
        return "PHONETIC LATIN"
    return script


@lru_cache(maxsize=1)
def _plain_letters() -> dict[int, str]:
    lines = LOOK_ALIKES.read_text(encoding="utf-8").splitlines()
    return {ord(letter): line[0] for line in lines for letter in line[2:]}


@lru_cache(maxsize=1 << 16)
def _looks(name: str) -> frozenset[str]:
    """What a name may be taken for: itself in any case, in plain letters, and where l, I, 1 or O, 0 are one."""
    plain = name.translate(_plain_letters())
    alike = plain.translate(_ALIKE).casefold().replace("rn", "m").replace("vv", "w")
    return frozenset((name.casefold(), plain.casefold(), alike))
