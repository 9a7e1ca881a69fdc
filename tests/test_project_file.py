"""A project's file says what stands in it, and writing one form leaves every other line as it was."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gaussveil.errors import FormatError
from gaussveil.project_file import Project, read_project, write_form

FORM = {
    "separator": ";",
    "missing": ["-999", "k. A."],
    "people": 'the homes of "Aarau"',
    "columns": {"Zähler": "text", "Zeit": {"type": "time", "format": "%d.%m.%Y\t%H:%M"}, "kw": "number"},
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gaussveil.toml"
    assert read_project(file) == Project()
    write_form(file, "zähler #1.csv", FORM)
    assert read_project(file) == Project({}, {"zähler #1.csv": FORM})


def test_other_lines_stay(tmp_path: Path) -> None:
    file = tmp_path / "gaussveil.toml"
    file.write_text(
        '# ours\nunit = "home"  # a meter\n\n[form."b.csv"]\nunit = "b"\n\n[form."b.csv".columns]\nb = "text"\n'
    )
    write_form(file, "a.csv", FORM)
    write_form(file, "b.csv", {"unit": "c"})
    write_form(file, "a.csv", {**FORM, "unit": "Zähler"})
    found = read_project(file)
    assert found.options == {"unit": "home"}
    assert found.forms == {"a.csv": {**FORM, "unit": "Zähler"}, "b.csv": {"unit": "c"}}
    assert file.read_text().startswith('# ours\nunit = "home"  # a meter\n')
    assert tomllib.loads(file.read_text())["form"]["b.csv"] == {"unit": "c"}


def test_a_form_belongs_to_a_name_or_to_a_pattern_of_names() -> None:
    project = Project({}, {"day-*.csv": {"unit": "a"}, "day-1.csv": {"unit": "b"}})
    assert [project.form_of(name) for name in ("day-1.csv", "day-2.csv", "week.csv")] == [
        {"unit": "b"},
        {"unit": "a"},
        None,
    ]


@pytest.mark.parametrize("text", ["form = 1", "[form]\nx = 1", "unit = ", "\xff"])
def test_what_is_no_project_is_refused_by_name_and_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "gaussveil.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match=r"gaussveil\.toml"):
        read_project(file)
    with pytest.raises(FormatError, match=r"gaussveil\.toml"):
        write_form(file, "a.csv", FORM)
    assert file.read_bytes() == text.encode("latin-1")
