"""Every field of certificates of every kind, edited or removed in turn: not verified, or named as one that nobody
checked. Both verifiers say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from flint import ctx

from gaussveil.accounting import Certificate, CertificateDraft, transaction, verify
from gaussveil.accounting.certificates import verification
from gaussveil.errors import FormatError, VerificationError
from gaussveil.mechanisms import (
    CDF,
    AverageSpectrum,
    Count,
    GaussianRelease,
    Histogram,
    Mean,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSketch,
    PrivateSpectrum,
    Quantile,
    Sum,
    SyntheticTable,
    TableRelease,
    TrajectoryRelease,
)
from gaussveil.mechanisms.release_path import Plan
from gaussveil.statistics import discover

from ..independent_verifier import independent

ZONES = {"zone": ["a", "b", "c"]}
BETWEEN: dict[str, Any] = {"between": (0.0, 8.0)}
ROWS = np.arange(60.0).reshape(20, 3) / 60
TABLE = pa.table({"home": np.arange(20), "x": ROWS[:, 0], "y": ROWS[:, 1], "z": ["a", "b"] * 10})
PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


TABLES = ("table", "sums", "many groups", "histogram", "found", "learnt", "laplace")
OTHERS = ("vector", "trajectory", "spectrum", "average", "sketch", "linear", "logistic", "mixture", "rows")
NAMES = (*TABLES, *OTHERS)


def asked(*answers: Any, by: Any = None, **known: Any) -> Plan:
    """The plan of a table."""
    known = {**PROMISE, "law": "gaussian", **known}
    return TableRelease(unit="home", by=by, answers=answers, **known).plan()


@cache
def plans() -> dict[str, Plan | None]:
    """What would be released, of every kind."""
    everything = (Count(), Mean("kw", **BETWEEN), Histogram("kw", (0, 1, 4)), CDF("kw", (0, 2, 8)))
    laplace = (*everything[:3], Mean("kw2", **BETWEEN), Sum("kw3", between=(-8, 8)))
    return {
        "table": asked(*everything, Quantile("kw", 0.5, **BETWEEN), by=ZONES, rows_per_group=2),
        "sums": asked(Sum("kw", **BETWEEN), Sum("kw2", between=(-8, 8)), by=ZONES, groups_per_unit=2),
        "many groups": asked(Count(), by={"zone": list(map(str, range(40)))}, groups_per_unit=30),
        "histogram": asked(Histogram("kw", (0, 1, 4))),
        "found": asked(Count(), by={"zone": discover("zone")}),
        "learnt": asked(Count(), Mean("kw", bounds="auto"), by=ZONES),
        "laplace": asked(*laplace, by=ZONES, rows_per_group=2, law="laplace", delta=0.0),
        "vector": GaussianRelease(**PROMISE, l2_sensitivity=1.0).dry_run(np.zeros(3)),
        "trajectory": TrajectoryRelease(**PROMISE, l2_ball=1.0).dry_run(np.arange(9.0)),
        "spectrum": PrivateSpectrum(**PROMISE, l2_ball=1.0, points=4).dry_run(np.arange(40.0) % 3),
        "average": AverageSpectrum(**PROMISE, norm=1.0, points=4, bands=2).dry_run(np.arange(80.0).reshape(40, 2) % 3),
        "sketch": PrivateSketch(**PROMISE, row_norm=1.0, n_components=4).dry_run(ROWS),
        "linear": PrivateLinearRegression(**PROMISE, bounds=(0, 1)).dry_run(ROWS[:, :2], ROWS[:, 2]),
        "logistic": PrivateLogisticRegression(**PROMISE, classes=[0, 1], bounds=(0, 1)).dry_run(
            ROWS, np.arange(20) % 2
        ),
        "mixture": PrivateGaussianMixture(**PROMISE, radius=1.0).dry_run(ROWS, np.arange(20) % 2),
        "rows": SyntheticTable(**PROMISE, unit="home", rows_per_unit=2, bounds="auto").dry_run(TABLE),
    }


@cache
def record(name: str) -> str:
    """A certificate of the plan."""
    plan = plans()[name]
    assert plan is not None
    drafted = CertificateDraft(
        released=plan.released,
        mechanism="table" if name in (*TABLES, "edited") else name,
        adjacency=plan.adjacency,
        epsilon=1.0,
        delta=0.0 if name == "laplace" else 1e-5,
        assumptions=tuple(plan.assumptions),
        parameters=plan.parameters,
    )
    with transaction(None, plan.charge, drafted) as debit:
        debit.draw(lambda: 0)
    return debit.certificate.to_json()


def answers(text: str) -> tuple[bool, tuple[str, ...]]:
    """Whether both verifiers say "verified", and what they name as not checked, which must agree."""
    theirs = independent().verify(text.encode())
    try:
        ours = verify(Certificate.from_json(text))
    except (FormatError, VerificationError):
        assert theirs.outcome != "verified", text
        return False, ()
    assert ours.ok is (theirs.outcome == "verified"), (ours, theirs)
    assert not ours.ok or ours.unchecked == theirs.unchecked
    return ours.ok, ours.unchecked


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every leaf, of long lists the first two."""
    if isinstance(value, dict) and value:
        return [one for name, item in value.items() for one in paths(item, (*path, name))]
    if isinstance(value, list) and value:
        return [one for place, item in enumerate(value[:2]) for one in paths(item, (*path, place))]
    return [path]


