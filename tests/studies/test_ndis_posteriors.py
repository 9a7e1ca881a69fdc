from __future__ import annotations

import pytest

from gaussveil_studies.ndis.posteriors import breast_cancer, linnerud


def test_both_experiments_beat_the_printed_noise(full: bool) -> None:
    logistic, process = breast_cancer(1000 if full else 400), linnerud(1000 if full else 400)
    assert logistic.added_deviation <= 2.06
    assert logistic.formula_deviation == pytest.approx(3.10, abs=0.01)  # the authors' own code has 4.12
    assert logistic.mean > max(logistic.formula_mean, logistic.authors)
    assert logistic.without_noise > 0.9
    assert process.added_deviation == 0.0
    assert process.formula_deviation == pytest.approx(0.82, abs=0.01)
    assert process.mean < min(process.formula_mean, process.authors)
