from __future__ import annotations

import collections
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gaussveil.errors import ParameterError, SchemaError, ShapeError, SourceError
from gaussveil.statistics import Gram, Labels, MemorySource, Moments, as_source

rng = np.random.default_rng(11)
N = 600
FRAME = pd.DataFrame(
    {
        "kw": rng.normal(size=N).round(1),
        "hour": rng.integers(0, 24, size=N),
        "home": [f"home {i}" for i in rng.integers(0, 40, size=N)],
    }
)


def rows(source: Any) -> collections.Counter[tuple[Any, ...]]:
    batches = source.batches(source.view.columns)
    return collections.Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_frames_of_every_kind_agree_to_the_bit(convert: Any) -> None:
    reference = as_source(FRAME.copy())
    source = as_source(convert(FRAME))
    for a, b in [
        (source, reference),
        (source.bounded("home", 3), reference.bounded("home", 3)),
        (source.sample(0.4, 5), reference.sample(0.4, 5)),
        (source.bounded("home", 3).sample(0.4, 5), reference.bounded("home", 3).sample(0.4, 5)),
    ]:
        gram = a.aggregate(Gram(row_norm=2.0), columns=["kw", "hour"])
        assert np.array_equal(gram.limbs, b.aggregate(Gram(row_norm=2.0), columns=["kw", "hour"]).limbs)
        assert a.row_count() == b.row_count()


def test_arrays_are_read_in_place_whatever_their_layout_and_type() -> None:
    x = rng.normal(size=(300, 3)).astype(np.float32)
    reference = as_source(x.astype(np.float64)).aggregate(Gram(row_norm=1.0)).limbs
    for array in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x.astype(">f4"), x.tolist()):
        assert np.array_equal(as_source(array).aggregate(Gram(row_norm=1.0)).limbs, reference)
    table = pa.table(list(x.T.copy()), names=["x0", "x1", "x2"])  # read column by column, not row by row
    assert np.array_equal(as_source(table).aggregate(Gram(row_norm=1.0)).limbs, reference)
    assert as_source(x).aggregate(Gram(row_norm=1.0), columns=["x2", "x0"]).shape == (2, 2)
    assert as_source(np.arange(5)).row_count() == 5


def test_a_unit_changes_at_most_its_share_and_nothing_of_the_others() -> None:
    bounded = as_source(FRAME).bounded("home", 3)
    kept = rows(bounded)
    per_home = collections.Counter(home for _, _, home in kept.elements())
    sizes = FRAME["home"].value_counts()
    assert all(per_home[home] == min(3, size) for home, size in sizes.items())
    for home in ("home 0", "home 17"):
        without = rows(as_source(FRAME[FRAME["home"] != home]).bounded("home", 3))
        assert sum((kept - without).values()) <= 3
        assert not without - kept
    # The choice does not depend on the order of the rows.
    assert rows(as_source(FRAME.sample(frac=1, random_state=1)).bounded("home", 3)) == kept


def test_the_bound_reaches_the_released_sums() -> None:
    statistic = Moments(clip=2.0)
    loud = pd.DataFrame({"kw": [1e9] * 500, "hour": [3] * 500, "home": ["loud"] * 500})
    quiet = as_source(FRAME).bounded("home", 3).aggregate(statistic, columns=["kw"])
    both = as_source(pd.concat([FRAME, loud])).bounded("home", 3).aggregate(statistic, columns=["kw"])
    again = as_source(pd.concat([FRAME, loud]), unit="home", rows_per_unit=3)
    assert again.rows_per_unit == 3
    assert np.array_equal(again.aggregate(statistic, columns=["kw"]).total.limbs, both.total.limbs)
    moved = abs(both.total.to_float() - quiet.total.to_float()).item()
    assert 5.9 < moved <= again.rows_per_unit * statistic.clip


def test_rows_without_a_unit_are_left_out() -> None:
    frame = pd.DataFrame({"kw": [1.0, 2.0, 3.0], "home": ["a", None, "a"]})
    assert as_source(frame).bounded("home", 5).row_count() == 2


