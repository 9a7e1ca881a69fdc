"""Keys and questions of a query as they are typed: hour(time), zone=a|b, --mean kw, --quantile kw:0.5."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaussveil.cli.columns import KEY
from gaussveil.cli.options import parse_numbers
from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    pass

Texts = list[str] | None


@dataclass(frozen=True)
class Questions:
    """What is asked of a table, option by option."""

    count: bool
    total: Texts
    mean: Texts
    variance: Texts
    share: Texts
    histogram: Texts
    cdf: Texts
    quantile: Texts


def asked_answers(
    questions: Questions, ranges: Mapping[str, Any], *, whole_rows: bool = False
) -> list[Any]:
    """The answers of a request; `ranges` holds that of a column by its name, and that of all others by ""."""
    from gaussveil import mechanisms as offered

    if not any(vars(questions).values()):
        raise ParameterError(
            "query must ask for something: --count, --mean kw --between 0,10, --quantile kw:0.5, ..."
        )

    def range_of(column: str) -> Any:
        return ranges.get(column, ranges.get(""))

    answers: list[Any] = [offered.Count()] * questions.count
    for kind, columns in (
        (offered.Sum, questions.total),
        (offered.Mean, questions.mean),
        (offered.Variance, questions.variance),
    ):
        answers += [kind(column, range_of(column)) for column in columns or []]
    for column, ends in _numbers("--share", questions.share):
        if len(ends) < 2:
            raise ParameterError(
                f"--share must be COLUMN:LOW,HIGH, as in kw:3,inf. Got one number for {column!r}."
            )
        answers.append(offered.Share(column, (ends[0], ends[1])))
    for column, edges in _numbers("--histogram", questions.histogram):
        answers.append(offered.Histogram(column, edges, whole_rows or None))
    for column, edges in _numbers("--cdf", questions.cdf):
        answers.append(offered.CDF(column, edges))
    for column, levels in _numbers("--quantile", questions.quantile):
        answers.append(offered.Quantile(column, levels, range_of(column)))
    return answers


def asked_norm(text: str | None) -> Any:
    """A bound on a unit's curve, or three; None where there is none."""
    if text is None:
        return None
    norms = parse_numbers("--unit-norm", text)
    if len(norms) == 1:
        return norms[0]
    return norms


def asked_keys(texts: Texts, time_zone: str | None) -> dict[str, Any]:
    """The keys by their names; what several --by list of one column is one list."""
    keys: dict[str, Any] = {}
    lists: dict[str, list[str]] = {}
    for text in texts or []:
        named = _function_of(text, time_zone)
        if named is None:
            column, values = _listed(text)
            added = column in lists
            lists[column] = [*lists.get(column, []), *values]
            named = column, _values_of(column, lists[column])
        else:
            added = False
        name, key = named
        if name in keys and not added:
            raise ParameterError(
                f"--by must name each key once. Got {name!r} twice, as in {text!r}."
            )
        keys[name] = key
    return keys


def _function_of(text: str, time_zone: str | None) -> tuple[str, Any] | None:
    """The key of a function of a column, as in hour(time); None where it is another."""
    call = KEY.fullmatch(text)
    if call is None:
        return None
    column, *rest = (part.strip() for part in call[2].split(","))
    return _called(call[1], column, rest, time_zone)


def _called(
    function: str, column: str, rest: list[str], time_zone: str | None
) -> tuple[str, Any] | None:
    """The key of a function of a column; None where there is no such function."""
    from gaussveil import statistics as offered

    if function in ("hour", "weekday", "month") and not rest:
        key_of = getattr(offered, f"{function}_of")
        return function, key_of(column, time_zone=time_zone)
    if function == "date" and len(rest) == 2:
        return function, offered.date_of(column, *rest, time_zone=time_zone)
    if function == "bin":
        return column, offered.bin_of(column, parse_numbers("--by", ",".join(rest)))
    if function == "discover" and not rest:
        return column, offered.discover(column)
    return None


def _listed(text: str) -> tuple[str, list[str]]:
    """A column and its values, as in zone=a|b."""
    column, sign, values = text.partition("=")
    if not sign:
        raise ParameterError(
            f"--by must be such as hour(time), date(time, FIRST, LAST), zone=a|b or discover(zone). Got {text!r}."
        )
    if "," in values and "|" not in values:
        raise ParameterError(
            f"--by must separate values by |, as in zone=north|south. Got {text!r}."
        )
    return column.strip(), [value.strip() for value in values.split("|")]


def _values_of(column: str, values: list[str]) -> Any:
    """The key of listed values; they are whole numbers where all of them read so."""
    from gaussveil import statistics as offered

    listed: list[Any] = values
    if all(re.fullmatch(r"[+-]?\d+", value) for value in values):
        listed = [int(value) for value in values]
    return offered.value_of(column, listed)


def _numbers(option: str, texts: Texts) -> list[tuple[str, tuple[float, ...]]]:
    """Columns with their numbers, as in kw:0,1,2."""
    pairs = []
    for text in texts or []:
        column, sign, numbers = text.rpartition(":")
        if not sign:
            raise ParameterError(
                f"{option} must be COLUMN:NUMBERS, as in kw:0,1,2. Got {text!r}."
            )
        pairs.append((column, parse_numbers(option, numbers)))
    return pairs
