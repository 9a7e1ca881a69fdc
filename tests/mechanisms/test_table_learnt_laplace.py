"""Learnt bounds with Laplace noise: what all draws cost together, and that bounds cost no more than public ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil import Mean, Sum, TableRelease
from gaussveil.mechanisms.table import laplace_profile
from gaussveil.mechanisms.table.draws import Drawn
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.laplace_profile import STEPS
from gaussveil.mechanisms.table.laws import draws_of
from gaussveil.mechanisms.table.noise import TableNoise
from gaussveil.noise import SeededGenerator
from gaussveil.spectrum.profiles import DiscreteLaplace
from gaussveil.statistics import as_source

ZONES = ["a", "b", "c", "d"]
VALUES = st.one_of(st.floats(allow_nan=True, width=64), st.sampled_from([0.0, 8.0, 1e300]))
CELLS = st.tuples(st.sampled_from([*ZONES, "nowhere"]), VALUES)


def asked(answers: Any, **changes: Any) -> TableRelease:
    design = {"unit": "home", "epsilon": 1.0, "delta": 1e-6, "by": {"zone": ZONES}, "groups_per_unit": 1}
    return TableRelease(answers=answers, **{**design, **changes})


def table_of(rows: list[Any]) -> pa.Table:
    """Rows of zone and value, of a home each unless they name another."""
    homes = ["new" if len(row) > 2 else f"home {place}" for place, row in enumerate(rows)]
    zones, values = [row[0] for row in rows], [row[1] for row in rows]
    text = pa.string()
    return pa.table(
        {"home": pa.array(homes, text), "zone": pa.array(zones, text), "kw": pa.array(values, pa.float64())}
    )


@settings(max_examples=5, deadline=None)
@given(
    rows=st.lists(CELLS, max_size=8),
    others=st.lists(CELLS, max_size=5),
    touched=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_no_unit_moves_learnt_bounds_and_what_they_bound_by_more_steps_than_are_charged(
    rows: list[Any], others: list[Any], touched: int, seed: int
) -> None:
    """All draws of a profile with the numbers that earlier ones gave, which tell how many steps later ones take."""
    answer = (Mean, Sum)[seed % 2]("kw", bounds="auto")
    made = asked(answer, law="laplace", rows_per_group=2, groups_per_unit=touched)
    noise = made.plan().noise
    given_before: list[Any] = []
    tables = [table_of(some) for some in (others, [*others, *((*row, "new") for row in rows)])]
    taken = [profile_steps(noise, table, given_before, seed) for table in tables]
    moved = [float(np.abs(one - other).sum()) for one, other in zip(*taken, strict=True)]
    assert len(moved) == 6
    assert sum(moved) <= STEPS
    (part,) = noise.charge.parts
    assert isinstance(part.source, DiscreteLaplace)
    assert part.source.shift == STEPS


def profile_steps(noise: TableNoise, table: pa.Table, given_before: list[Any], seed: int) -> list[Any]:
    """Every draw of a profile before its noise, in steps; the noisy numbers are those of the first table."""
    found: list[Any] = []
    drawn_first = laplace_profile.noisy

    def steps(design: Any, sums: Any, generator: Any, size: int = 1) -> Any:
        found.append(sums.on_grid(design.grid) / design.grid * size)
        if len(given_before) < len(found):
            given_before.append(drawn_first(design, sums, generator, size))
        return given_before[len(found) - 1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(laplace_profile, "noisy", steps)
        draws = draws_of(noise, as_source(table), SeededGenerator(seed))
        draws.prepare()
        draws.profiles()
    return found


def test_steps_that_depend_on_earlier_draws_are_dominated_by_all_of_them_at_once() -> None:
    """One step, then two more at once or one after the other, as the first tells: against one that moves by 3."""
    scale = 1.7
    support = np.arange(-40, 44)

    def law(shift: int) -> Any:
        return np.exp(-np.abs(support - shift) / scale) * math.tanh(1 / (2 * scale))

    pieces = []
    for place in range(len(support)):
        first = law(1)[place], law(0)[place]
        if support[place] > 0:
            later = law(2), law(0)
        else:
            later = np.outer(law(1), law(1)).ravel(), np.outer(law(0), law(0)).ravel()
        pieces.append([one * other for one, other in zip(first, later, strict=True)])
    here, there = (np.concatenate(one) for one in zip(*pieces, strict=True))
    for epsilon in np.linspace(0.0, 3 / scale, 13):
        charged = float(DiscreteLaplace(3, scale).delta(epsilon))
        for first, second in ((here, there), (there, here)):
            assert float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum()) <= charged + 1e-9


def test_learnt_bounds_with_laplace_noise_are_as_good_as_the_best_public_range() -> None:
    """Two groups of 4,000 people whose means are far apart, beside the range that nobody could know so well."""
    rng = np.random.default_rng(11)
    place = np.repeat([0, 1], 4000)
    kw = np.where(place == 0, 20.0, 80.0) + rng.normal(0, 8, 8000)
    table = pa.table({"home": np.arange(8000), "zone": np.array(["a", "b"])[place].tolist(), "kw": kw})
    truth = np.array([kw[place == 0].mean(), kw[place == 1].mean()])
    wrong = {}
    for answer in (Mean("kw", bounds="auto"), Mean("kw", between=(0.0, 105.0))):
        made = asked(answer, by={"zone": ["a", "b"]}).plan()
        assert made.law == "laplace"
        draws = draws_of(made.noise, as_source(table), SeededGenerator(3))
        draws.prepare()
        errors, held = [], []
        for _ in range(12):
            draws.spent = 0.0
            rows = Drawn(profiles=draws.profiles()) if answer.is_profile else draws.rows()
            one = Estimates(made.noise, rows).columns()["mean_kw"]
            errors.append(np.mean((one.value - truth) ** 2))
            held.append(np.mean((one.low <= truth) & (truth <= one.high)))
        assert np.mean(held) > 0.75  # of 24 bands
        wrong[answer.bounds] = math.sqrt(np.mean(errors))
    assert wrong["auto"] < 1.1 * wrong[None]


FEW = 150
VALUES_OF_FEW = {
    "far apart": lambda rng: np.where(np.arange(FEW) % 2, 80.0, 20.0) + rng.normal(0, 2, FEW),
    "exponential": lambda rng: rng.exponential(10.0, FEW),
}


@pytest.mark.parametrize("law", VALUES_OF_FEW)
def test_of_few_units_no_noise_is_taken_for_units_far_away(law: str, full: bool) -> None:
    """Values of ordinary size in two groups: no number is far off, whatever noise strays in the histograms of norms.

    An octave that noise fills, a centre made of noise or a side that nobody is on made radii a thousand times too wide
    in one release of a hundred, and one in five hundred left what was clipped outside its band.
    """
    held, wrong = [], []
    for seed in range(12 if full else 2):
        kw = VALUES_OF_FEW[law](np.random.default_rng([0, 4 + seed]))
        table = pa.table({"home": np.arange(FEW), "zone": [ZONES[place % 2] for place in range(FEW)], "kw": kw})
        truth = np.array([kw[::2].mean(), kw[1::2].mean()])
        made = asked(Mean("kw", bounds="auto"), by={"zone": ZONES[:2]}).plan()
        draws = draws_of(made.noise, as_source(table), SeededGenerator(4 + seed))
        draws.prepare()
        for _ in range(12):
            draws.spent = 0.0
            one = Estimates(made.noise, Drawn(profiles=draws.profiles())).columns()["mean_kw"]
            wrong.append(np.abs(one.value - truth).max())
            held.append((one.low <= truth) & (truth <= one.high))
    assert np.mean(held) > 0.9
    assert np.quantile(wrong, 0.95) < 40.0


def test_learnt_bounds_are_trusted_where_hardly_any_release_is_far_off() -> None:
    assert asked(Mean("kw", bounds="auto"), by={"zone": ["a", "b"]}).plan().fewest_units == 189