def test_poisson_sample_has_its_rate_and_depends_on_the_key_only() -> None:
    x = np.arange(20_000.0)[:, None]
    source = as_source(x)
    sizes = [source.sample(0.3, key).row_count() for key in range(8)]
    mean, sd = 0.3 * 8 * len(x), math.sqrt(0.21 * 8 * len(x))
    assert abs(sum(sizes) - mean) < 6.5 * sd
    shuffled = np.random.default_rng(0).permutation(x)
    assert rows(as_source(shuffled).sample(0.3, 1)) == rows(source.sample(0.3, 1))
    assert rows(source.sample(0.3, 1)) != rows(source.sample(0.3, 2))
    assert rows(source.sample(0.3)) != rows(source.sample(0.3))
    assert source.sample(1.0).row_count() == len(x)
    assert source.sample(0.3, 1).view.seeded
    assert not source.sample(0.3).view.seeded


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "u1", "?"])
def test_arrays_are_sampled_as_the_tables_that_hold_them(kind: str) -> None:
    numbers = np.asfortranarray(np.random.default_rng(5).integers(0, 2, (500, 3)).astype(kind))
    table = pa.table({f"x{j}": pa.array(numbers[:, j]) for j in range(3)})
    ours, theirs = (
        [row for batch in as_source(data).sample(0.3, key=9).batches(["x0", "x2"]) for row in batch.to_pylist()]
        for data in (numbers, table)
    )
    assert ours == theirs
    assert 100 < len(ours) < 200


