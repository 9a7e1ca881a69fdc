"""The form of a table on the command line: every command that reads one takes it, and says where nobody wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaussveil.cli.main import COMMANDS, app
from gaussveil.cli.tables import FILE_OPTIONS
from gaussveil.engines import open

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


def test_the_separator_is_that_of_the_names_where_lines_are_of_many_lengths(tmp_path: Path) -> None:
    """Separators at the ends of lines, which some have and others lack, are no columns."""
    (tmp_path / "t.csv").write_text("home,t,kw\na,10:00,1,\nb,11:00,2,,\nc,12:00,3\nd,12:00\n")
    assert open(tmp_path / "t.csv").table()["home"].to_pylist() == ["a", "b", "c", "d"]
    (tmp_path / "t.csv").write_text("home,t,kw\na\nb,1\nc,2,3,4\n")
    assert open(tmp_path / "t.csv").schema.names == ["home", "t", "kw"]
