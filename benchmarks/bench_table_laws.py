"""Laplace or Gaussian noise in tables: errors beside diffprivlib and OpenDP, and what filters lose on Laplace noise.

Of diffprivlib both errors are drawn, in its own environment; of OpenDP the deviations that it states. Draws leave half
a per cent of chance in each. With RESUME=FOLDER a cell that OpenDP was asked is not asked again.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil import Count, DiscreteLaplace, GaussianPair, Histogram, Sum, TableRelease
from gaussveil.accounting import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.ledger.filters import Budget, best_order, filter_usage
from gaussveil.calibration import mean_shift_for
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.laws import draws_of
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import as_source
from side_by_side import kept

HERE = Path(__file__).parent
DIFFPRIVLIB = os.environ.get("PEER_DIFFPRIVLIB") or str(HERE.parent / ".venv-peers-diffprivlib" / "bin" / "python")
OPENDP = os.environ.get("PEER_PYTHON") or str(HERE.parent / ".venv-peers-opendp" / "bin" / "python")
DRAWS, COUNTS = 1000, 60_000
BINS, ENDS, LARGEST = 40, (0.0, 100.0), 10.0
PROMISE: dict[str, Any] = {"unit": "home", "epsilon": 1.0, "delta": 1e-6}
ONE_ROW = {"rows_per_unit": 1}  # a public fact of the table that both are asked about
SMALL = Charge(DiscreteLaplace(1, 10.0))
ACCOUNTS = (Budget(1.0, 1e-6), Budget(3.0, 1e-5))
Row = dict[str, Any]
Spent = list[tuple[Charge, int]]


def run() -> list[Row]:
    return [*beside_diffprivlib(), *beside_opendp(), *lost_by_filters()]


def row(name: str, ours: float, peer: float, goal: float | None, note: str = "") -> Row:
    """A ratio that must not exceed its goal."""
    met = goal is None or ours <= goal * peer
    return {"name": name, "ours": ours, "peer": peer, "ratio": ours / peer, "goal": goal, "met": met, "note": note}


def beside_diffprivlib() -> list[Row]:
    """Root mean squared errors of 40 bins and of a single count, one row a person, as they are released."""
    values = np.clip(np.random.default_rng(5).normal(50, 15, 5000), *ENDS)
    asked = {"values": values.tolist(), "bins": BINS, "ends": ENDS, "draws": DRAWS, "counts": COUNTS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.json"
        path.write_text(json.dumps(asked), encoding="utf-8")
        command = [DIFFPRIVLIB, str(HERE / "diffprivlib_counts.py"), str(path)]
        theirs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    edges = tuple(np.linspace(*ENDS, BINS + 1))
    truth = np.histogram(values, edges)[0]
    table = pa.table({"home": np.arange(len(values)), "kw": values})
    found = []
    answer = Histogram("kw", edges)
    for words, stated, goal, note in (
        ("one row a person", ONE_ROW, 1.02, "rows_per_unit=1, as for diffprivlib, whose rows are people"),
        ("people of any number of rows", {}, 1.06, "shares of rows: no noise on them is below 1.02"),
    ):
        own = drawn_error(table, answer, truth, stated)
        found.append(row(f"histogram, {words}: error beside diffprivlib", own, theirs["histogram"], goal, note))
    plan = TableRelease(**PROMISE, **ONE_ROW, answers=Count()).plan()
    words = "count, one row a person: stated deviation beside diffprivlib"
    return [*found, row(words, plan.deviations()["count"], theirs["count"], 1.02)]


def drawn_error(table: pa.Table, answer: Histogram, truth: Any, stated: dict[str, int]) -> float:
    """Root mean squared error of an answer's columns over many releases; the table is read once."""
    asked = TableRelease(**PROMISE, **stated, answers=answer, generator=SeededGenerator(1))
    noise = asked.plan().noise
    (planned,) = noise.request.answers
    made = draws_of(noise, as_source(table), asked.generator)
    made.prepare()
    squares = []
    for _ in range(DRAWS):
        made.spent = 0.0
        columns = list(Estimates(noise, made.rows()).answer(planned).values())[: len(truth)]
        squares.append(np.mean([(float(one.value[0]) - true) ** 2 for one, true in zip(columns, truth)]))
    return math.sqrt(np.mean(squares))


def beside_opendp() -> list[Row]:
    """A count and a sum by eight zones, together under one promise: deviations as both sides state them."""
    cells = [(rows, groups) for rows in (1, 2, 4) for groups in (1, 2, 3, 8)]
    found = []
    for rows, groups in cells:
        peers = kept(opendp_cell, (rows, groups))
        bounds = {"rows_per_group": rows, "groups_per_unit": groups}
        plan = TableRelease(
            **PROMISE, **bounds, by={"zone": range(8)}, answers=[Count(), Sum("kw", (0.0, LARGEST))]
        ).plan()
        for name, ours, peer in zip(("count", "sum"), plan.deviations().values(), peers, strict=True):
            words = f"{rows} rows, {groups} groups: deviation of a {name} beside OpenDP"
            found.append(row(words, ours, peer, 1.0, f"{plan.law} noise"))
    return found


def opendp_cell(cell: tuple[int, int]) -> list[float]:
    """What OpenDP states of the count and of the sum; with RESUME it is asked once."""
    command = [OPENDP, str(HERE / "opendp_answers.py"), "--cell", *map(str, cell), str(LARGEST)]
    stated: list[float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return stated


def lost_by_filters() -> list[Row]:
    """How many counts of epsilon .1 fit by a filter over how many fit into a plan: alone, and after Gaussian halves."""
    found = []
    for budget in ACCOUNTS:
        half = mean_shift_for(budget.epsilon, budget.delta) / math.sqrt(2)
        for words, before in (("alone", []), ("beside Gaussian noise of half the account", [half])):
            gaussian = [(Charge(GaussianPair.mean_shift(one)), 1) for one in before]
            exact = most(partial(planned, budget, gaussian))
            first = gaussian[0][0] if gaussian else SMALL
            order = best_order(budget, first, symmetric=False)
            filters = {"renyi": order, "mean-shift": None} if gaussian else {"renyi": order}
            for name, at in filters.items():
                count = most(partial(filtered, budget, name, at, gaussian))
                note = f"{count} fit by the filter, {exact} by a plan"
                what = f"counts of epsilon .1 {words} in ({budget.epsilon:g}, {budget.delta:g})"
                found.append(row(f"{what}, {name} filter: of a plan's number", count, exact, None, note))
    return found


def planned(budget: Budget, before: Spent, count: int) -> bool:
    """Whether exact composition of these and so many small counts is within the budget."""
    composed = Composition.of([*before, (SMALL, count)], symmetric=False)
    return composed.delta_upper(budget.epsilon, enough=budget.delta) <= budget.delta


def filtered(budget: Budget, name: str, order: float | None, before: Spent, count: int) -> bool:
    """Whether a filter admits them."""
    return filter_usage(budget, name, order, [*before, (SMALL, count)], symmetric=False).within


def most(fits: Callable[[int], bool]) -> int:
    """The largest number that fits."""
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
