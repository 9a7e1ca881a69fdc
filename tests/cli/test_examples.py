"""Every command's help holds an example, and every example runs as it is written, on files made here."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.cli.main import app
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import simulate_households

Run = Callable[..., tuple[int, str, str]]


def commands(group: Any, path: str = "") -> Iterator[tuple[str, str]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command.callback.__doc__ or ""


DOCS = dict(commands(typer.main.get_command(app)))

SERVED = {
    "stream run": "private.jsonl",
    "stream fleet": "sums.jsonl",
    "stream total": "totals.jsonl",
}  # until stdin ends, and where answers go

# What has to be run first, by the examples of other commands.
BEFORE = {
    "sample": ("mixture",),
    "classify": ("mixture",),
    "key sign": ("release vector", "key new"),
    "verify": ("release vector", "key new", "key sign"),
    "budget show": ("budget new",),
    "budget history": ("budget new",),
    "budget export": ("budget new",),
    "budget void": ("budget new",),
    "budget check": ("budget new",),
    "backup": ("budget new",),
    "restore": ("budget new", "backup"),
}


def example(command: str) -> str:
    found = re.search(r"Example: (gaussveil .*(?:\n.+)*)", DOCS[command])
    assert found is not None, command
    return " ".join(found.group(1).split())


@pytest.fixture
def folder(tmp_path: Path, pair_files: dict[str, Path]) -> Path:
    """The files that the examples name; the pairs are there already."""
    generator = np.random.default_rng(0)
    rows = np.clip(generator.normal(0.0, 0.3, size=(12, 2)), -0.5, 0.5)
    label = (rows[:, 0] > 0).astype(int)
    lines = [f"{a},{b},{c}" for (a, b), c in zip(rows.tolist(), label)]
    (tmp_path / "in.csv").write_text("\n".join(["x,y,label", *lines]) + "\n", encoding="utf-8")
    (tmp_path / "home.csv").write_text("kw\n" + "0.3\n1.2\n0.4\n2.1\n" * 8, encoding="utf-8")
    (tmp_path / "q.csv").write_text("x,y\n0,0\n0.5,0.5\n", encoding="utf-8")
    kinds = np.array(["a", "b"])[generator.integers(2, size=200)]
    pq.write_table(pa.table({"noon": generator.normal(size=200), "class": kinds}), tmp_path / "profiles.parquet")
    hours = [f"2024-01-0{day} {hour:02}:00:00,0.5" for day in (1, 2) for hour in range(24)]
    (tmp_path / "history.csv").write_text("\n".join(["time,kw", *hours]) + "\n", encoding="utf-8")
    return tmp_path


def generator_of_ages() -> Any:
    return np.random.default_rng(1).integers(18, 90, size=6000)


def prepare(command: str, folder: Path) -> None:
    if command == "audit":
        (folder / "in.csv").rename(folder / "rows.csv")
        (folder / "model.json").write_text('{"model": "sum", "covariance": 100.0}', encoding="utf-8")
    if command == "budget void":
        charge = Charge(GaussianPair.mean_shift(0.1))
        Ledger(folder / "home.ledger").debit("homes", charge, Adjacency.add_remove("record"), release_id="3f0c")
    if command == "stream run":
        (meter,) = json.loads((folder / "meter.json").read_text(encoding="utf-8"))["meters"]
        reading = json.dumps({"meter": meter["name"], "seq": 0, "kw": 0.4})
        (folder / "readings.jsonl").write_text(reading + "\n", encoding="utf-8")
    if command in ("stream fleet", "stream total"):
        (folder / "names.txt").write_text("a\nb\n", encoding="utf-8")
        readings = [json.dumps({"meter": "a", "seq": period, "kw": 0.4}) for period in range(2)]
        (folder / "readings.jsonl").write_text("\n".join(readings), encoding="utf-8")
    if command == "release label":
        (folder / "curves.csv").write_text("home,morning,noon\nhome7,1,2\nhome8,2,1\n", encoding="utf-8")
    if command == "synthesise":
        ages = generator_of_ages().tolist()
        lines = [f"{age},{'f' if number % 2 else 'm'}" for number, age in enumerate(ages)]
        (folder / "patients.csv").write_text("\n".join(["age,sex", *lines]) + "\n", encoding="utf-8")
    if command == "budget check":
        (folder / "certificates").mkdir()
    if command in ("forecast", "demo", "query"):
        town = simulate_households(10, 16, step_minutes=60, seed=1)
        table = {
            "household": np.repeat(["ID", *town.households[1:]], town.count).tolist(),
            "time": np.tile(town.times.astype("datetime64[s]"), len(town)),
            "kw": town.values.ravel(),
        }
        pq.write_table(pa.table(table), folder / "readings.parquet")


@pytest.mark.parametrize("command", [name for name in DOCS if name not in (*SERVED, "stream spark", "studio")])
def test_the_example_runs(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(folder)
    for step in (*BEFORE.get(command, ()), command):
        prepare(step, folder)
        code, out, err = run(*shlex.split(example(step))[1:])
        told = [line for line in err.splitlines() if "read as" not in line and "this form was read off" not in line]
        assert (code, told) == (0, []), step
        assert out


@pytest.mark.parametrize("command", SERVED)
def test_the_example_of_a_gateway_runs(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(folder)
    assert run(*shlex.split(example("stream design"))[1:])[0] == 0
    prepare(command, folder)
    line = f"{Path(sys.executable).parent}/{example(command)}"  # with its redirections, so by a shell
    subprocess.run(line, shell=True, check=True, capture_output=True)
    (answer,) = (folder / SERVED[command]).read_text(encoding="utf-8").splitlines()
    assert json.loads(answer)["seq"] == 0


def test_the_example_of_the_studio_runs(folder: Path) -> None:
    (folder / "tables").mkdir()
    command = [str(Path(sys.executable).parent / "gaussveil"), *shlex.split(example("studio"))[1:]]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        words = process.stdout.readline()
        process.terminate()
    assert re.fullmatch(r"gaussveil studio: http://studio-[0-9a-f]{32}\.localhost:\d+/\?token=\S{43}\n", words)


@pytest.mark.parametrize("command", DOCS)
def test_the_help_holds_the_example_json_and_the_exit_codes(run: Run, command: str) -> None:
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    words = "".join(out.split())  # lines break where the terminal ends, at hyphens, too
    assert "".join(f"Example: {example(command)}".split()) in words
    assert "Exitcodes:0done" in words
    # The gateway speaks JSON lines and nothing else.
    assert "--json" in out or command in SERVED


def test_every_command_is_in_the_changelog() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    line = next(part for part in text.split("\n- ") if part.startswith("Command line:"))
    assert {name.split()[0] for name in DOCS} <= set(re.findall(r"`([a-z-]+)`", line))
