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

QUOTED = re.compile(
    r"“[^”]*”"
)  # names that people gave, of columns, accounts and files
INTERNAL = re.compile(
    r"(?<![\w-])--?[a-z][a-z-]+"  # an option of the command line
    r"|\b[A-Za-z]\w*_\w+\b"  # an argument
    r"|\bgaussveil[. ]\w+|\bnumpy\b|\bpandas\b|\bpyarrow\b"
    r"|\b(?!GiB|MiB|KiB)[A-Z][a-z]+[A-Z]\w*"  # a class
    r"|\bline \d+ column \d+"
    r"|\b(GV|HTTP)\d{3}\b|\bcodec\b|\bErrno\b|\bTraceback\b|\bPython\b|\bl[12]\b|\b\w+\(\)|\bNone\b|\bnan\b"
    r"|\b(Input|String|List|Value) should\b|\bbool(ean)?\b|\bfloat\b|\bint(eger)?\b|\bstring\b"
)
GENERAL = "this cannot be done as it stands: a number or a name in the form is not one that can be computed with"

# What the library says, what a page says, and the field that it is about: a name of the form, or none.
SAID: tuple[tuple[str, str, str], ...] = (
    (
        r"^(.*): not an \.npy file of plain numbers.*",
        r"\1 is not a file of plain numbers",
        "table",
    ),
    (
        r"^between must be a range.*",
        "“At most” must lie above “At least”",
        "order.high",
    ),
    (
        r"^columns? (.+?) (?:is|are) missing or not unique; the table has (.+)$",
        r"the table has no column \1. It has \2",
        "",
    ),
    (
        r"^column '(.+?)' must hold (.+?); its type is .*",
        r"the column “\1” must hold \2",
        "",
    ),
    (
        r"^classes must say how many.*|^without a label column, classes.*",
        "without a column of labels, say in “Classes” how many clusters to look for: a whole number",
        "order.classes",
    ),
    (
        r"^classes must be .*",
        "list the classes, each once, separated by commas: they are public and never looked up",
        "order.classes",
    ),
    (
        r"^name the two labels.*",
        "name the two labels, separated by a comma: they are public and never looked up",
        "order.classes",
    ),
    (
        r"^unit and rows_per_unit must be given together.*",
        "fill in both “Whom to hide” and “Rows used of each” (1 where each has one row), or neither",
        "order.rows_per_unit",
    ),
    (
        r"^epsilon and delta allow a mean.*|.*must be smaller, or epsilon and delta larger.*|^the draws would spend.*",
        "so small an epsilon leaves no noise that suffices: raise it",
        "order.epsilon",
    ),
    (
        r"^event's duration must be .*",
        "the hidden event's duration must be a time such as 30min, 1h or 2d",
        "order.event_duration",
    ),
    (r"^event's size must be .*", "the hidden event must be larger", "order.event_kw"),
    (
        r"^sample_period must be .*",
        "the sample period must be a time such as 5min, 1h or 2d",
        "order.sample_period",
    ),
    (
        r"^horizon must be .*",
        "the horizon must be a time such as 45min, 3h or 1d",
        "order.horizon",
    ),
    (
        r"^time_zone must be .*",
        "the time zone must be a name such as Europe/Zurich",
        "order.time_zone",
    ),
    (
        r"^kernel must be .*",
        "so small or large a scale cannot be computed with: give lengths and sizes between 0.000001 and 1000000",
        "order.smooth_over",
    ),
    (
        r"^nothing would show.*",
        "of so many, no value would be frequent enough to show: raise epsilon, or list the values",
        "order.epsilon",
    ),
    (r"^an account that is kept for people pays.*", r"\g<0>", "order.people"),
    (
        r"^periods need a column of times.*",
        r"\g<0>: hide everything of each",
        "order.period",
    ),
    (r"^observation_variance must be .*", "“Scatter” must be larger", "order.scatter"),
    (
        r"^the table could not be read \(\w+\).*",
        "the table cannot be read: check that it is whole, and of the kind that its name says",
        "table",
    ),
    (
        r"^grid must lie between .*",
        "so small or large a bound cannot be computed with: measure in another unit",
        "",
    ),
    (
        r"^which is yours must be .*",
        "“Which is yours” must be one of the table's labels",
        "order.secret",
    ),
    (
        r"^name the household .*",
        "name the home whose forecast to release",
        "order.home",
    ),
    (
        r"^choose the column of numbers to answer about.*",
        "choose the column of numbers to answer about",
        "order.column",
    ),
    (
        r"^choose the column to group by.*",
        "choose the column to group by, or one number for all together",
        "order.by_column",
    ),
    (
        r"^list the values to group by.*",
        "list the values to group by: they are public, so they are never looked up",
        "order.by_values",
    ),
    (
        r"^say between which bounds.*",
        "say between which bounds a value lies; they must be known without the data",
        "order.low",
    ),
    (
        r"^give both bounds of what is explained.*",
        "give both bounds of what is explained, or none",
        "order.high",
    ),
    (r"^whom to hide .*", r"\g<0>", "order.unit"),
    (r"^choose a table.*", "choose a table, or upload one", "table"),
    (r"^choose the column of readings.*", r"\g<0>", "order.reading"),
    (r"^choose the column that names the home.*", r"\g<0>", "order.unit"),
    (r"^the table has no column of times.*", r"\g<0>", "order.time"),
    (r"^choose at least one column of numbers.*", r"\g<0>", "order.columns"),
    (
        r"^.*(a CSV file must name|not a table of that format|not an Excel file|the first line of a CSV file).*",
        r"\g<0>",
        "table",
    ),
    (
        r"^.*must be a range.*|^.* must be below .*",
        "the upper bound must lie above the lower one",
        "order.high",
    ),
    (
        r"^(?:the )?(.*household's cluster must hold).*",
        "the home's cluster holds fewer than two homes, or there is nobody to hide among: ask for fewer clusters",
        "order.clusters",
    ),
    (
        r"^clusters must be .*",
        "there are fewer homes than clusters, or too few for so many: ask for fewer",
        "order.clusters",
    ),
    (
        r"^home must be one of .*|^.*households asked for are not among.*|^household .* is not .*|^.*no household.*",
        "the table has no home of that name",
        "order.home",
    ),
    (
        r"^.*(?:gap|missing reading|readings are missing|without a reading).*",
        "readings are missing: say below how to fill them",
        "order.gaps",
    ),
    (
        r"^the model 'random past'.*",
        "with “random past” every release needs newer readings: choose “past known”, or wait",
        "order.past",
    ),
    (
        r"^(.*?)(?:, line (\d+))?: every cell must be a number.*",
        r"\1 must hold numbers alone, under one line of names: leave columns of text and times out",
        "table",
    ),
    (r"^.*: holds no numbers$", "the table holds no numbers", "table"),
    (
        r"^a vector is read from one file that ends in (.*)",
        r"such numbers are read from one file that ends in \1",
        "table",
    ),
    (r"^.*must hold one row for each label.*", r"\g<0>", "table"),
    (
        r"^about (\d+) rows are too few to learn the range of (.+?): (\d+) would do.*",
        r"about \1 rows are too few to learn the range of “\2”: \3 would do, or fewer columns, or a larger epsilon",
        "order.rows",
    ),
    (
        r"^a (certificate|pair) must be JSON.*",
        r"this is no \1, or not all of it: choose another file",
        "",
    ),
    (r"^no row .*|^the table has no rows.*", "the table has no rows", "table"),
    (
        r"^.*(cannot be decoded|codec can't decode|not valid UTF-?8).*",
        "the file is written in characters that cannot be read: save it as CSV UTF-8",
        "table",
    ),
    (r"^--(data|host|name)\b.*", GENERAL, ""),
    (
        r"^the account (.+?) is kept for neighbours where .*",
        r"the account \1 is kept for releases that hide something else: choose another account, or open one",
        "account",
    ),
    (
        r"^there is no ledger .*",
        "there are no accounts yet: open one on the page Accounts",
        "account",
    ),
    (
        r"^start the studio with --signing-key.*",
        "the studio was started without a key to sign with: see its page in the docs",
        "",
    ),
    (
        r"^unexpected .*|^the studio made a mistake.*",
        "the studio made a mistake; see Accounts for what is spent",
        "",
    ),
    (
        r"^the task took longer than (\S+) seconds.*",
        r"this takes longer than \1 seconds and was ended; nothing was spent: "
        "take fewer columns, groups or homes",
        "",
    ),
)
CLEARED = (
    (r"\s*\((?:--|in Python|gaussveil |people=)[^)]*\)", ""),
    (r",? ?\(?(?:people=[^,;.]*|or gaussveil [^;.)]*)\)?", ""),
    (
        r"; of a long table name the column of households$",
        ": choose the column that names the home",
    ),
    (r"\.?\s*Got [^.]*(?:\.[^.\s][^.]*)*\.?$", ""),
    (r"`", ""),
    (r"\bin l2 norm\b", "in length"),
    (r"\blarger sampler_share\b", "larger delta"),
    (r"(?<!\w)'([^']*)'(?!\w)", r"“\1”"),
    (r"\b(\d)e-0(\d)", r"\1e-\2"),
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
