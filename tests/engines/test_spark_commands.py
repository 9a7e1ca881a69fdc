"""Commands on Spark: every kind of answer, on CSV and Parquet; its folders are the owner's alone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gaussveil.cli.main import app

pytestmark = pytest.mark.xdist_group("spark")

PROMISE = ("--unit", "home", "--epsilon", "3", "--delta", "1e-5", "--engine", "spark")


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readings")
    rng = np.random.default_rng(2)
    home, hour = np.divmod(np.arange(120 * 24), 24)
    table = pa.table(
        {
            "home": [f"{number:04d}" for number in home],
            "time": pa.array(hour * 3_600_000_000, pa.timestamp("us")),
            "kw": rng.gamma(2.0, 0.5, size=len(home)),
        }
    )
    pq.write_table(table, folder / "t.parquet")
    pa.csv.write_csv(table, folder / "t.csv")
    with (folder / "t.csv").open("a") as file:
        file.write("SECRET-HOME," + "diagnosis-F20," * 21_000 + "\n")
    return folder


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_every_kind_of_answer(spark: Any, readings: Path, tmp_path: Path, name: str) -> None:
    asked = ("--by", "hour(time)", "--mean", "kw", "--bounds", "auto", "--count")
    more = ("--sum", "kw", "--variance", "kw", "--share", "kw:1,2", "--histogram", "kw:0,1,2,5", "--between", "0,5")
    ranks = ("--quantile", "kw:0.5", "--cdf", "kw:0,1,2", "--between", "0,5")
    for number, words in enumerate((asked, more, ranks)):
        out = tmp_path / f"{number}.csv"
        found = CliRunner().invoke(app, ["query", str(readings / name), *PROMISE, *words, "--out", str(out)])
        assert found.exit_code == 0, found.output
        assert "SECRET" not in found.output
        assert "F20" not in found.output
    kw = pa.csv.read_csv(tmp_path / "0.csv")["mean_kw"].to_numpy()
    assert len(kw) == 24
    assert abs(kw.mean() - 1.0) < 0.5
    reason = json.loads((tmp_path / "0.csv.certificate.json").read_text())["guarantee"]["reason"]
    assert ("the form was read off the file" in reason) == (name == "t.csv")


def test_what_spark_spills_is_for_the_owner_alone(spark: Any) -> None:
    folder = spark.sparkContext.getConf().get("spark.local.dir")
    assert os.path.basename(folder).startswith("gaussveil-spill-")
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert os.path.exists(os.path.join(folder, "lock"))  # by which the next start finds what a killed one left
