"""Every mechanism is under the laws, and none leaves the one path."""

from __future__ import annotations

import ast
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import gaussveil.mechanisms
from gaussveil.mechanisms.release_path import Mechanism

from .registry import CASES

ROOM = Path(gaussveil.mechanisms.__path__[0])
SCRIPT = Path(__file__).parents[2] / "scripts" / "write_exports.py"
PROMISE = {"epsilon": 1.0, "delta": 0.2}


def concrete(base: type[Mechanism]) -> Iterator[type[Mechanism]]:
    for kind in base.__subclasses__():
        yield from concrete(kind)
        if not inspect.isabstract(kind) and not kind.__name__.startswith("_"):
            yield kind


def test_the_mechanisms_are_the_law_cases() -> None:
    for module in pkgutil.walk_packages(gaussveil.mechanisms.__path__, "gaussveil.mechanisms."):
        import_module(module.name)
    written = {kind for kind in concrete(Mechanism) if kind.__module__.startswith("gaussveil.")}
    assert {kind.__name__ for kind in written} == {type(case.build(**PROMISE)).__name__ for case in CASES}


def test_no_mechanism_opens_a_transaction_or_drafts_a_certificate() -> None:
    own = {"transaction", "CertificateDraft", "Guarantee"}
    for file in ROOM.rglob("*.py"):
        if file.name == "release_path.py":
            continue
        names = {node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)}
        assert not names & own, f"{file.relative_to(ROOM)} uses {names & own}"


NEW = '''
"""A mechanism that was not there before."""

from dataclasses import dataclass

from gaussveil.mechanisms.release_path import Mechanism


@dataclass(kw_only=True, eq=False)
class Unheard(Mechanism):
    """Released: nothing."""

    mechanism = "unheard"
'''


# In one process, since importing every mechanism takes longest.
CHECKED_THEN_WRITTEN = """
import runpy, sys
script = sys.argv.pop()
sys.argv.append("--check")
try:
    runpy.run_path(script, run_name="__main__")
except SystemExit as end:
    print(1 if isinstance(end.code, str) else end.code)
    print(end.code, file=sys.stderr)
sys.argv.pop()
runpy.run_path(script, run_name="__main__")
"""


def test_a_new_mechanism_is_one_file_of_the_library(tmp_path: Path) -> None:
    """With its test, its law case and its page it touches four: exports and the reference of the API follow from it."""
    copy = tmp_path / "gaussveil"
    shutil.copytree(ROOM.parent, copy)  # with what is compiled, which stays valid: times are copied, too
    (copy / "mechanisms" / "unheard.py").write_text(NEW.lstrip())
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=600)

    written = python("-c", CHECKED_THEN_WRITTEN, str(SCRIPT))
    assert (written.returncode, written.stdout.strip()) == (0, "1")
    assert "lacks a mechanism" in written.stderr
    found = python("-c", "import gaussveil; print(gaussveil.Unheard is gaussveil.mechanisms.Unheard)")
    assert found.stdout.strip() == "True"
    for stub in ("__init__.pyi", "mechanisms/__init__.pyi"):
        mine, theirs = (copy / stub).read_text().splitlines(), (ROOM.parent / stub).read_text().splitlines()
        assert [line.split()[-1] for line in mine if line not in theirs] == ["Unheard"]
        assert [line for line in theirs if line not in mine] == []
