"""Brackets are halved in three files: no inverse has a loop of its own that may not end, or leave its domain."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gaussveil.errors import NumericalError
from gaussveil.spectrum.roots_of_many import ends_of_rows
from gaussveil.spectrum.turns import first_whole, surrounded, turn, turns, whole_turn
from gaussveil.typing import Floats

ROOT = Path(__file__).parents[2]
FINDERS = {"roots.py", "roots_of_many.py", "turns.py"}
TWO = r"\((\w+) \+ (\w+)\)"
MIDDLE = re.compile(rf"{TWO} //? 2(?:\.0)?\b|\b0\.5 \* {TWO}|sqrt\((\w+) \* (\w+)\)")
NOT_INVERSES = {
    "clusters.py:clustered": "groups of terms are halved, both parts of them",
    "densities.py:_cells": "cells of a quadrature are halved, both parts of them",
    "gp_sensitivity.py:_largest": "cells of a branch and bound are halved, all of them",
    "ellipsoid_dual.py:_overshoot": "a step of an optimiser is shortened until it rises enough",
    "bands.py:saddle": "the least place of many at a time: any order serves, a good one saves nodes",
    "first_guess.py:saddlepoint_of_bands": "a first guess, of no consequence for what is found",
    "first_guess.py:saddlepoint_epsilon": "a first guess, of no consequence for what is found",
}


def halving(source: str) -> Iterator[str]:
    """Functions with a loop that moves two ends to a place between them."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            loops = [node for node in ast.walk(function) if isinstance(node, ast.For | ast.While)]
            if any(middles(loop) for loop in loops):
                yield function.name


def middles(loop: ast.AST) -> bool:
    """Whether half a sum of two names, or the root of their product, is taken, both of which the loop assigns."""
    stores = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for found in MIDDLE.finditer(ast.unparse(loop)):
        ends = {name for name in found.groups() if name}
        if len(ends) == 2 and stores >= ends:
            return True
    return False


def test_no_other_loop_halves_a_bracket() -> None:
    seen = set()
    for folder in ("src", "studio", "town"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if path.name not in FINDERS and MIDDLE.search(source):
                seen |= {f"{path.name}:{name}" for name in halving(source)}
    assert seen == set(NOT_INVERSES)


def test_such_loops_are_told() -> None:
    loop = (
        "def f(low, high):\n    for _ in range(9):\n        {}\n        low, high = (m, high) if g(m) else (low, m)\n"
    )
    for middle in (
        "m = (low + high) / 2",
        "m = 0.5 * (low + high)",
        "m = (low + high) // 2",
        "m = math.sqrt(low * high)",
    ):
        assert list(halving(loop.format(middle))) == ["f"]
    assert list(halving(loop.format("m = 0.5 * (low + 1)"))) == []


@pytest.mark.parametrize("by_ratio", [False, True])
def test_a_turn_is_bracketed_by_what_was_seen(by_ratio: bool) -> None:
    seen: dict[float, bool] = {}

    def holds(place: float) -> bool:
        assert 1.0 < place < 64.0
        seen[place] = place >= math.pi
        return seen[place]

    before, after = turn(holds, 1.0, 64.0, by_ratio=by_ratio, first=(3.0, 0.5, 3.5, 70.0))
    assert list(seen)[:2] == [3.0, 3.5]
    assert after == math.pi
    assert before == math.nextafter(math.pi, 0.0)
    assert not seen[before]
    assert len(seen) < 60
    assert turn(holds, 1.0, 64.0, by_ratio=by_ratio, rtol=0.01).after <= math.pi * 1.02


def test_turns_of_arrays_are_those_of_each_number() -> None:
    goals = np.geomspace(0.1, 9.0, 7)
    low, high = turns(lambda place: place * place >= goals, np.zeros(7), np.full(7, 8.0), 40)
    for one_low, one_high, goal in zip(low, high, goals):
        assert (one_low, one_high) == turn(lambda place, goal=goal: place * place >= goal, 0.0, 8.0, looks=40)


def test_what_holds_everywhere_or_nowhere_is_said() -> None:
    assert surrounded(lambda place: place > 5.0, 8.0, factor=2.0, least=0.1, most=1e9) == (4.0, 8.0)
    assert surrounded(lambda place: True, 8.0, factor=2.0, least=1.0, most=1e9) == (0.0, 1.0)
    assert surrounded(lambda place: False, 8.0, factor=2.0, least=1.0, most=99.0) == (64.0, math.inf)
    before, after = surrounded(lambda place: place > 1e100, 1.0, factor=1.05, least=0.1, most=1e300, squared=True)
    assert before <= 1e100 < after < 1e300


def test_whole_numbers() -> None:
    assert first_whole(lambda number: number >= 1000, 10**6) == 1000
    assert first_whole(lambda number: number >= 1000, 512) is None
    assert first_whole(lambda number: True, 512) == 1
    rough = first_whole(lambda number: number >= 10**9, 10**12, share=50)
    assert rough is not None
    assert 10**9 <= rough <= 1.02 * 10**9
    assert whole_turn(lambda number: number > 77, 0, 10**6, first=(80, 70, 77)) == (77, 78)


def test_rows_are_seen_private_inside_their_ends_and_leave_as_they_converge() -> None:
    generator = np.random.default_rng(5)
    count = 200
    root = np.exp(generator.normal(size=count) * 4.0)
    root[:3] = -1.0  # private everywhere
    steep = np.exp(generator.normal(size=count))
    high = np.where(np.arange(count) % 2, np.inf, 1e9)
    best = np.full(count, np.inf)
    looks: list[int] = []

    def look(rows: Floats, place: Floats) -> tuple[Floats, Floats, Floats]:
        assert np.all((place >= 0.0) & (place <= 1e9 + 1e300 * (high[rows] == np.inf)))
        value = steep[rows] * (root[rows] - place) / (1.0 + place)
        best[rows] = np.where(value <= 0.0, np.minimum(best[rows], place), best[rows])
        looks.append(rows.size)
        wild = place * np.exp(generator.normal(size=rows.size) * 5.0)
        return value, np.where(rows % 3 == 0, wild, np.where(rows % 3 == 1, root[rows], np.nan)), 0.0 * place

    found = ends_of_rows(look, np.exp(generator.normal(size=count) * 6.0), np.zeros(count), high)
    assert np.array_equal(found, best)
    assert np.all(found[:3] == 0.0)
    assert np.all((root[3:] <= found[3:]) & (found[3:] <= root[3:] * (1 + 1e-14)))
    assert len(looks) < 200
    assert looks == sorted(looks, reverse=True)


def test_a_row_that_never_settles_is_refused() -> None:
    with pytest.raises(NumericalError, match="was not found"):
        ends_of_rows(
            lambda rows, place: (1.0 + 0.0 * place, place + 1.0, 0.0 * place),
            np.ones(2),
            np.zeros(2),
            np.full(2, np.inf),
        )
