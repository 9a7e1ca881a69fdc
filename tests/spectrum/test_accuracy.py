"""The promise of `PrivacyLoss.delta` in every regime, against references of 60 digits."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from mpmath import fabs, mp, mpf

SPEC = importlib.util.spec_from_file_location("accuracy", Path(__file__).parents[2] / "docs" / "accuracy.py")
assert SPEC is not None
assert SPEC.loader is not None
accuracy = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(accuracy)
REGIMES = accuracy.regimes()
TRUTHS = json.loads((Path(__file__).parents[1] / "reference" / "accuracy.json").read_text(encoding="utf-8"))


MIDDLE = ("condition number 1e6", "condition number 1e10")  # between others that are in every run


@pytest.mark.parametrize(
    "regime", [pytest.param(name, marks=pytest.mark.full if name in MIDDLE else ()) for name in REGIMES]
)
def test_delta_keeps_its_promise(regime: str, full: bool) -> None:
    condition = float(regime.rpartition(" ")[2]) if regime.startswith("condition") else 0.0
    promise = 1e-9 + min(3e-15 * 3 * condition, 1e-6)
    with mp.workdps(70):
        for number, ((loss, terms, epsilon), kept) in enumerate(zip(REGIMES[regime], TRUTHS[regime], strict=True)):
            # Matrices are made by products whose last digits are the machine's own, so their truths are, too.
            truth = accuracy.reference(terms, epsilon) if condition else mpf(kept)
            assert 0 < truth < 1
            assert fabs(truth / mpf(kept) - 1) < promise
            if full or not number:  # the reference itself, by another contour
                assert fabs(truth / accuracy.reference(terms, epsilon, slope=0.3) - 1) < mpf(10) ** -60
            assert fabs(mpf(float(loss.delta(epsilon))) / truth - 1) < promise
            enclosed = loss.enclose(epsilon)
            assert mpf(enclosed.lower) * (1 - mpf(10) ** -12) <= truth <= mpf(enclosed.upper) * (1 + mpf(10) ** -12)


def test_the_page_shows_every_regime() -> None:
    page = (Path(__file__).parents[2] / "docs" / "math" / "spectrum.md").read_text(encoding="utf-8")
    for regime in REGIMES:
        assert f"number:computed.accuracy-{regime.replace(' ', '-')} -->" in page
