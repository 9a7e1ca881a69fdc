from __future__ import annotations

from gaussveil_studies.ndis.posteriors import breast_cancer, linnerud


def test_both_experiments_beat_the_published_noise(full: bool) -> None:
    logistic, process = breast_cancer(1000 if full else 40), linnerud(1000 if full else 40)
    assert logistic.added_deviation <= 2.06
    assert logistic.mean > logistic.published
    assert logistic.without_noise > 0.9
    assert process.added_deviation == 0.0
    assert process.mean < process.published
