"""The form of a table on the command line: every command that reads one takes it, and says where nobody wrote it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gaussveil.accounting import Ledger
from gaussveil.cli.main import COMMANDS, app
from gaussveil.cli.tables import FILE_OPTIONS, Engine, read_table
from gaussveil.engines import open
from gaussveil.errors import AssumptionError, ParameterError
from gaussveil.mechanisms import Count, Mean, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import hour_of

READ_TABLES = (
    "query",
    "release vector",
    "release trajectory",
    "mixture",
    "label-mixture",
    "synthesise",
    "classify",
    "regress",
    "pca",
    "logistic",
    "gp",
    "sketch",
    "forecast",
    "stream design",
    "audit",
    "schema",
    "demo",
)


@pytest.mark.parametrize("command", READ_TABLES)
def test_every_command_that_reads_a_table_takes_its_form(command: str) -> None:
    assert command.split()[0] in COMMANDS
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"}).output
    missing = [name for name in FILE_OPTIONS if f"--{name} " not in shown]
    assert not missing


FORM = """
[form."t.csv"]
separator = ";"
decimal = ","
unit = "Zähler"
people = "homes of Aarau"
time_zone = "Europe/Zurich"

[form."t.csv".columns]
"Zähler" = "text"
Zeit = "instant"
kW = "number"
"""


@pytest.mark.parametrize("place", ["gaussveil.toml", "form.toml"])
def test_a_form_says_whose_rows_these_are_and_on_which_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"h{k % 50};2024-03-{1 + k % 28:02d}T{k % 24:02d}:00Z;{k % 7},5\n" for k in range(1500))
    Path("t.csv").write_text(f"Zähler;Zeit;kW\n{rows}", encoding="utf-8")
    Path(place).write_text(FORM if place == "gaussveil.toml" else FORM.replace('form."t.csv".', "").split("]", 1)[1])
    said = [] if place == "gaussveil.toml" else ["--schema", place]
    ledger = Ledger.create("b.ledger")
    ledger.open_account("winter", epsilon=3, delta=1e-5, people="homes of Aarau")
    asked = ["--by", "hour(Zeit)", "--mean", "kW", "--between", "0,7", "--epsilon", "1", "--delta", "1e-6"]
    paying = ["--ledger", "b.ledger", "--account", "winter", "--out", "o.csv"]
    done = CliRunner().invoke(app, ["query", "t.csv", *asked, *said, *paying])
    assert done.exit_code == 0, done.output
    certificate = json.loads(Path("o.csv.certificate.json").read_text())
    assert certificate["guarantee"] == {"kind": "worst case", "reason": ""}
    assert certificate["adjacency"]["unit"] == "Zähler"
    assert any("'homes of Aarau' is at most one Zähler" in line for line in certificate["assumptions"])
    # In Python the same; the clock is the form's where no key names one.
    source = open("t.csv", schema=place)
    values = []
    for table, zone in ((source, None), (open("t.csv"), "Europe/Zurich"), (open("t.csv"), None)):
        by = {"hour": hour_of("Zeit", time_zone=zone)}
        answers = [Mean("kW", between=(0, 7))]
        asks = TableRelease(epsilon=1, delta=1e-6, unit="Zähler", by=by, answers=answers, generator=SeededGenerator(1))
        released = asks.release(table)
        values.append(released.value)
    assert values[0].equals(values[1])
    assert not values[0].equals(values[2])
    account = ledger.open_account("other", epsilon=3, delta=1e-5, people="patients")
    answer = TableRelease(epsilon=1, delta=1e-6, unit="Zähler", answers=[Count()], account=account)
    with pytest.raises(AssumptionError, match="is kept for 'patients'"):
        answer.release(source)


def test_a_form_is_proposed_with_people_and_clock(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("home,time,kw\na,2024-03-31T02:30Z,0.5\nb,2024-03-31T03:30Z,-999\n")
    out = tmp_path / "form.toml"
    words = ["--unit", "home", "--people", "homes of Aarau", "--time-zone", "Europe/Zurich", "--out", str(out)]
    done = CliRunner().invoke(app, ["schema", str(tmp_path / "t.csv"), *words])
    assert done.exit_code == 0, done.output
    found = open(tmp_path / "t.csv", schema=out).form_notes
    assert (found.people, found.time_zone, found.found) == ("homes of Aarau", "Europe/Zurich", ())
    out.write_text(out.read_text().replace("Zurich", "Zuerich"))
    with pytest.raises(ParameterError, match=r"form\.toml: time_zone must be a name such as 'Europe/Zurich'"):
        open(tmp_path / "t.csv", schema=out)


def test_readings_of_parquet_are_read_as_somebody_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    columns = {"home": ["a", "a", "b"], "time": ["02/03/2024 10:00"] * 3, "kw": ["1,5", "-999", "2"]}
    pq.write_table(pa.table(columns), path)
    for name, said in (
        ("TYPES", "time=time,kw=number"),
        ("TIME_FORMAT", "%d/%m/%Y %H:%M"),
        ("DECIMAL", ","),
        ("MISSING", "-999"),
    ):
        monkeypatch.setenv(f"GAUSSVEIL_{name}", said)
    found = read_table(str(path), Engine.duckdb)
    assert found["kw"].to_pylist() == [1.5, None, 2.0]
    assert found["time"].to_pylist() == [datetime(2024, 3, 2, 10)] * 3


def test_the_separator_is_that_of_the_names_where_lines_are_of_many_lengths(tmp_path: Path) -> None:
    """Separators at the ends of lines, which some have and others lack, are no columns."""
    (tmp_path / "t.csv").write_text("home,t,kw\na,10:00,1,\nb,11:00,2,,\nc,12:00,3\nd,12:00\n")
    assert open(tmp_path / "t.csv").table()["home"].to_pylist() == ["a", "b", "c", "d"]
    (tmp_path / "t.csv").write_text("home,t,kw\na\nb,1\nc,2,3,4\n")
    assert open(tmp_path / "t.csv").schema.names == ["home", "t", "kw"]
