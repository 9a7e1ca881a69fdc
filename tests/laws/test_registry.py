"""Every mechanism is under the laws, and none leaves the one path."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import gaussveil.mechanisms
from gaussveil.mechanisms.release_path import Mechanism

from .registry import CASES

ROOM = Path(gaussveil.mechanisms.__path__[0])
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
