from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from gaussveil.accounting import Certificate, Ledger, verify
from gaussveil.cli.forecast import forecast
from gaussveil.errors import FormatError, GaussveilError, ParameterError, SchemaError, SourceError
from gaussveil.timeseries import Readings, simulate_households

Run = Callable[..., tuple[int, str, str]]

app = typer.Typer()
app.command()(forecast)

PROMISE = ("--epsilon", "1", "--accuracy", "0.5", "--clusters", "3", "--horizon", "2h")
HOME = "home00002"


@cache
def town() -> Readings:
    return simulate_households(10, 16, step_minutes=60, seed=1)


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    path, found = tmp_path / "readings.parquet", town()
    table = {
        "household": np.repeat(found.households, found.count).tolist(),
        "time": np.tile(found.times.astype("datetime64[s]"), len(found)),
        "kw": found.values.ravel(),
    }
    pq.write_table(pa.table(table), path)
    return path


def call(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_one_household_from_table_to_pages(readings: Path, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "l.ledger").open_account("home", epsilon=4.0, delta=0.9)
    out, page, secret = tmp_path / "f.parquet", tmp_path / "f.html", tmp_path / "private.html"
    answer = call(
        readings,
        *PROMISE,
        "--home",
        HOME,
        "--out",
        out,
        "--report",
        page,
        "--diagnostics",
        secret,
        "--at",
        "2018-11-13T00:00",
        "--ledger",
        tmp_path / "l.ledger",
        "--account",
        "home",
    )
    table = pq.read_table(out)
    assert table.column_names == ["time", "kw", "lower_kw", "upper_kw", "log_kw"]
    assert str(table["time"][0]) == "2018-11-13 00:00:00"
    assert np.all(table["lower_kw"].to_numpy() < table["upper_kw"].to_numpy())
    certificate = Certificate.read(f"{out}.certificate.json")
    assert verify(certificate).private
    assert answer["delta"] == certificate.delta
    assert [entry.state for entry in Ledger(tmp_path / "l.ledger").entries("home")] == ["released"]
    shared, private = page.read_text(), secret.read_text()
    assert "do not share" not in shared
    assert "do not share" in private
    assert "For the owner only" in private
    assert f"{certificate.parameters['cluster_size']} households" in shared
    assert secret.stat().st_mode & 0o077 == 0


def test_a_strict_promise_gives_the_groups_average_and_says_so(run: Run, readings: Path, tmp_path: Path) -> None:
    out, secret = tmp_path / "f.csv", tmp_path / "private.json"
    asked = ("--home", HOME, "--clusters", "3", "--horizon", "2h", "--epsilon", "1", "--delta", "1e-5", "--out", out)
    code, text, _ = run("forecast", readings, *asked, "--diagnostics", secret, "--at", "2018-11-13T00:00")
    assert code == 0
    assert "the forecast is the average of its group" in text
    errors = json.loads(secret.read_text())["values"]["mean_absolute_error_kw"]
    assert errors["released"] == pytest.approx(errors["group"], rel=0.05)
    assert call(readings, *asked, "--force", "--smallest-kept", "0")["product"] == "household"


def test_whole_cluster_has_rows_without_names(readings: Path, tmp_path: Path) -> None:
    out, secret = tmp_path / "f.csv", tmp_path / "private.json"
    answer = call(readings, *PROMISE, "--cluster-of", HOME, "--out", out, "--diagnostics", secret)
    lines = out.read_text().splitlines()
    assert len(lines) == 1 + 2 * answer["cluster_size"]
    assert "home" not in out.read_text()
    values = json.loads(secret.read_text())["values"]
    assert values["mean_absolute_error_kw"] == {}
    assert "truth_kw" not in values


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (("--home", "nobody"), ParameterError, "household must be one of the 10"),
        (("--home", HOME, "--power", "watts"), SchemaError, "no column for --power watts"),
        (("--home", HOME, "--in", "MW"), ParameterError, "measured_in must be one of"),
        (("--home", HOME, "--in", "kWh", "--power", "watt"), SchemaError, "no column"),
        (("--home", HOME, "--at", "1999-01-01"), ParameterError, "--at must be a time of the readings"),
        (("--home", HOME, "--horizon", "50min"), ParameterError, "horizon"),
        (("--home", HOME, "--delta", "1e-5"), ParameterError, "exactly one of"),
        (("--home", HOME, "--cluster-of", HOME), ParameterError, "exactly one of --home"),
        (("--home", HOME, "--report", "page.pdf"), FormatError, "must end in .html"),
        (("--home", HOME, "--account", "home"), ParameterError, "together"),
        ((), ParameterError, "exactly one of --home"),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_is_written(
    readings: Path, tmp_path: Path, change: tuple[str, ...], kind: type[GaussveilError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        call(readings, *PROMISE, "--out", tmp_path / "f.parquet", *change)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["readings.parquet"]


def test_mounted_command_says_what_is_wrong_in_one_line(run: Run, readings: Path, tmp_path: Path) -> None:
    code, text, err = run("forecast", readings, *PROMISE, "--home", "nobody", "--out", tmp_path / "f.parquet")
    assert (code, text) == (2, "")
    assert err.startswith("error GV105: household must be one of the 10")
    assert HOME not in err


def test_watts_taken_for_kilowatts_and_files_that_are_none(readings: Path, tmp_path: Path) -> None:
    table = pq.read_table(readings)
    watts = tmp_path / "watts.parquet"
    pq.write_table(table.set_column(2, "kw", pa.array(table["kw"].to_numpy() * 1000)), watts)
    (tmp_path / "broken.parquet").write_bytes(b"no table")
    out = ("--out", tmp_path / "f.parquet", "--home", HOME)
    with pytest.raises(SchemaError, match="Say what it is in: --in"):
        call(watts, *PROMISE, *out)
    with pytest.raises(FormatError, match="not a table"):
        call(tmp_path / "broken.parquet", *PROMISE, *out)
    with pytest.raises(SourceError, match="cannot be read"):
        call(tmp_path / "absent.csv", *PROMISE, *out)
    with pytest.raises(ParameterError, match="exists already"):
        call(readings, *PROMISE, "--out", watts, "--home", HOME)
    assert not (tmp_path / "f.parquet").exists()
