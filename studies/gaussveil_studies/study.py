"""What every study is made of: steps that compute parts, parts that hold tables, pictures and claims, and a verdict.

A claim sets a printed figure beside ours; its verdict is computed from the numbers, never written down, so that a
refutation that stops refuting is seen. Parts are plain values: they are cached, compared and written as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure

from gaussveil.report.figures import svg
from gaussveil.typing import Progress
from gaussveil_studies.errata.records import records

Value = str | int | float | bool | None
Row = dict[str, Any]  # of a table, before its columns are chosen

Chosen = TypeVar("Chosen")


class Size(StrEnum):
    """How much is computed: `tiny` for tests, `quick` within three minutes, `full` as the papers do."""

    TINY = "tiny"
    QUICK = "quick"
    FULL = "full"


class Verdict(StrEnum):
    """What became of a printed claim.

    Of the papers': false (a counterexample), gap (true in its own model, not in the usual one), loose (true, more than
    needed), slip (a misprint or a step of a proof) or reproduced. Of libraries and goals: agrees or refuted. Differs:
    other data, or not borne out by the numbers.
    """

    FALSE = "false"
    GAP = "gap"
    LOOSE = "loose"
    SLIP = "slip"
    REPRODUCED = "reproduced"
    AGREES = "agrees"
    REFUTED = "refuted"
    DIFFERS = "differs"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Options:
    """What a run may vary: the folder of the real data, the size, the seed of all draws.

    Results do not depend on `workers`, the processes that share trials, or `kept`, the folder of finished pieces.
    """

    data: Path | None = None
    size: Size = Size.QUICK
    seed: int = 0
    workers: int = 1
    kept: Path | None = None

    def pick(self, tiny: Chosen, quick: Chosen, full: Chosen) -> Chosen:
        """The one of three that belongs to the size."""
        return {Size.TINY: tiny, Size.QUICK: quick, Size.FULL: full}[self.size]

    def folder(self) -> Path:
        """The folder of the real data; a step is only run when its files are in it."""
        return self.data or Path()


@dataclass(frozen=True)
class Table:
    """Named columns and rows of values; the first column names the row."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    caption: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        rows: Sequence[Mapping[str, Value]],
        columns: str,
        caption: str = "",
    ) -> Table:
        """A table of dictionaries: `columns` names their keys in the order shown, with the heading where it is another.

        As in "epsilon; exact: exact delta".
        """
        parts = [part.partition(": ") for part in columns.split("; ")]
        body = tuple(tuple(_plain(row[key]) for key, _, _ in parts) for row in rows)
        return cls(
            name,
            tuple(heading if colon else key for key, colon, heading in parts),
            body,
            caption,
        )


@dataclass(frozen=True)
class Picture:
    """A figure as an SVG element, with the sentence below it."""

    name: str
    element: str
    caption: str = ""

    @classmethod
    def of(cls, name: str, figure: Figure, caption: str) -> Picture:
        """Draw a Matplotlib figure; the caption also describes it to screen readers."""
        return cls(name, svg(figure, name, caption), caption)


@dataclass(frozen=True)
class Claim:
    """A statement as printed, beside our figure; the key names the number for README and docs."""

    key: str
    claim: str
    printed: str
    ours: str
    verdict: Verdict
    because: str = ""


@dataclass(frozen=True)
class Part:
    """What a step found."""

    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Step:
    """One computation of a study.

    `files` are the real data it needs. `surroundings` returns, as text, whatever else the result depends on (peers
    installed, R present): it is part of the cache's key.
    """

    name: str
    title: str
    run: Callable[[Options, Progress], Part]
    files: tuple[str, ...] = ()
    surroundings: Callable[[], str] | None = None

    def missing(self, data: Path | None) -> list[str]:
        """The files that are not there."""
        return [
            name for name in self.files if data is None or not (data / name).is_file()
        ]

    def without_data(self, missing: Sequence[str]) -> Part:
        """The part to show where files are missing."""
        text = f"Not shown: {', '.join(missing)} not found. Name the folder with --data, or set GAUSSVEIL_DATA to it."
        return Part(self.title, (text,))


@dataclass(frozen=True)
class Study:
    """A named sequence of steps about one paper or question."""

    name: str
    title: str
    summary: str
    steps: tuple[Step, ...]

    @property
    def files(self) -> list[str]:
        """All real data files that some step needs."""
        return sorted({name for step in self.steps for name in step.files})


@dataclass(frozen=True)
class Outcome:
    """A study that was run: its parts in order, by the names of their steps, and the files that were missing."""

    study: Study
    size: Size
    seed: int
    parts: Mapping[str, Part]
    missing: tuple[str, ...] = ()

    @property
    def claims(self) -> list[Claim]:
        """Every claim: the verdict of the study."""
        return [claim for part in self.parts.values() for claim in part.claims]


def _plain(value: Value) -> Value:
    """NumPy's scalars as Python's, so that a part read back from the cache equals the one computed."""
    if isinstance(value, np.generic):
        return value.item()
    return value


def judged(
    key: str,
    claim: str,
    printed: str,
    ours: str,
    *,
    refuted: bool | None = None,
    agrees: bool | None = None,
    because: str = "",
) -> Claim:
    """A claim with its verdict: refuted or agreeing where the numbers say so, differing otherwise."""
    if refuted:
        verdict = Verdict.REFUTED
    elif agrees:
        verdict = Verdict.AGREES
    else:
        verdict = Verdict.DIFFERS
    return Claim(key, claim, printed, ours, verdict, because)


class Paper:
    """What one paper prints: the records of `errata/claims.toml` of that document, by key."""

    def __init__(self, document: str) -> None:
        self._records = {
            key: record
            for key, record in records().items()
            if record.document == document
        }

    def judged(
        self,
        key: str,
        ours: str,
        *,
        borne_out: bool,
        printed: str = "",
        because: str = "",
    ) -> Claim:
        """One of its statements beside our figure: the record's verdict where the numbers bear it out."""
        record = self._records[key]
        if borne_out:
            verdict = Verdict(record.verdict)
        else:
            verdict = Verdict.DIFFERS
        return Claim(
            key,
            record.claim,
            record.printed or printed,
            ours,
            verdict,
            because or record.because,
        )


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, its standard error, median and the deciles at the ends: what is kept of many trials."""
    table = np.asarray(values, dtype=np.float64)
    if table.size > 1:
        error = float(table.std(ddof=1)) / table.size**0.5
    else:
        error = None
    low, median, high = np.quantile(table, (0.1, 0.5, 0.9)).tolist()
    return {
        "mean": float(table.mean()),
        "error": error,
        "median": median,
        "low": low,
        "high": high,
    }


def shown(value: Value, digits: int = 3) -> str:
    """A value for people: numbers to some significant digits, nothing for None, 1-2e-5 rather than 1 close to one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    if isinstance(value, int | str):
        return str(value)
    if 0.9995 <= value < 1.0:
        return f"1-{1 - value:.1g}".replace("e-0", "e-")
    text = f"{value:.{digits}g}"
    if "e+" in text and abs(value) < 1e6:
        text = f"{value:.0f}"
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
