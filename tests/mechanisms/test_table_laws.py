"""Laplace noise in tables: what it costs, how wide it is, that it is drawn as planned, and which law is taken."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil import (
    CDF,
    Certificate,
    Count,
    Histogram,
    Ledger,
    Mean,
    Quantile,
    Share,
    Sum,
    TableRelease,
    Variance,
    discover,
    value_of,
    verify,
)
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.table import laplace
from gaussveil.mechanisms.table.draws import whole_rows
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.laws import draws_of
from gaussveil.noise import SeededGenerator
from gaussveil.spectrum.profiles import DiscreteLaplace
from gaussveil.statistics import as_source

RANGE = (0.0, 8.0)
EDGES = (0.0, 1.0, 2.0, 5.0, 8.0)
ZONES = ["a", "b", "c", "d"]
EVERYTHING = [
    Count(),
    Sum("kw", RANGE),
    Mean("kw", RANGE),
    Mean("age", (-5.0, 100.0)),
    Variance("kw", RANGE),
    Share("kw", (2.0, math.inf)),
    Histogram("kw", EDGES),
]
LEARNT = [Mean("kw", bounds="auto"), Sum("age", bounds="auto"), Count()]
VERIFIER = Path(__file__).parents[2] / "verifier" / "gaussveil_verifier.py"


def people(count: int = 2000, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"home": np.arange(count), "zone": rng.choice(ZONES, count).tolist()}
    return pa.table(columns | {"kw": rng.uniform(0, 8, count), "age": rng.uniform(0, 90, count)})


def asked(answers: Any, **changes: Any) -> TableRelease:
    design = {"unit": "home", "epsilon": 1.0, "delta": 1e-6, "by": {"zone": ZONES}, "groups_per_unit": 1}
    return TableRelease(answers=answers, **{**design, **changes})


def test_the_law_of_the_smaller_error_is_taken() -> None:
    for answers in (Count(), Sum("kw", RANGE), Mean("kw", RANGE), Histogram("kw", EDGES), EVERYTHING[:3]):
        for groups in (1, 4):
            laws = ("auto", "gaussian", "laplace")
            found = {law: asked(answers, law=law, groups_per_unit=groups).plan() for law in laws}
            errors = {law: np.mean(np.log([*plan.deviations().values()])) for law, plan in found.items()}
            assert errors["auto"] == pytest.approx(min(errors["gaussian"], errors["laplace"]), abs=1e-12)
            assert found[found["auto"].law].deviations() == found["auto"].deviations()
    assert asked(Count()).plan().law == "laplace"
    assert asked(Count(), by={"hour": range(24)}, groups_per_unit=None).plan().law == "gaussian"
    both = asked(Count()).plan().laws()
    assert both["laplace"].error == 1.0
    assert both["gaussian"].error > 3.0
    assert both["laplace"].delta == 0.0
    assert both["laplace"].of_ten[0] > 3 * both["gaussian"].of_ten[0]  # Gaussians add up to less


def test_a_count_has_the_noise_of_the_geometric_law_and_a_bin_hardly_more() -> None:
    rate = math.exp(-1.0)
    geometric = math.sqrt(2 * rate) / (1 - rate)
    assert asked(Count()).plan().deviations()["count"] == pytest.approx(geometric, rel=1e-9)
    bins = asked(Histogram("kw", tuple(np.linspace(0, 8, 41)))).plan().deviations()
    assert max(bins.values()) == pytest.approx(math.sqrt(2), rel=1e-4)


def test_a_histogram_of_whole_rows_has_the_noise_of_counts() -> None:
    plain = asked(Histogram("kw", EDGES), by={}).plan()
    whole = asked(Histogram("kw", EDGES, whole=True), by={}).plan()
    rate = math.exp(-1.0)
    assert max(whole.deviations().values()) == pytest.approx(math.sqrt(2 * rate) / (1 - rate), rel=1e-9)
    assert plain.alternatives()["histogram_kw: whole=True"] == pytest.approx(0.96, abs=0.005)
    assert "histogram_kw: whole=True" not in whole.alternatives()
    with pytest.raises(ParameterError, match="whole must be True or False"):
        Histogram("kw", EDGES, whole=1)
    value = asked(Histogram("kw", EDGES, whole=True), by={}, epsilon=50.0).release(people()).value
    bins = [value[f"histogram_kw {label}"][0].as_py() for label in Histogram("kw", EDGES).bins.values]
    assert bins == np.histogram(people()["kw"], EDGES)[0].tolist()


def test_histograms_count_whole_rows_where_no_unit_has_parts_of_rows() -> None:
    rate = math.exp(-1.0)
    geometric = math.sqrt(2 * rate) / (1 - rate)
    bins = Histogram("kw", EDGES)
    for rows, in_all, whole in ((1, 1, True), (2, 2, True), (1, 2, False), (3, 2, True), (1, None, False)):
        plan = asked(bins, rows_per_group=rows, rows_per_unit=in_all, groups_per_unit=None).plan()
        (answer,) = plan.request.answers
        assert answer == Histogram("kw", EDGES, whole=whole)
        assert ("in whole rows" in str(plan)) == whole
        assert plan.request.touched == min(in_all or 4, 4)
        assert plan.parameters.get("rows_per_unit") == in_all
    one = asked(bins, rows_per_unit=1, groups_per_unit=None).plan()
    assert max(one.deviations().values()) == pytest.approx(geometric, rel=1e-9)
    assert "since rows_per_unit=1" in str(one)
    said = asked(Histogram("kw", EDGES, whole=False), rows_per_unit=1).plan()
    assert max(said.deviations().values()) == pytest.approx(math.sqrt(2), rel=1e-4)
    with pytest.raises(ParameterError, match="rows_per_unit must be a whole number"):
        asked(bins, rows_per_unit=0).plan()


ROWS_OF_UNITS = st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=5)


@settings(max_examples=100, deadline=None)
@given(bins=ROWS_OF_UNITS, limit=st.integers(1, 9))
def test_whole_rows_are_shared_by_largest_remainders(bins: list[list[int]], limit: int) -> None:
    table = np.array(bins)[:, None]
    rows = np.minimum(table.sum(axis=-1), limit)
    shared = whole_rows(table, rows)
    assert np.array_equal(shared.sum(axis=-1), rows)
    for brought, found, most in zip(table[:, 0].tolist(), shared[:, 0].tolist(), rows[:, 0].tolist()):
        quotas = [Fraction(one * most, max(sum(brought), 1)) for one in brought]
        assert all(abs(one - quota) < 1 for one, quota in zip(found, quotas))
        up = [quota % 1 for one, quota in zip(found, quotas) if one > quota]
        down = [quota % 1 for one, quota in zip(found, quotas) if one < quota]
        assert not up or not down or min(up) >= max(down)
        if sum(brought) <= limit:
            assert found == brought


def test_counts_and_sums_are_as_sure_as_noise_of_half_epsilon_each() -> None:
    # The better of the laws against the plain way: a count and a sum with Laplace noise of half of epsilon each.
    for rows in (1, 2, 4):
        for groups in (1, 2, 3, 8):
            zones = {"zone": [str(k) for k in range(8)]}
            plan = asked([Count(), Sum("kw", RANGE)], by=zones, rows_per_group=rows, groups_per_unit=groups).plan()
            plain = math.sqrt(2) * rows * groups / 0.5
            found = plan.deviations()
            assert found["count"] <= plain, (rows, groups)
            assert found["sum_kw"] <= 8 * plain, (rows, groups)


def test_a_vector_that_moves_by_d_in_all_is_dominated_by_one_number_that_moves_by_d() -> None:
    """The hockey-stick divergence of shifts (i, j, k) by enumeration, against the pair that is charged."""
    scale = 1.7
    support = np.arange(-45, 52)
    epsilons = np.linspace(0.0, 3 / scale, 13)

    def law(shift: int) -> Any:
        weights = np.exp(-np.abs(support - shift) / scale)
        return weights / (1 + 2 * math.exp(-1 / scale) / (1 - math.exp(-1 / scale)))

    for shifts in ((3,), (2, 1), (1, 1, 1)):
        here, there = np.ones(1), np.ones(1)
        for shift in shifts:
            here, there = np.outer(here, law(shift)).ravel(), np.outer(there, law(0)).ravel()
        for first, second in ((here, there), (there, here)):
            exact = [np.maximum(first - math.exp(one) * second, 0.0).sum() for one in epsilons]
            charged = DiscreteLaplace(3, scale).delta(epsilons)
            assert np.all(np.asarray(exact) <= charged + 1e-12)
            if len(shifts) == 1:
                assert exact == pytest.approx(charged, abs=1e-10)


CELLS = st.tuples(
    st.sampled_from(["a", "b", "c", "d", "nowhere"]),
    st.one_of(st.floats(allow_nan=True, width=64), st.sampled_from([0.0, 8.0, 2.0, 1e300])),
)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(CELLS, max_size=12),
    others=st.lists(CELLS, max_size=5),
    bounds=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_no_unit_moves_a_draw_by_more_steps_than_are_charged(rows: list[Any], others: list[Any], bounds: Any) -> None:
    answers = [one for one in EVERYTHING if getattr(one, "column", "kw") == "kw"]
    whole = Histogram("kw", EDGES, whole=True)
    plain = [Sum("kw", RANGE), Histogram("kw", EDGES)]
    for given_answers, in_all in (
        (answers, None),
        (plain, None),
        ([Count()], None),
        ([Count(), whole], None),
        (plain, 1),
    ):
        stated = {"rows_per_group": bounds[0], "groups_per_unit": bounds[1], "rows_per_unit": in_all}
        made = asked(given_answers, law="laplace", **stated)
        noise = made.plan().noise
        assert isinstance(noise, laplace.LaplaceNoise)
        steps = [exact_steps(noise, some) for some in (others, [*others, *((*row, "new") for row in rows)])]
        for name, design in noise.designs.items():
            moved = sum(int(np.abs(one - other).sum()) for one, other in zip(steps[0][name], steps[1][name]))
            assert moved <= design.shift, name
        assert sum(Fraction(one.shift) / Fraction(one.scale) for one in drawn(noise)) <= 1


def drawn(noise: laplace.LaplaceNoise) -> list[laplace.Design]:
    return list(noise.designs.values())


def exact_steps(noise: laplace.LaplaceNoise, rows: list[Any]) -> dict[str, list[Any]]:
    """What every draw would be without its noise, in steps of its grid."""
    homes = ["new" if len(row) > 2 else f"home {place}" for place, row in enumerate(rows)]
    zones, values = [row[0] for row in rows], [row[1] for row in rows]
    text = pa.string()
    table = pa.table(
        {"home": pa.array(homes, text), "zone": pa.array(zones, text), "kw": pa.array(values, pa.float64())}
    )
    draws = draws_of(noise, as_source(table), SeededGenerator(0))
    found: dict[str, list[Any]] = {}
    handed = laplace.LaplaceDraws._drawn

    def steps(self: laplace.LaplaceDraws, name: str, sums: Any) -> Any:
        found.setdefault(name, []).append(sums.on_grid(noise.designs[name].grid) / noise.designs[name].grid)
        return handed(self, name, sums)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(laplace.LaplaceDraws, "_drawn", steps)
        draws.prepare()
        draws.rows()
    return found


def test_answers_are_right_their_noise_is_as_stated_and_bands_hold() -> None:
    table = people()
    noise = asked(EVERYTHING, law="laplace", totals=True).plan().noise
    made = draws_of(noise, as_source(table), SeededGenerator(1))
    made.prepare()
    draws = []
    for _ in range(100):
        made.spent, made.draws = 0.0, 0
        draws.append(Estimates(noise, made.rows(), total=True).columns())
    frame = table.to_pandas()
    groups = [frame[frame.zone == zone] for zone in ZONES] + [frame]
    truth = {
        "count": [len(one) for one in groups],
        "sum_kw": [one.kw.sum() for one in groups],
        "mean_kw": [one.kw.mean() for one in groups],
        "mean_age": [one.age.mean() for one in groups],
        "variance_kw": [one.kw.var(ddof=0) for one in groups],
        "share_kw": [(one.kw >= 2).mean() for one in groups],
        "histogram_kw [1, 2)": [((one.kw >= 1) & (one.kw < 2)).sum() for one in groups],
    }
    for name, exact in truth.items():
        errors = np.array([one[name].value - exact for one in draws])
        stated = np.array([one[name].deviation for one in draws]).mean(axis=0)
        held = np.array([(one[name].low <= exact) & (exact <= one[name].high) for one in draws])
        assert np.all(np.abs(errors.mean(axis=0)) < 5 * stated / math.sqrt(len(draws))), name
        assert errors.std(axis=0) == pytest.approx(stated, rel=0.3), name
        assert 0.93 <= held.mean() <= 0.99, (name, held.mean())


def test_lone_sums_of_both_signs_are_bounded_too() -> None:
    table = people().append_column("net", pa.array(np.linspace(-7.0, 9.0, 2000)))
    made = [asked(Sum("net", (-8.0, 8.0)), generator=SeededGenerator(seed)) for seed in range(40)]
    assert made[0].plan().law == "laplace"
    exact = table.to_pandas().assign(net=lambda one: one.net.clip(-8, 8)).groupby("zone").net.sum().to_numpy()
    errors = np.array([one.release(table).value["sum_net"].to_numpy() - exact for one in made])
    assert errors.std() == pytest.approx(made[0].plan().deviations()["sum_net"], rel=0.3)


@pytest.mark.parametrize("answers", [[Count()], EVERYTHING, LEARNT], ids=["one draw", "several", "learnt"])
def test_a_promise_of_epsilon_alone_goes_through_certificate_ledger_and_verifier(answers: Any, tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "town.ledger").open_account("winter", epsilon=2.0, delta=1e-6)
    for _ in range(2):
        release = asked(answers, epsilon=0.9, delta=0, account=account).release(people(300))
    assert (release.certificate.delta, release.certificate.delta_upper) == (0.0, 0.0)
    assert verify(release.certificate).private
    path = release.certificate.write(tmp_path / "certificate.json")
    assert verify(Certificate.from_json(path.read_text(encoding="utf-8"))).private
    told = subprocess.run([sys.executable, VERIFIER, path], capture_output=True, text=True, check=True)
    assert "verified" in told.stdout
    forged = json.loads(path.read_text(encoding="utf-8"))
    forged["epsilon"] = 0.85
    path.write_text(json.dumps(forged), encoding="utf-8")
    assert subprocess.run([sys.executable, VERIFIER, path], capture_output=True, check=False).returncode != 0
    spent = Ledger(account.ledger).entries("winter")
    assert len(spent) == 2


def test_the_verifier_agrees_on_the_curve_of_one_draw(tmp_path: Path) -> None:
    release = asked(Count(), epsilon=1.25, delta=0, groups_per_unit=3).release(people(50))
    written = json.loads(release.certificate.to_json())
    drawn_from = release.certificate.charge.parts[0].source
    assert isinstance(drawn_from, DiscreteLaplace)
    for epsilon in (0.0, 0.3, 0.7, 1.2):
        exact = float(drawn_from.delta(epsilon))
        claim = written | {"epsilon": epsilon, "delta": exact * (1 + 1e-9), "delta_upper": exact * (1 + 1e-9)}
        for delta, returned in ((exact * (1 + 1e-9), 0), (exact * (1 - 1e-9), 1)):
            path = tmp_path / "claim.json"
            path.write_text(json.dumps(claim | {"delta": delta, "delta_upper": delta}), encoding="utf-8")
            told = subprocess.run([sys.executable, VERIFIER, path], capture_output=True, text=True, check=False)
            assert (told.returncode != 0) == returned, (epsilon, delta, told.stdout)


def test_what_laplace_noise_cannot_answer_is_refused_in_a_sentence() -> None:
    quantile, curve = Quantile("kw", 0.5, RANGE), Mean("kw", bounds="auto")
    for changes, words in (
        ({"answers": quantile, "law": "laplace"}, "law='laplace' must be asked with .* Got Quantile"),
        ({"answers": [Count(), curve], "groups_per_unit": 4, "delta": 0}, "delta 0 must be asked with .* Got Mean"),
        ({"answers": CDF("kw", EDGES), "delta": 0}, "Got CDF"),
        ({"answers": Count(), "by": {"zone": discover("zone")}, "law": "laplace"}, "the key 'zone'"),
        ({"answers": Count(), "delta": 0, "law": "gaussian"}, "delta 0 .* Got law='gaussian'"),
        ({"answers": Count(), "law": "normal"}, "law must be one of 'auto', 'gaussian', 'laplace'"),
        ({"answers": Count(), "epsilon": 0.0, "law": "laplace"}, "epsilon"),
        ({"answers": Count(), "delta": -1e-9}, "delta must be"),
    ):
        with pytest.raises(ParameterError, match=words):
            asked(**changes).plan()


def test_beside_an_account_the_law_leaves_room_for_what_comes_later(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "town.ledger")
    fresh = book.open_account("fresh", epsilon=3.0, delta=1e-5)
    assert asked(Count(), account=fresh).plan().law == "gaussian"
    for answers in (Count(), [Count(), Quantile("kw", 0.5, RANGE)], Count()):
        asked(answers, account=fresh, epsilon=0.5).release(people(200))
    assert len(book.entries("fresh")) == 3
    mixed = book.open_account("mixed", epsilon=3.0, delta=1e-5, filter="renyi", order=8.0)
    for law in ("laplace", "gaussian"):
        asked(Count(), account=mixed, epsilon=0.5, law=law).release(people(200))
    assert len(book.entries("mixed")) == 2
    taken = asked(Count(), account=mixed, epsilon=0.5).plan()
    assert taken.law in ("gaussian", "laplace")
    registered = asked(Count(), law="laplace").plan()
    plan = book.open_account(
        "plan", epsilon=3.0, delta=1e-5, rule="planned", plan=[(registered.charge, 2)], adjacency=registered.adjacency
    )
    for _ in range(2):
        assert asked(Count(), account=plan).release(people(200)).certificate.delta_upper == 0.0
    assert asked(Count(), account=plan).plan().law == "gaussian"  # nothing of the plan is left


def test_a_count_says_what_it_counts() -> None:
    with pytest.raises(ParameterError, match="rows_per_group must be above 1 for Count"):
        asked(Count(rows=True)).plan()
    with pytest.raises(ParameterError, match="rows_per_group must be 1 for Count"):
        asked(Count(rows=False), rows_per_group=3).plan()
    three: Any = 3
    with pytest.raises(ParameterError, match="rows must be True"):
        Count(rows=three)
    assert "counts: units" in repr(asked(Count()).plan())
    many = pa.table({"home": ["x"] * 5 + ["y"], "zone": ["a"] * 6, "kw": [1.0] * 6})
    for rows, answer, expected in ((1, Count(rows=False), 2), (3, Count(rows=True), 4), (9, Count(rows=True), 6)):
        made = asked(answer, rows_per_group=rows, epsilon=200.0, delta=0)
        release = made.release(many)
        assert release.value["count"][0].as_py() == pytest.approx(expected, abs=0.5)
        assert release.certificate.parameters["counted"] == made.plan().request.counts


def test_quantiles_of_one_column_are_searched_for_together() -> None:
    apart = asked([Quantile("kw", 0.9, RANGE), Count(), Quantile("kw", (0.5, 0.9), RANGE)]).plan()
    together = asked([Quantile("kw", (0.5, 0.9), RANGE), Count()]).plan()
    assert apart.deviations() == together.deviations()
    with pytest.raises(ParameterError, match="occurs twice"):
        asked([Quantile("kw", 0.9, RANGE), Quantile("kw", 0.5, (0.0, 4.0))]).plan()


def test_values_that_nobody_listed_are_a_group_of_their_own() -> None:
    zones = pa.array(["a"] * 40 + ["b"] * 30 + ["x", "y"] * 10 + [None] * 7)
    numbers = pa.array([1] * 40 + [2] * 30 + [7, 8] * 10 + [None] * 7)
    table = pa.table({"home": np.arange(97), "zone": zones, "house": numbers})
    wanted: tuple[tuple[dict[str, Any], bool, list[str]], ...] = (
        ({"zone": ["a", "b"]}, True, ["a", "b"]),
        ({"house": [1, 2]}, True, ["1", "2"]),
        ({"zone": value_of("zone", ["a", "b"], other=True)}, False, ["a", "b"]),
    )
    for by, other, labels in wanted:
        found = asked(Count(), by=by, other=other, epsilon=50.0, delta=0).release(table).value
        assert found.column(0).to_pylist() == [*labels, "other"]
        assert found["count"].to_pylist() == pytest.approx([40, 30, 20], abs=1)
    with pytest.raises(ParameterError, match="'other'"):
        value_of("zone", ["a", "other"], other=True)


def test_a_mistyped_column_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(SchemaError, match="Did you mean zone"):
        asked(Count(), by={"zoen": ["a", "b"]}).release(people(10))


def test_keys_that_look_mistyped_are_told_by_their_list_alone() -> None:
    plan = asked(Count(), by={"zone": ["a", "b ", "A", "c"], "house": [1, 2]}).plan()
    assert plan.doubts == [
        "'b ' of zone begins or ends with a blank",
        "'a' and 'A' of zone differ in case or blanks alone",
    ]
    assert not asked(Count()).plan().doubts


def test_learnt_bounds_have_deviations_of_a_nominal_table() -> None:
    for answers in (Mean("kw", bounds="auto"), Mean("kw", unit_norm=3.0), [Variance("kw", bounds="auto"), Count()]):
        plan = asked(answers).plan()
        assert plan.is_nominal
        assert all(0 < sd < math.inf for sd in plan.deviations().values())
        assert all(0 < factor < math.inf for factor in plan.alternatives().values())
    assert not asked(Mean("kw", RANGE)).plan().is_nominal
    half, whole = (asked(Mean("kw", unit_norm=norm)).plan().deviations()["mean_kw"] for norm in (1.5, 3.0))
    assert whole == pytest.approx(2 * half, rel=1e-6)
