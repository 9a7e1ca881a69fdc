"""The promise of `PrivacyLoss.delta`, a relative error below 1e-9, in every regime, against 45 digits of mpmath."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from mpmath import mpf

from gaussveil.spectrum import PrivacyLoss

SPEC = importlib.util.spec_from_file_location("accuracy", Path(__file__).parents[2] / "docs" / "accuracy.py")
assert SPEC is not None
assert SPEC.loader is not None
accuracy = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(accuracy)


@pytest.mark.parametrize("regime", accuracy.REGIMES)
def test_delta_keeps_its_promise(regime: str) -> None:
    gap, count, energy, epsilons = accuracy.REGIMES[regime]
    loss = PrivacyLoss.from_terms(gap, count, energy)
    for epsilon in epsilons:
        truth = accuracy.reference(np.array(gap), np.array(count), np.array(energy), epsilon)
        assert 0 < truth < 1
        assert abs(mpf(float(loss.delta(epsilon))) / truth - 1) < mpf(10) ** -9
        enclosed = loss.enclose(epsilon)
        assert mpf(enclosed.lower) * (1 - mpf(10) ** -12) <= truth <= mpf(enclosed.upper) * (1 + mpf(10) ** -12)
