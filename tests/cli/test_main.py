from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gaussveil import errors
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


def test_help_needs_no_numerical_library() -> None:
    code = "import sys, gaussveil.cli.main; print(*(m for m in ('numpy', 'matplotlib', 'flint') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


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
