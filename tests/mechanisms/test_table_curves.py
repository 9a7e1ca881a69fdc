"""Curves of units: whatever a unit brings, every draw of a profile moves by no more than it was charged for."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from gaussveil.calibration.boxes import box_noise
from gaussveil.mechanisms.table.curves import Curves, Presence
from gaussveil.mechanisms.table.layout import Layout
from gaussveil.statistics import FixedPoint, hour_of, value_of, weekday_of
from gaussveil.statistics.unit_cells import ROW_BITS, Feature, UnitCells

KEYS = {"zone": value_of("zone", list("abc")), "day": weekday_of("time"), "heat": value_of("heat", [1, 2])}
ROWS, UNITS = 3, 400


def anybody(cells: int, feature: Feature) -> UnitCells:
    """Units in no group, one, some or all, with one row or a thousand, near and far."""
    rng = np.random.default_rng(6)
    rows = rng.integers(0, 2, (UNITS, cells)) * np.where(rng.random((UNITS, 1)) < 0.5, 1, 1000)
    rows *= rng.random((UNITS, cells)) < rng.random((UNITS, 1)) ** 2
    places = rng.choice([-1.0, 1.0, 0.1, -0.02], (UNITS, cells))
    features = np.trunc(rows * places * 2.0**ROW_BITS).astype(np.int64)
    return UnitCells(pa.array(np.arange(UNITS)), rows, features[None], ())


@pytest.mark.parametrize("stated", [None, 1, 9, 42])
@pytest.mark.parametrize("part", ["presence", "rough", "smooth", "rest"])
def test_no_unit_moves_a_draw_by_more_than_its_ball(stated: int | None, part: str) -> None:
    layout = Layout.of(KEYS, min(42, stated or 42), stated)
    feature = Feature("kw", -50.0, 250.0)
    rng = np.random.default_rng(1)
    centre = rng.normal(0, 1000.0, layout.groups.shape)
    for radius in (1e-6, 0.7, 300.0):
        curves = Curves(feature, layout, ROWS, part, radius, centre)
        moved = curves.vectors(anybody(42, feature))["sums"].astype(object)
        assert max(sum(row**2) for row in moved) <= (radius / FixedPoint(radius).unit) ** 2
    octaves = Curves(feature, layout, ROWS, part, None, centre).vectors(anybody(42, feature))["sums"]
    assert set(octaves.ravel()) <= {0, 1}
    assert (octaves.sum(axis=1) == 1).all()


@pytest.mark.parametrize("stated", [None, 1, 9, 42])
def test_counts_of_places_lose_no_more_than_was_charged(stated: int | None) -> None:
    layout = Layout.of(KEYS, min(42, stated or 42), stated)
    moved = Presence(layout, ROWS).vectors(anybody(42, Feature("kw", -50.0, 250.0)))["sums"]
    box = box_noise(layout.places, layout.places_touched)
    covariance = (ROWS * layout.moments) ** 2 * (np.diag(np.full(layout.places, box.own)) + box.shared)
    lost = np.einsum("ui,ij,uj->u", moved, np.linalg.inv(covariance), moved)
    assert 0.1 < lost.max() <= 1 + 1e-12


def test_a_layout_says_where_units_are_expected() -> None:
    keys = {"zone": value_of("zone", list("ab")), "hour": hour_of("time")}
    by_zone = Layout.of(keys, 48, None)
    assert (by_zone.places, by_zone.moments, by_zone.functions, by_zone.places_touched) == (2, 24, 7, 2)
    assert Layout.of(keys, 24, 24).places_touched == 1
    alone, everywhere = Layout.of(keys, 1, 1), Layout.of(keys, 48, 48)
    assert (alone.places, alone.moments) == (48, 1)
    assert (everywhere.places, everywhere.moments) == (1, 48)
    turned = Layout.of({"hour": keys["hour"], "zone": keys["zone"]}, 48, None)
    assert turned.groups[1, 3] == 3 * 2 + 1
    assert turned.grouped(turned.groups.astype(float)).tolist() == list(range(48))
    for layout in (by_zone, alone, everywhere):
        cells = np.random.default_rng(2).normal(size=(layout.places, layout.moments, 5))
        smooth = np.einsum("pfu,fm->pmu", layout.smooth(cells), layout.basis)
        assert smooth + layout.rest(cells) == pytest.approx(cells)
        assert math.isclose(float(layout.inside.sum()), layout.functions)
