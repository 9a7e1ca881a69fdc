"""Numbers as people hand them on: rounded to what their noise leaves, 0.219 ± 0.019 and not seventeen digits."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

DIGITS = 2  # of an uncertainty; more of them say nothing
ALONE = 4  # digits of a number whose uncertainty nobody stated
ALIKE = 0.1  # ends so far from symmetric are told apart
OF_A_ROW = 6  # digits of a number in a row that is shown
MOST_DECIMALS = 12
NOTHING = "not known"
THIN = (
    "\u202f"  # between thousands, where a comma or a point means decimals to somebody
)
GROUPED = 1e4  # from here on
SIZES = ((1e12, "trillions"), (1e9, "billions"), (1e6, "millions"))  # of axes
MOST_ROWS = 500  # of a table on a page; the files hold them all
_DECIMALS = re.compile(r"-?\d+\.\d+(e[-+]?\d+)?")


def decimals_beside(reach: float) -> int:
    """How many decimals of a number mean something beside its uncertainty; negative where tens do not."""
    if not math.isfinite(reach) or reach <= 0:
        return ALONE
    return max(
        -MOST_DECIMALS, min(MOST_DECIMALS, DIGITS - 1 - math.floor(math.log10(reach)))
    )


def written(value: float, decimals: int) -> str:
    """A number with so many decimals; of less than none, rounded to tens and hundreds."""
    return grouped(round(value, decimals) + 0.0, f".{max(decimals, 0)}f")


def grouped(value: float, form: str = ".10g") -> str:
    """A number with its thousands apart."""
    if abs(value) < GROUPED:
        return format(value, form)
    return format(value, f",{form}").replace(",", THIN)


def counted_in(largest: float) -> tuple[float, str]:
    """In what an axis counts: 150 000 000 is 150 where its name says in millions."""
    for size, words in SIZES:
        if largest >= size:
            return size, f", in {words}"
    return 1.0, ""


def percent(share: float) -> str:
    """A share in words: 55 %."""
    return f"{share:.0%}".replace("%", " %")


def uncertain(deviation: float) -> str:
    """A standard deviation by itself: a digit more than beside a number."""
    return written(deviation, decimals_beside(deviation) + 1)


def rounded_up(value: float, digits: int = ALONE) -> str:
    """A number that nothing may fall below, such as a delta that was spent."""
    return _cut(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = ALONE) -> str:
    """A number that nothing may lie above, such as the lower end of an enclosure."""
    return _cut(value, digits, ROUND_FLOOR)


def _cut(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return str(value)
    found = Context(prec=digits, rounding=direction).create_decimal(Decimal(value))
    return f"{float(found):.{digits}g}".replace("e-0", "e-").replace("e+0", "e+")


def told(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    ends: bool = False,
    whole: bool = False,
) -> str:
    """A number with its uncertainty, which is rounded up: 0.219 ± 0.019, or 12 (9 to 17) where the ends differ.

    `ends` asks for the second form in any case, as others of the same column have it; `whole` counts people or rows.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if low is None or high is None or not math.isfinite(low) or not math.isfinite(high):
        return _alone(value)
    below = value - low
    above = high - value
    reach = max(below, above)
    if reach <= 0:
        return _alone(value)
    decimals = min(decimals_beside(reach), 0 if whole else MOST_DECIMALS)
    if ends or min(below, above) < (1 - ALIKE) * reach:
        return f"{written(value, decimals)} ({_outward(low, decimals, -1)} to {_outward(high, decimals, 1)})"
    return f"{written(value, decimals)} ± {_outward(reach, decimals, 1)}"


def shown_cell(text: str) -> str:
    """A cell of a file as a page shows it: of a number with decimals so many digits as say something of one row."""
    if not _DECIMALS.fullmatch(text):
        return text
    value = float(text)
    if abs(value) >= 10.0**OF_A_ROW:
        return format(value, ".0f")
    return format(value, f".{OF_A_ROW}g")


def with_comma(text: str) -> str:
    """The same with decimal commas."""
    return text.replace(".", ",")


def spoken_numbers(
    series: Sequence[Sequence[Any]],
    bands: Sequence[Mapping[str, Any]],
    whole: bool = False,
) -> list[list[str]]:
    """Every number of a picture with the band that belongs to it."""
    found = []
    for place, (_, values) in enumerate(series):
        ends: Mapping[str, Any] = next(
            (band for band in bands if band["of"] == place), {}
        )
        lows = ends.get("low", [None] * len(values))
        highs = ends.get("high", [None] * len(values))
        texts = [told(*each, whole=whole) for each in zip(values, lows, highs)]
        if any(" to " in text for text in texts):
            texts = [
                told(*each, ends=True, whole=whole) for each in zip(values, lows, highs)
            ]
        found.append(texts)
    return found


def number_table(picture: Mapping[str, Any]) -> dict[str, Any]:
    """A picture as the table behind it: columns, whether the first is measured, and rows of ready-made text."""
    texts = spoken_numbers(
        picture["series"], picture["bands"], picture.get("whole", False)
    )
    labels = [_label(one) for one in picture["x"]]
    unit = picture.get("y_name", "")
    names = [
        name if len(texts) > 1 or not unit else unit for name, _ in picture["series"]
    ]
    rows = [list(row) for row in zip(labels, *texts)]
    return {
        "columns": [picture.get("x_name") or "", *names],
        "measured": any(isinstance(one, float) for one in picture["x"]),
        "rows": rows[:MOST_ROWS],
        "left_out": len(rows[MOST_ROWS:]),
    }


def _label(one: Any) -> str:
    if isinstance(one, float):
        return f"{one:.6g}"
    return str(one)


def _alone(value: float) -> str:
    if value == 0:
        return "0"
    decimals = ALONE - 1 - math.floor(math.log10(abs(value)))
    if decimals > MOST_DECIMALS:
        return f"{value:.{ALONE - 1}e}"
    text = written(value, min(decimals, MOST_DECIMALS))
    if "." in text:
        return text.rstrip("0").rstrip(".")
    return text


def _outward(end: float, decimals: int, direction: int) -> str:
    """An end rounded away from the number, so that nothing that was promised to lie inside is left out."""
    step = 10.0**-decimals
    steps = end / step
    if direction > 0:
        whole = math.ceil(steps - 1e-9)
    else:
        whole = math.floor(steps + 1e-9)
    return written(whole * step, decimals)
