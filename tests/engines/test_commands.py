"""Every command that reads a table reads it with either engine: the same certificate, the same findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from gaussveil.cli.main import app
from gaussveil.cli.tables import Engine, local_file, open_table, table_name
from gaussveil.errors import GaussveilError
from gaussveil.timeseries import simulate_households

pytestmark = pytest.mark.xdist_group("spark")

PROMISE = ("--epsilon", 1, "--delta", 1e-6)
WHY = ("--because", "one number per hour")
SERIES, SORTED = ("--l2-ball", 0.1), ("--order", "hour", "--out", "out.csv")
COMMANDS: dict[str, tuple[object, ...]] = {
    "release": (
        "release",
        "vector",
        "rows",
        *PROMISE,
        "--l2-sensitivity",
        1,
        *WHY,
        "--order",
        "hour",
        "--out",
        "out.csv",
    ),
    "sketch": (
        "sketch",
        "rows",
        *PROMISE,
        "--row-norm",
        1,
        "--n-components",
        8,
        "--columns",
        "a,b",
        "--out",
        "out.npz",
    ),
    "synthesise": ("synthesise", "labelled", *PROMISE, "--bounds", "auto", "--out", "out.csv"),
    "logistic": (
        "logistic",
        "labelled",
        *PROMISE,
        "--row-norm",
        1,
        "--regularization",
        10,
        "--classes",
        "0,1",
        "--out",
        "out.json",
    ),
    "gp": (
        "gp",
        "labelled",
        *PROMISE,
        "--points",
        "points.csv",
        "--length-scale",
        5,
        "--observation-variance",
        250,
        "--label-bound",
        0.5,
        "--n-max",
        64,
        "--out",
        "out.json",
    ),
    "mixture": (
        "mixture",
        "labelled",
        *PROMISE,
        "--label",
        "label",
        "--classes",
        "0,1",
        "--radius",
        2,
        "--out",
        "out.json",
    ),
    "classify": ("classify", "mixture.json", "values", "--out", "out.csv"),
    "label-mixture": (
        "label-mixture",
        "labelled",
        *PROMISE,
        "--label",
        "label",
        "--classes",
        "0,1",
        "--out",
        "out.json",
    ),
    "query": (
        "query",
        "readings",
        "--unit",
        "household",
        "--by",
        "hour(time)",
        "--mean",
        "kw",
        "--between",
        "0,10",
        *PROMISE,
        "--out",
        "out.csv",
    ),
    "regress": ("regress", "labelled", "--target", "label", *PROMISE, "--out", "out.json"),
    "pca": ("pca", "values", *PROMISE, "--out", "out.json"),
    "forecast": (
        "forecast",
        "readings",
        "--epsilon",
        1,
        "--accuracy",
        0.5,
        "--clusters",
        3,
        "--horizon",
        "2h",
        "--home",
        "home00002",
        "--out",
        "out.parquet",
    ),
    "stream": (
        "stream",
        "design",
        "readings",
        *PROMISE,
        "--event-kw",
        0.5,
        "--event-duration",
        "1h",
        "--out",
        "out.json",
    ),
    "spectrum": ("release", "spectrum", "series", *PROMISE, *SERIES, "--period-minutes", 60, "--points", 8, *SORTED),
    "trajectory": ("release", "trajectory", "series", *PROMISE, *SERIES, *SORTED),
    "label": (
        "release",
        "label",
        "curves",
        "--label",
        "hour",
        "--of",
        1,
        "--epsilon",
        1,
        "--delta",
        0.1,
        "--out",
        "out.csv",
    ),
    "audit": ("audit", "model.json", "--data", "values", "--claim", "1,1e-6", "--out", "out.json"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables as folders of two Parquet files each, which no command reads as one file."""
    path = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    values = np.clip(rng.normal(0.0, 0.3, size=(40, 2)), -0.5, 0.5)
    columns = {"a": values[:, 0], "b": values[:, 1]}
    town = simulate_households(10, 16, step_minutes=60, seed=1)
    tables = {
        "rows": {"hour": rng.permutation(40), **columns},
        "values": columns,
        "series": {"hour": rng.permutation(40), "kw": np.abs(values[:, 0])},
        "curves": {"hour": [3, 1, 2], "a": values[:3, 0], "b": values[:3, 1]},
        "labelled": {**columns, "label": rng.integers(0, 2, size=40)},
        "readings": {
            "household": np.repeat(town.households, town.count).tolist(),
            "time": np.tile(town.times.astype("datetime64[us]"), len(town)),
            "kw": town.values.ravel(),
        },
    }
    for name, table in tables.items():
        (path / name).mkdir()
        whole = pa.table(table)
        half = whole.num_rows // 2
        for part, rows in enumerate((whole.slice(half), whole.slice(0, half))):
            pq.write_table(rows, path / name / f"{part}.parquet")
    (path / "points.csv").write_text("a,b\n0,0\n0.5,0.5\n", encoding="utf-8")
    mixture = ("mixture", path / "labelled", *PROMISE, "--label", "label", "--classes", "0,1", "--radius", 2)
    call(*mixture, "--out", path / "mixture.json", "--json")
    (path / "model.json").write_text('{"model": "sum", "covariance": 100.0}', encoding="utf-8")
    return path