def edited(value: Any) -> list[Any]:
    """Other contents of a leaf."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [1.0, "something else"]
    return [value * 2, value / 2, value * (1 + 1e-6), -1.0]


def changed(body: str, path: tuple[Any, ...], value: Any, *, removed: bool = False) -> str:
    """The certificate with one leaf changed."""
    made = json.loads(body)
    parent = made
    for step in path[:-1]:
        parent = parent[step]
    if removed:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return json.dumps(made)


def is_named(path: tuple[Any, ...], names: tuple[str, ...]) -> bool:
    """Whether a field or what it is in is named."""
    dotted = ".".join(map(str, path))
    return any(
        f"{dotted}.".startswith(f"{name.removesuffix(' (from one side)').removesuffix(' (not stated)')}.")
        for name in names
    )


@pytest.fixture(scope="module")
def remembered() -> Iterator[None]:
    """Both verifiers keep what they enclosed: most edits leave the pair as it was."""
    patch, known = pytest.MonkeyPatch(), dict[Any, Any]()
    first, second = verification._ends, independent().delta_bounds

    def by_ours(certificate: Certificate, total: Any) -> Any:
        key = certificate.charge.to_json(), certificate.epsilon, certificate.adjacency.symmetric
        if key not in known:
            known[key] = first(certificate, total)
        return known[key]

    def by_theirs(stated: Any, work: Any) -> Any:
        key = json.dumps([stated["dominating"], stated["adjacency"], stated["epsilon"], stated["delta"]]), ctx.prec
        if key not in known:
            known[key] = second(stated, work)
        return known[key]

    patch.setattr(verification, "_ends", by_ours)
    patch.setattr(independent(), "delta_bounds", by_theirs)
    yield
    patch.undo()


EVERYWHERE = "format version release privacy_unit adjacency guarantee composition epsilon parameters dominating sampler"
LOOKED_AT = {"laplace": "parameters dominating", "vector": EVERYWHERE}
# Larger ones promise less, and of a shift that all coordinates share it does not matter how many they are.
WEAKER = {"epsilon", "delta", "delta_upper", "multiplicity", "signature"}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_edited_is_noticed_or_named(name: str, remembered: None) -> None:
    body = record(name)
    ok, named = answers(body)
    assert ok
    stated = json.loads(body)
    passed = []
    for path in paths(stated):
        if is_named(path, named) or WEAKER.intersection(path):
            continue
        if path[0] not in LOOKED_AT.get(name, "parameters").split():
            continue  # the same in all
        value = stated
        for step in path:
            value = value[step]
        for other in edited(value):
            verified, unchecked = answers(changed(body, path, other))
            if verified and other != value and not is_named(path, unchecked):
                passed.append((path, other))
        verified, unchecked = answers(changed(body, path, None, removed=True))
        if verified and value not in ([], {}) and not set(unchecked) - set(named):
            passed.append((path, "removed"))
    assert not passed


BOUNDS = "rows_per_group", "groups_per_unit", "groups_in_all"
TOGETHER = " (only together)"


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "answer",
    [Count(), Sum("kw", **BETWEEN), Sum("kw", between=(-8, 8)), Mean("kw", **BETWEEN), Histogram("kw", (0, 1, 4))],
    ids=lambda one: one.name + str(getattr(one, "between", "")),
)
def test_bounds_of_a_unit_are_held_one_by_one_and_named_where_several_may_change(
    answer: Any, law: str, remembered: None
) -> None:
    """(2, 3) and (3, 2) have one product, (2, 1) and (1, 4) one square times the other, and noise goes with them."""
    for stated in ((2, 3, 6), (1, 4, 6), (2, 2, 2)):
        rows, groups, cells = stated
        by = {"zone": list(map(str, range(cells)))}
        plans()["edited"] = asked(answer, by=by, rows_per_group=rows, groups_per_unit=groups, law=law)
        record.cache_clear()
        body = record("edited")
        ok, named = answers(body)
        assert ok
        alone, together = ({name for name in BOUNDS if f"parameters.{name}{end}" in named} for end in ("", TOGETHER))
        assert {"parameters.noise variances" + TOGETHER} <= set(named)
        others = [(r, t, d) for r in range(1, 5) for t in (1, 2, 3, 4, 6, 8) for d in (2, 6, 11)]
        for other in others:
            made = json.loads(body)
            made["parameters"].update(zip(BOUNDS, other, strict=True))
            if answers(json.dumps(made))[0]:
                moved = {name for name, one, kept in zip(BOUNDS, other, stated, strict=True) if one != kept}
                assert moved <= alone | together, (stated, other)
                assert len(moved) != 1 or moved <= alone, (stated, other)
    plans().pop("edited")


def test_noise_and_rows_that_are_edited_together_are_named(remembered: None) -> None:
    """Half the rows and a quarter of every variance fit each other as well: no verifier can tell which was asked."""
    made = json.loads(record("table"))
    known = made["parameters"]
    known["rows_per_group"] = 1
    noise = known["noise variances"]
    known["noise variances"] = {name: [each / 4 for each in parts] for name, parts in noise.items()}
    ok, named = answers(json.dumps(made))
    assert ok
    assert {f"parameters.{name}{TOGETHER}" for name in ("rows_per_group", "noise variances", "squared losses")} <= {
        *named
    }


@pytest.mark.parametrize("stated", [(2**20, 1), (1, 2**18)])
def test_bounds_that_rounded_bins_tell_of_only_about_are_named(stated: tuple[int, int], remembered: None) -> None:
    rows, groups = stated
    by = {"zone": range(groups)}
    plans()["edited"] = asked(Histogram("kw", (0, 1, 4)), by=by, rows_per_group=rows, law="laplace")
    record.cache_clear()
    body = record("edited")
    ok, named = answers(body)
    assert ok
    plans().pop("edited")
    for place, name in enumerate(BOUNDS[:2]):
        for change in (-2, -1, 1):
            made = json.loads(body)
            made["parameters"][name] = max(stated[place] + change, 1)
            verified, _ = answers(json.dumps(made))
            assert not verified or made["parameters"][name] == stated[place] or f"parameters.{name}" in named


@pytest.mark.parametrize("version", [1.0, True])
def test_a_version_that_is_no_whole_number_is_refused_by_both(version: object, remembered: None) -> None:
    for path in (("version",), ("dominating", "charge", "parts", 0, "profile", "version")):
        assert answers(changed(record("laplace"), path, version)) == (False, ())
