"""One sentence for every parameter that is out of range."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gaussveil import checks
from gaussveil.errors import ParameterError


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: checks.epsilon(600), "epsilon must be a number in [0, 500]. Got 600."),
        (lambda: checks.epsilon(None), "epsilon must be a number in [0, 500]. Got None."),
        (lambda: checks.epsilon(float("nan")), "epsilon must be a number in [0, 500]. Got nan."),
        (lambda: checks.epsilon(True), "epsilon must be a number in [0, 500]. Got True."),
        (lambda: checks.delta(1.0), "delta must be a number in [1e-100, 1). Got 1.0."),
        (lambda: checks.delta("0.1"), "delta must be a number in [1e-100, 1). Got '0.1'."),
        (lambda: checks.positive("radius", 0), "radius must be a finite number, above 0. Got 0."),
        (lambda: checks.positive("radius", float("inf")), "radius must be a finite number, above 0. Got inf."),
        (lambda: checks.positive("radius", np.ones(3)), "radius must be a finite number, above 0. Got a ndarray."),
        (lambda: checks.real("x", float("-inf")), "x must be a finite number. Got -inf."),
        (lambda: checks.whole("rows", 1.0), "rows must be a whole number, at least 1. Got 1.0."),
        (lambda: checks.whole("rows", 0, "[1, 9]"), "rows must be a whole number in [1, 9]. Got 0."),
        (lambda: checks.one_of("kind", "c", "ab"), "kind must be one of 'a', 'b'. Got 'c'."),
    ],
)
def test_the_sentence(call: object, sentence: str) -> None:
    with pytest.raises(ParameterError) as refused:
        call()  # type: ignore[operator]
    assert str(refused.value) == sentence


def test_what_is_inside_is_given_back_as_a_plain_number() -> None:
    assert checks.epsilon(np.float32(0.5)) == 0.5
    assert checks.real("x", Fraction(1, 4), "[0.25, 1)") == 0.25
    assert type(checks.whole("rows", np.int64(7))) is int
    assert checks.one_of("kind", "a", {"a": 1}) == "a"
