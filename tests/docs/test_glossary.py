"""One word for one thing: the glossary's names exist where it says, and the reference is what the commands tell."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

import gaussveil
from gaussveil.cli.main import app
from gaussveil.engines.form import given_form
from gaussveil.engines.location import Location
from gaussveil.errors import ParameterError
from gaussveil.timeseries import read_readings

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| ([^|]+) \| (.+) \| `(\w+)` \| `(--[\w-]+)` \|$",
    (ROOT / "docs" / "glossary.md").read_text("utf-8"),
    re.MULTILINE,
)
# What a glossary word was called once; none of them may come back.
FORMER = {"tz", "--household-column", "--time-column", "--power-column", "--sensitivity", "--components", "--size"}


def commands(group: Any, path: str = "") -> dict[str, Any]:
    found = {}
    for name, command in group.commands.items():
        inner = commands(command, f"{path}{name} ") if hasattr(command, "commands") else {f"{path}{name}": command}
        found.update(inner)
    return found


COMMANDS = commands(typer.main.get_command(app))


def test_every_word_is_a_parameter_and_an_option() -> None:
    things = [getattr(gaussveil, name) for name in gaussveil.__all__]
    callables = [*(one for one in things if callable(one)), read_readings, gaussveil.Ledger.open_account]
    names = {name for one in callables for name in _parameters(one)}
    names |= {name for name in ("separator", "decimal", "encoding", "time_format") if _is_taken(name)}
    options = {option for command in COMMANDS.values() for one in command.params for option in one.opts}
    assert len(ROWS) > 15
    for *_, parameter, option in ROWS:
        assert parameter in names, parameter
        assert option in options, option
        if option != "--in":  # a word of Python's own
            assert option[2:].replace("-", "_") == parameter
    assert (options | names) & FORMER == set()


def test_a_unit_is_whose_row_it_is_everywhere() -> None:
    said = {name: one.help for name, command in COMMANDS.items() for one in command.params if one.opts == ["--unit"]}
    assert len(said) > 5
    for name, words in said.items():
        assert "names whose row it is" in words, name


def test_the_studio_speaks_as_the_commands_do() -> None:
    with (ROOT / "studio" / "gaussveil_studio" / "offers" / "orders.toml").open("rb") as file:
        fields = [one for kind in tomllib.load(file).values() for one in kind["fields"].items()]
    assert len(fields) > 50
    for name, told in fields:
        assert (name == "unit") == ("names whose row it is" in told["help"]), name
        assert (name == "measured_in") == (told["title"] == "Measured in"), name
        assert told["title"] != "Unit"
        assert name not in ("household", "power")  # whose reading it is and how much: `unit` and `reading` here
    delta = next(meaning for _, meaning, parameter, _ in ROWS if parameter == "delta")
    assert dict(fields)["delta"]["help"].lower().startswith(delta)


def test_the_reference_tells_every_command_and_option(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "write_command_line.py"), str(page)], check=True, timeout=300
    )
    sections = dict(re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    assert sections.keys() == COMMANDS.keys()
    assert "``" not in page.read_text("utf-8")
    for name, command in COMMANDS.items():
        options = [one.opts[-1] for one in command.params if one.param_type_name == "option" and not one.hidden]
        assert [option for option in options if f"`{option}`" not in sections[name]] == []


def _is_taken(name: str) -> bool:
    """Whether `gaussveil.open` takes a keyword of that name."""
    with pytest.raises(ParameterError, match="options must be one of"):
        given_form(Location("csv", "x"), None, {f"{name}_": "x"})
    given_form(Location("csv", "x"), None, {name: None})
    return True


def _parameters(thing: Any) -> list[str]:
    try:
        return list(inspect.signature(thing).parameters)
    except (ValueError, TypeError):
        return []
