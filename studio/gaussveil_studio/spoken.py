"""What pages say: refusals of the library in the words of the form, at the field that they speak of.

The library names arguments, options of the command line and types; a page names its own fields. Whatever would still
name something internal after all is replaced by a sentence that does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gaussveil.errors import GaussveilError, NumericalError
from gaussveil_studio.offers.kinds import EVERY, KINDS
from gaussveil_studio.sentences import CLEARED, GENERAL, SAID

QUOTED = re.compile(
    r"“[^”]*”"
)  # names that people gave, of columns, accounts and files
INTERNAL = re.compile(
    r"(?<![\w)-])--?[a-z][a-z-]+"  # an option of the command line
    r"|\b[A-Za-z]\w*_\w+\b"  # an argument
    r"|\bgaussveil[. ]\w+|\bnumpy\b|\bpandas\b|\bpyarrow\b"
    r"|\b(?!GiB|MiB|KiB)[A-Z][a-z]+[A-Z]\w*"  # a class
    r"|\bline \d+ column \d+"
    r"|\b(GV|HTTP)\d{3}\b|\bcodec\b|\bErrno\b|\bTraceback\b|\bPython\b|\bl[12]\b|\b\w+\(\)|\bNone\b|\bnan\b"
    r"|\b(Input|String|List|Value) should\b|\bbool(ean)?\b|\bfloat\b|\bint(eger)?\b|\bstring\b"
)


def is_plain(text: str) -> bool:
    """Whether a text names nothing internal; what stands in curly quotes is somebody's own name."""
    return INTERNAL.search(QUOTED.sub("", text)) is None


def plain(message: str) -> str:
    """A sentence for a page that has no form of an order."""
    return in_form(message, {}, {})[1]


def in_form(
    message: str, order: Mapping[str, Any], titles: Mapping[str, str]
) -> tuple[str, str]:
    """The field that a refusal speaks of (empty where it is none of the form's), and its sentence."""
    said = message.strip()
    field = ""
    for pattern, words, about in SAID:
        if match := re.match(pattern, said, re.DOTALL):
            said = match.expand(words)
            field = about
            break
    if not field:
        field = _field_of(said, order)
    for name, title in titles.items():
        if "_" in name or re.match(rf"{name} (must|is)\b", said):
            said = re.sub(rf"\b{name}\b", f"“{title}”", said)
    for pattern, words in CLEARED:
        said = re.sub(pattern, words, said)
    for value in _names(order):  # people may call a column as we call an argument
        if not is_plain(said):
            said = re.sub(rf"(?<![\w“]){re.escape(value)}(?![\w”])", f"“{value}”", said)
    listed = re.search(r"\. It has (.*?)(\. Did you mean (.*?)\??)?\.?$", said)
    if listed:  # of the table's own names, which may be anything
        if listed[3]:
            guess = f". Did you mean “{listed[3]}”?"
        else:
            guess = ""
        said = f"{said[: listed.start()]}. It has “{listed[1].replace('“', '').replace('”', '')}”{guess}"
    return field, said if is_plain(said) else GENERAL


def _names(order: Mapping[str, Any]) -> list[str]:
    values = [
        part
        for given in order.values()
        for part in (given if isinstance(given, list) else [given])
    ]
    return sorted(
        {one for one in values if isinstance(one, str) and "_" in one},
        key=len,
        reverse=True,
    )


def _field_of(said: str, order: Mapping[str, Any]) -> str:
    """The field whose name the message begins with, or else the one that holds the column it speaks of."""
    first = re.match(r"[“']?(\w+)[”']?(?: and \w+)? (?:must|is|and)\b", said)
    if first and first[1] in order:
        return f"order.{first[1]}"
    named = re.findall(r"['“]([^'”]+)['”]", said.partition(". It has")[0])
    for name, given in order.items():
        if given and any(
            one == given or (isinstance(given, list) and one in given) for one in named
        ):
            return f"order.{name}"
    return ""


RULES = {
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "bool_parsing": "must be yes or no",
    "bool_type": "must be yes or no",
    "missing": "is still empty",
    "string_too_short": "is still empty",
    "too_short": "is still empty",
    "string_too_long": "is too long",
    "too_long": "has too many entries",
    "string_type": "must be text",
    "list_type": "must be a list of names",
    "string_pattern_mismatch": "holds characters that it cannot have",
    "literal_error": "must be one of the choices: {expected}",
    "extra_forbidden": "is not known here",
}


def rule(kind: str, known: Mapping[str, Any], title: str) -> str:
    """A rule of a form that was broken, in a sentence about the field's title."""
    words = RULES.get(kind, "is not what it must be").format_map(known).replace("'", "")
    if title:
        return f"“{title}” {words}"
    return f"something that was sent {words}"


class FormRefusal(GaussveilError):
    """A refusal in the form's words, and the field at which it belongs; of the kind that the library refused with."""

    def __init__(self, sentence: str, field: str, kind: type[GaussveilError]) -> None:
        super().__init__(sentence)
        self.field = field
        self.kind = kind
        self.code = kind.code


def refused(
    error: GaussveilError | ArithmeticError, order: Mapping[str, Any]
) -> FormRefusal:
    """What the library refused of an order, as the form says it."""
    if isinstance(error, FormRefusal):
        return error
    asked = KINDS[order["mechanism"]]["fields"] | EVERY
    titles = {name: one["title"] for name, one in asked.items()}
    if not isinstance(
        error, GaussveilError
    ):  # of numbers that are too large or too small to compute with
        return FormRefusal(GENERAL, "", NumericalError)
    field, sentence = in_form(str(error), order, titles)
    name = field.partition(".")[2]
    return FormRefusal(
        sentence, field if not name or name in asked else "", type(error)
    )
