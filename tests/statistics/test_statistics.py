"""Moments, Gram, histograms against exact rational references written from the definition."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.statistics import Affine, BinCounts, Gram, Labels, Moments, Nearest, RowCount, Statistic, as_source
from gaussveil.statistics.block import Reader

rng = np.random.default_rng(7)
records = rng.normal(size=(997, 4)) * [1.0, 3.0, 0.1, 10.0]
classes = rng.integers(0, 4, size=len(records))
COLUMNS = ["x0", "x1", "x2", "x3"]
LABELS = Labels("label", [0, 1, 2])  # 3 is unknown on purpose
CENTRES = rng.normal(size=(3, 4))
MAPS = rng.normal(size=(3, 4, 4))


def clipped(z: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    return z * np.minimum(1.0, clip / np.linalg.norm(z, axis=1))[:, None]


@pytest.mark.parametrize("maps", [None, MAPS[:, 0, 0], MAPS[:, 0], MAPS, np.tril(MAPS)])
def test_moments_are_those_of_the_clipped_affine_columns(maps: Any) -> None:
    sums = as_source(records, label=classes).aggregate(
        Moments(clip=1.5, affine=Affine(CENTRES, maps)), columns=COLUMNS, group=LABELS
    )
    assert sums.second is not None
    for k in range(3):
        linear = np.eye(4) if maps is None else maps[k] * (np.eye(4) if np.ndim(maps) < 3 else 1.0)
        z = clipped((records[classes == k] - CENTRES[k]) @ linear.T, 1.5)
        assert sums.count.integers()[k] == len(z)
        np.testing.assert_allclose(sums.total.to_float()[k], z.sum(axis=0), atol=1e-8)
        np.testing.assert_allclose(sums.second.to_float()[k], z.T @ z, atol=1e-8)


def test_gram_is_exact_in_its_own_fixed_point() -> None:
    statistic = Gram(row_norm=2.0)
    gram = as_source(records).aggregate(statistic)
    rows = statistic.fixed_point.truncate(records.T.copy()).astype(int).astype(object)
    assert (gram.integers() == rows @ rows.T).all()
    assert gram.unit == statistic.fixed_point.unit**2
    z = clipped(records, 2.0)
    np.testing.assert_allclose(gram.to_float(), z.T @ z, rtol=0, atol=len(records) * 4.0 * 2.0**-21)
    fine = as_source(records).aggregate(Gram(row_norm=2.0, bits=41))
    np.testing.assert_allclose(fine.to_float(), z.T @ z, rtol=0, atol=len(records) * 4.0 * 2.0**-40)


@pytest.mark.parametrize(
    ("statistic", "group"),
    [
        (Moments(clip=1.0, affine=Affine(CENTRES, MAPS)), LABELS),
        (Moments(clip=1.0, bits=22), Nearest(CENTRES)),
        (Gram(row_norm=1.0), None),
        (Gram(row_norm=1.0, bits=41), None),
        (BinCounts(edges=[0, 1, 2, 4, 8], distance=True, affine=Affine(CENTRES)), LABELS),
        (RowCount(), LABELS),
    ],
)
def test_order_and_partition_do_not_change_a_bit(statistic: Statistic[Any], group: Any) -> None:
    reader = Reader(tuple(COLUMNS), group)
    source = as_source(records, label=classes)
    whole = source._fold(statistic, reader)
    shuffled = np.random.default_rng(3).permutation(len(records))
    for cuts in ([1, 2, 3, 5, 8, 13], list(range(0, 997, 61)), [996]):
        state = statistic.empty(4, reader.groups)
        for part in np.split(shuffled, cuts):
            state = statistic.merge(as_source(records[part], label=classes[part])._fold(statistic, reader), state)
        assert all(np.array_equal(state[name], whole[name]) for name in whole)


@pytest.mark.parametrize("bits", [22, 41])
def test_one_record_moves_the_sums_by_at_most_the_clip_exactly(bits: int) -> None:
    moments = Moments(clip=0.7, bits=bits)
    base = as_source(records).aggregate(moments)
    for record in (np.full(4, 0.35), np.full(4, 1e200), records[0], np.array([0.7, 0, 0, 0])):
        more = as_source(np.vstack([records, record])).aggregate(moments)
        assert base.second is not None
        assert more.second is not None
        moved = (more.total.integers() - base.total.integers()).ravel()
        assert sum(Fraction(v) ** 2 for v in moved) * Fraction(base.total.unit) ** 2 <= Fraction(0.7) ** 2
        moved = (more.second.integers() - base.second.integers()).ravel()
        assert sum(Fraction(v) ** 2 for v in moved) * Fraction(base.second.unit) ** 2 <= Fraction(0.7) ** 4


def test_histograms_count_every_record_once() -> None:
    edges = [0.5, 1.0, 2.0, 4.0]
    counts = (
        as_source(records, label=classes).aggregate(BinCounts(edges=edges), columns=["x1"], group=LABELS).integers()
    )
    for k in range(3):
        values = records[classes == k, 1]
        expected = [np.sum(values < 1.0), np.sum((values >= 1.0) & (values < 2.0)), np.sum(values >= 2.0)]
        assert counts[k].tolist() == expected
    distances = as_source(records).aggregate(
        BinCounts(edges=edges, distance=True, affine=Affine(CENTRES[:1], [0.5])), columns=COLUMNS
    )
    reference = np.histogram(np.clip(0.5 * np.linalg.norm(records - CENTRES[0], axis=1), 0.6, 3.9), edges)[0]
    assert distances.integers()[0].tolist() == reference.tolist()


def test_nearest_centre_groups() -> None:
    counts = as_source(records).aggregate(RowCount(), columns=COLUMNS, group=Nearest(CENTRES)).integers()
    nearest = np.argmin(((records[:, None] - CENTRES) ** 2).sum(axis=2), axis=1)
    assert counts.tolist() == np.bincount(nearest, minlength=3).tolist()


def test_bad_records_are_left_out_one_by_one() -> None:
    dirty = np.vstack([records, [[np.nan, 0, 0, 0], [0, np.inf, 0, 0], [0, 0, 0, -np.inf]]])
    labels = np.append(classes, [0, 1, 2])
    for statistic in (Moments(clip=1.0), Gram(row_norm=1.0), RowCount()):
        reader = Reader(tuple(COLUMNS), LABELS)
        clean = as_source(records, label=classes)._fold(statistic, reader)
        got = as_source(dirty, label=labels)._fold(statistic, reader)
        assert all(np.array_equal(got[name], clean[name]) for name in clean)


def test_an_empty_table_and_an_empty_class_give_zero() -> None:
    sums = as_source(records[:0], label=classes[:0]).aggregate(Moments(clip=1.0), columns=COLUMNS, group=LABELS)
    assert not sums.total.integers().any()
    sums = as_source(records, label=np.zeros(len(records), dtype=int)).aggregate(
        Moments(clip=1.0), columns=COLUMNS, group=LABELS
    )
    assert sums.count.integers().tolist() == [len(records), 0, 0]


def test_parameters_that_do_not_fit_are_refused() -> None:
    source = as_source(records, label=classes)
    with pytest.raises(ShapeError, match="centres"):
        source.aggregate(Moments(clip=1.0, affine=Affine(CENTRES[:2])), columns=COLUMNS, group=LABELS)
    with pytest.raises(ShapeError, match="maps"):
        source.aggregate(Moments(clip=1.0, affine=Affine(None, MAPS[:, :2])), columns=COLUMNS, group=LABELS)
    with pytest.raises(ShapeError, match="one column"):
        source.aggregate(BinCounts(edges=[0, 1]), columns=COLUMNS)
    with pytest.raises(ShapeError, match="columns"):
        source.aggregate(RowCount(), columns=["x0"], group=Nearest(CENTRES))
    with pytest.raises(NotFiniteError):
        Affine([[np.nan]])
    with pytest.raises(ParameterError, match="edges"):
        BinCounts(edges=[1.0, 1.0])
    with pytest.raises(ParameterError, match="distinct"):
        Labels("label", [1, 1])


def test_a_record_that_overflows_is_clipped_without_a_word() -> None:
    """A warning would tell that there is such a record."""
    huge = np.array([[1.7e308], [0.25]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sums = as_source(huge).aggregate(Moments(clip=1.0, affine=Affine([[-1.7e308]])))
    assert sums.count.integers().tolist() == [2]