def call(*arguments: object) -> Any:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if isinstance(done.exception, GaussveilError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def certificates(answer: Any) -> Any:
    """Whatever the outputs certify, less what no two releases share."""
    if isinstance(answer, dict):
        return {
            name: "" if name in ("id", "at", "release_id") else certificates(value)
            for name, value in answer.items()
            if name not in ("means", "weights", "covariances", "coefficients", "values")
        }
    return [certificates(value) for value in answer] if isinstance(answer, list) else answer


# With --full alone: their mechanisms release from Spark in each run (test_mechanisms.py), or others read as they do:
# release rows in an order, audit a whole table.
SELDOM = ("classify", "gp", "label", "label-mixture", "logistic", "mixture", "pca", "regress", "sketch", "spectrum")
SELDOM += ("synthesise", "trajectory")


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=pytest.mark.full if name in SELDOM else ()) for name in COMMANDS]
)
def test_both_engines_lead_to_the_same_certificate(
    command: str, spark: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = []
    for engine in ("duckdb", "spark"):
        words = [tmp_path / f"{engine}-{word}" if str(word).startswith("out.") else word for word in COMMANDS[command]]
        answer = call(*words, "--engine", engine, "--json")
        out = Path(words[-1])
        note = Path(f"{out}.certificate.json")
        if command == "audit":
            found.append(answer)
        elif command == "classify":  # rows, in the order in which an engine reads the files
            found.append(sorted(out.read_text(encoding="utf-8").splitlines()))
        elif note.exists():
            found.append(certificates(json.loads(note.read_text(encoding="utf-8"))))
        else:
            found.append(certificates(json.loads(out.read_text(encoding="utf-8"))))
    assert found[0] == found[1]


def with_an_engine(group: Any) -> set[str]:
    """The names of all commands that have the option --engine."""
    inner = (with_an_engine(command) for command in group.commands.values() if hasattr(command, "commands"))
    own = {name for name, command in group.commands.items() if any(one.name == "engine" for one in command.params)}
    return own.union(*inner)


def test_every_command_that_reads_a_table_is_here(folder: Path, spark: Any, tmp_path: Path) -> None:
    tried = {words[1] if words[0] in ("release", "stream") else words[0] for words in COMMANDS.values()}
    assert with_an_engine(typer.main.get_command(app)) == tried | {"demo", "schema"}
    forms = [call("schema", folder / "points.csv", "--engine", engine, "--json") for engine in ("duckdb", "spark")]
    assert forms[0] == forms[1]
    words = ("demo", "--data", folder / "labelled", "--engine", "spark", "--out", tmp_path / "town")
    with pytest.raises(GaussveilError, match="--time"):  # the table was read, and is none of readings
        call(*words)


def test_rows_need_an_order_where_the_table_has_none(folder: Path, spark: Any, tmp_path: Path) -> None:
    words = (
        "release",
        "vector",
        folder / "rows",
        *PROMISE,
        "--l2-sensitivity",
        1e-6,
        *WHY,
        "--out",
        tmp_path / "out.csv",
    )
    with pytest.raises(GaussveilError, match="--order"):
        call(*words, "--json")
    call(*words, "--order", "hour", "--engine", "spark", "--json")
    released = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
    sorted_rows = pq.read_table(folder / "rows").sort_by("hour")
    assert released.shape == (40, 2)
    assert np.abs(released[:, 0] - sorted_rows["a"].to_numpy()).max() < 1e-4
    labelled = [folder / "labelled" if word == folder / "rows" else word for word in words]
    with pytest.raises(GaussveilError, match="tell every two rows apart"):
        call(*labelled, "--order", "label", "--force", "--json")
    with pytest.raises(GaussveilError, match="'absent' is missing"):
        call(*words, "--order", "absent", "--force", "--json")


def test_names_on_certificates_hold_no_server_and_no_password() -> None:
    assert table_name("postgresql://me:secret@host:5432/town?password=secret#readings") == "town#readings"
    for place in (
        "me:secret@host",
        "me:secret@host/",
        "me:se/secret@host",
        "me:se?secret@host/town",
        "me:se#secret@host",
    ):
        assert table_name(f"postgresql://{place}#readings") == "postgresql#readings"
    with pytest.raises(GaussveilError) as refused:
        open_table("https://me:secret@host/rows.npy", Engine.duckdb)
    assert "secret" not in str(refused.value)
    assert table_name("s3://bucket/2024/readings.parquet") == "readings.parquet"
    assert table_name("/data/meters.sqlite#readings") == "meters.sqlite#readings"
    assert local_file("s3://bucket/readings.parquet") is None
    assert local_file("file:///data/readings.parquet") == Path("/data/readings.parquet")