def test_sampling_an_array_loads_no_pandas() -> None:
    code = """
import sys
import numpy as np
from gaussveil.statistics import Gram, as_source
as_source(np.ones((9, 2))).sample(0.5, key=1).aggregate(Gram(row_norm=2.0))
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_equal_rows_have_coins_of_their_own() -> None:
    size = as_source(np.ones((20_000, 2))).sample(0.5, 9).row_count()
    assert abs(size - 10_000) < 6.5 * math.sqrt(5_000)


def test_a_unit_is_sampled_whole() -> None:
    sampled = as_source(FRAME).bounded("home", 4).sample(0.5, 3)
    whole = collections.Counter(home for _, _, home in rows(as_source(FRAME).bounded("home", 4)).elements())
    part = collections.Counter(home for _, _, home in rows(sampled).elements())
    assert all(whole[home] == count for home, count in part.items())
    assert 5 < len(part) < 35


def row_count(table: pa.Table) -> int:
    return int(table.num_rows)


def test_households_and_windows_come_in_order() -> None:
    source = as_source(FRAME)
    sums = source.map_groups(lambda table: sum(table["kw"].to_pylist()), by="home")
    expected = FRAME.groupby("home")["kw"].sum()
    assert [home for home, _ in sums] == sorted(FRAME["home"].unique())
    assert all(math.isclose(value, expected[home], abs_tol=1e-9) for home, value in sums)
    assert source.map_groups(row_count, by="home", jobs=2) == [
        (home, n) for home, n in source.map_groups(len, by="home")
    ]
    seen = 0
    for home, window in source.windows(by="home", order="hour", length=4, step=2):
        hours = window["hour"].to_pylist()
        assert len(hours) == 4
        assert hours == sorted(hours)
        assert set(window["home"].to_pylist()) == {home}
        seen += 1
    assert seen == sum((size - 4) // 2 + 1 for size in FRAME["home"].value_counts() if size >= 4)


def test_schema_mistakes_are_refused_before_reading() -> None:
    source = as_source(FRAME)
    with pytest.raises(SchemaError, match="'kwh' is missing"):
        source.aggregate(Gram(row_norm=1.0), columns=["kwh"])
    with pytest.raises(SchemaError, match="must hold numbers"):
        source.aggregate(Gram(row_norm=1.0))
    with pytest.raises(SchemaError, match="declared labels"):
        source.aggregate(Moments(clip=1.0), columns=["kw"], group=Labels("hour", ["noon"]))
    with pytest.raises(SchemaError, match="text or integers"):
        as_source(pa.table({"day": pa.array([0], pa.date32())})).bounded("day", 3)
    with pytest.raises(SchemaError, match="Arrow cannot hold"):
        as_source(pd.DataFrame({"kw": [1.0 + 2.0j]}))
    with pytest.raises(ShapeError, match=r"gaussveil\.open\(\.\.\.\) of its file"):
        as_source("readings.parquet")
    with pytest.raises(SchemaError, match="real numbers"):
        as_source(np.array([["a"]]))
    with pytest.raises(SchemaError, match="column of the Source"):
        as_source(source, label=np.zeros(N))
    with pytest.raises(ShapeError):
        as_source(np.zeros((2, 2, 2)))
    with pytest.raises(ShapeError, match="label"):
        as_source(np.zeros((3, 2)), label=[1, 2])


def test_public_parameters_are_checked() -> None:
    source = as_source(FRAME)
    for rate in (0.0, 1.5, math.nan):
        with pytest.raises(ParameterError, match="rate"):
            source.sample(rate)
    with pytest.raises(ParameterError, match="32 bytes"):
        source.sample(0.5, b"short")
    with pytest.raises(ParameterError, match="max_rows"):
        source.bounded("home", 0)
    with pytest.raises(ParameterError, match="before sample"):
        source.sample(0.5).bounded("home", 1)
    with pytest.raises(ParameterError, match="at least one column"):
        source.select([])
    with pytest.raises(ParameterError, match="call it first"):
        source.bounded("home", 1).select(["kw"])
    with pytest.raises(ParameterError, match="once"):
        source.sample(0.5).sample(0.5)
    with pytest.raises(ParameterError, match="positive"):
        source.windows(by="home", order="hour", length=0)
    with pytest.raises(ParameterError, match="together"):
        as_source(FRAME, unit="home")


def test_the_secret_key_is_not_shown() -> None:
    key = bytes(range(32))
    assert key.hex() not in repr(as_source(FRAME).sample(0.5, key).view)
    assert repr(key) not in repr(as_source(FRAME).sample(0.5, key).view)


def test_an_array_that_changes_between_two_passes_is_refused() -> None:
    x = rng.normal(size=(100, 2))
    source = as_source(x)
    source.aggregate(Gram(row_norm=1.0))
    source.select(["x0"]).row_count()
    x[50, 1] += 1.0
    with pytest.raises(SourceError, match="changed between two passes"):
        source.aggregate(Gram(row_norm=1.0))


def test_as_source_keeps_a_source() -> None:
    source = MemorySource(FRAME)
    assert as_source(source) is source


def test_labels_that_change_between_two_passes_are_noticed_or_were_kept() -> None:
    """Numbers are read where they lie; labels of text are kept as they were handed over."""
    numbers = np.array([0, 0, 1, 1])
    source = as_source(np.ones((4, 1)), label=numbers)
    source.row_count()
    numbers[0] = 1
    with pytest.raises(SourceError, match="changed between two passes"):
        source.row_count()
    words = np.array(["a", "a", "b", "b"])
    for labels in (words, words.astype(object)):
        source = as_source(np.ones((4, 1)), label=labels)
        source.row_count()
        labels[0] = labels[3]
        assert source.table()["label"].to_pylist() == ["a", "a", "b", "b"]
        labels[0] = "a"


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match="'kw' occurs twice"):
        as_source(pa.table([[1.0], [2.0], [3.0]], names=["kw", "kw", "volt"]))
    with pytest.raises(SchemaError, match="'label' occurs twice"):
        as_source(pa.table({"label": [1], "kw": [1.0]}), label=[1])


def test_households_may_be_named_by_dictionaries_and_views_of_text() -> None:
    names = pa.array(["b", "a", "b"])
    for home in (names.cast(pa.string_view()), names.dictionary_encode()):
        source = as_source(pa.table({"home": home, "kw": [1.0, 2.0, 3.0]}))
        assert source.map_groups(len, by="home") == [("a", 1), ("b", 2)]
        assert source.table(["kw"], order=["home"])["kw"].to_pylist() == [2.0, 1.0, 3.0]
        assert source.bounded("home", 1).row_count() == 2


def test_a_refused_frame_is_not_quoted_by_the_chain_of_errors() -> None:
    with pytest.raises(SchemaError, match="Arrow cannot hold") as caught:
        as_source(pd.DataFrame({"kw": [1.0, "home 3"], "volt": [2.0 + 3.0j, 1.0]}))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_seed_may_be_numpys() -> None:
    source = as_source(FRAME)
    assert rows(source.sample(0.5, np.int64(3))) == rows(source.sample(0.5, 3))
    assert source.sample(0.5, np.int64(3)).view.seeded
