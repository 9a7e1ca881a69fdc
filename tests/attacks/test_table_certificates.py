"""Parameters of a table's certificate that were edited after the release: neither verifier takes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gaussveil.accounting import Certificate, verify
from gaussveil.mechanisms import CDF, Count, Histogram, Mean, Quantile, Sum, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import discover

from ..independent_verifier import independent

TABLE = pa.table(
    {"home": np.arange(60) % 20, "zone": ["a", "b", "c"] * 20, "kw": np.arange(60) / 8, "kw2": np.arange(60) / 8 - 4}
)
ZONES = {"zone": ["a", "b", "c"]}
WHOLE: dict[str, Any] = {"rows_per_group": 2, "by": ZONES}
REQUESTS: dict[str, dict[str, Any]] = {
    "everything": {
        "answers": [
            *(Count(), Mean("kw", between=(0, 8)), Histogram("kw", (0, 1, 4)), CDF("kw", (0, 2, 8))),
            Quantile("kw", 0.5, between=(0, 8)),
        ],
        **WHOLE,
    },
    "sums alone": {"answers": [Sum("kw", between=(0, 8)), Sum("kw2", between=(-8, 8))], **WHOLE},
    "found": {"answers": [Count()], "by": {"zone": discover("zone")}},
    "learnt": {"answers": [Count(), Mean("kw", bounds="auto")], "by": ZONES},
    "learnt, Laplace": {"answers": [Count(), Mean("kw", bounds="auto")], "by": ZONES, "law": "laplace"},
    "learnt alone, Laplace": {"answers": [Mean("kw", bounds="auto")], "by": ZONES, "law": "laplace"},
}


@cache
def record(name: str) -> str:
    """A certificate as it was issued."""
    terms = {"epsilon": 1.0, "delta": 1e-5, "unit": "home", "law": "gaussian", **REQUESTS[name]}
    asked = TableRelease(generator=SeededGenerator(1), **terms)
    return asked.release(TABLE).certificate.to_json()


def verdicts(text: str) -> tuple[bool, str]:
    """What the library and the other program say, which must agree."""
    ours = verify(Certificate.from_json(text))
    theirs = independent().verify(text.encode())
    assert ours.outcome == theirs.outcome
    return ours.ok, theirs.outcome


@pytest.mark.parametrize("name", REQUESTS)
def test_what_was_issued_verifies(name: str) -> None:
    assert verdicts(record(name)) == (True, "verified")


def more_loss(known: dict[str, Any]) -> None:
    known["squared losses"]["rows"] *= 1.5


def moved_loss(known: dict[str, Any]) -> None:
    """The sum stays; the noise of one draw is no longer what its loss needs."""
    losses = known["squared losses"]
    losses["histogram 0"], losses["rows"] = losses["histogram 0"] / 2, losses["rows"] + losses["histogram 0"] / 4


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "more rows": lambda known: known.update(rows_per_group=3),
    "fewer rows": lambda known: known.update(rows_per_group=1),
    "no rows": lambda known: known.update(rows_per_group=0),
    "half a row": lambda known: known.update(rows_per_group=0.5),
    "one row by truth": lambda known: known.update(rows_per_group=True),
    "more groups": lambda known: known.update(groups_per_unit=4),
    "fewer groups": lambda known: known.update(groups_per_unit=1),
    "more loss": more_loss,
    "moved loss": moved_loss,
    "less noise of rows": lambda known: known["noise variances"].update(rows=[0.5, 0.5]),
    "less noise of bins": lambda known: known["noise variances"].update(histograms=[1.0]),
    "more noise of bins": lambda known: known["noise variances"].update(histograms=[1e9]),
    "a histogram more": lambda known: known["noise variances"]["histograms"].append(1e9),
    "no loss of it": lambda known: known["squared losses"].pop("histogram 0"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_parameter_is_refuted_by_both(name: str) -> None:
    edited = json.loads(record("everything"))
    EDITS[name](edited["parameters"])
    assert verdicts(json.dumps(edited)) == (False, "refuted")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("squared losses", [1]),
        ("squared losses", {"rows": "x"}),
        *(
            ("noise variances", {"rows": pair})
            for pair in ([1], [1e9, -1.0], [41.6, "1000"], [41.6, None], [1e9, False])
        ),
    ],
)
def test_what_is_no_number_is_not_verified(key: str, value: Any) -> None:
    edited = json.loads(record("everything"))
    edited["parameters"][key] = value
    assert verdicts(json.dumps(edited)) == (False, "not decided")


@pytest.mark.parametrize("name", ["learnt, Laplace", "learnt alone, Laplace"])
@pytest.mark.parametrize("key", ["noise variances", "epsilons"])
def test_learnt_bounds_with_laplace_noise_cannot_be_edited(name: str, key: str) -> None:
    for factor in (0.5, 2.0):
        edited = json.loads(record(name))
        edited["parameters"][key]["profile 0"] *= factor
        assert verdicts(json.dumps(edited)) == (False, "refuted")


def test_noise_on_whole_numbers_names_its_bounds_too() -> None:
    asked = TableRelease(epsilon=1.0, delta=0.0, unit="home", law="laplace", answers=[Count()], by=ZONES)
    text = asked.release(TABLE).certificate.to_json()
    assert verdicts(text) == (True, "verified")
    edited = json.loads(text)
    edited["parameters"]["groups_per_unit"] = 0
    assert verdicts(json.dumps(edited))[0] is False
