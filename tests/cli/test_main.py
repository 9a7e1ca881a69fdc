from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gaussveil import errors
from gaussveil.cli.main import COMMANDS
from gaussveil.cli.output import exit_code

Run = Callable[..., tuple[int, str, str]]
DOCS = Path(__file__).parents[2] / "docs"


def all_errors(base: type[errors.GaussveilError] = errors.GaussveilError) -> Iterator[type[errors.GaussveilError]]:
    yield base
    for child in base.__subclasses__():
        yield from all_errors(child)


def test_version(run: Run) -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert re.fullmatch(r"gaussveil \d+\.\d+\.\d+\S*\n", out)


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["--help"], ["numpy", "matplotlib", "flint", "rich", "pydantic", "gaussveil.cli.query"]),
        (["delta", "pair.json", "--epsilon", "1"], ["scipy.special", "matplotlib", "flint", "rich", "pyarrow"]),
        (["study", "list"], ["numpy", "matplotlib"]),
    ],
)
def test_a_command_loads_what_it_needs(tmp_path: Path, words: list[str], unneeded: list[str]) -> None:
    (tmp_path / "pair.json").write_text('{"variance_gap": [0.1], "mean_gap": [0.2]}', encoding="utf-8")
    code = f"""
import sys, gaussveil.cli.main as line
sys.argv = ["gaussveil", *{words!r}]
try: line.main()
except SystemExit: pass
print(*(name for name in {unneeded!r} if name in sys.modules), file=sys.stderr)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stdout != "", done.stderr.strip()) == (True, "")


def test_every_line_of_the_help_stands_for_a_command(run: Run) -> None:
    _, out, _ = run("--help")
    for name, (place, words) in COMMANDS.items():
        assert name in out
        assert len(words) < 72, place


def test_every_error_has_its_own_documented_code_and_exit_code() -> None:
    page = (DOCS / "exit-codes.md").read_text(encoding="utf-8")
    kinds = [kind for kind in all_errors() if kind.__module__ == errors.__name__]
    codes = [kind.code for kind in kinds]
    assert len(codes) == len(set(codes))
    for kind in kinds:
        if kind is not errors.GaussveilError:
            assert f"| {kind.code} | `{kind.__name__}` |" in page
        assert exit_code(kind("x")) in range(1, 6)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.ShapeError, 2),
        (errors.SourceError, 2),
        (errors.NumericalError, 3),
        (errors.VerificationError, 1),
        (errors.BudgetExceededError, 4),
        (errors.LedgerCorruptError, 5),
    ],
)
def test_exit_codes_are_stable(kind: type[errors.GaussveilError], code: int) -> None:
    assert exit_code(kind("x")) == code


def test_the_installed_command_fails_without_a_traceback(run_outside: Run) -> None:
    code, out, err = run_outside("delta", "absent.json", "--epsilon", "1")
    assert (code, out) == (2, "")
    assert err == "error GV450: absent.json: no such file; give the path of a pair in JSON, NPZ or CSV\n"
