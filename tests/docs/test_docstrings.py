"""Docstrings are the reference of the API: none leaves out a parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import gaussveil

ENTRY = re.compile(r"^ *((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*):", re.MULTILINE)


def parameters(function: Any) -> set[str]:
    """What a caller may pass; private names are the library's own."""
    names = inspect.signature(function).parameters
    return {name for name in names if name not in ("self", "cls") and not name.startswith("_")}


def described(docstring: str) -> set[str]:
    """Words with an entry of their own, or in the code of a sentence."""
    names = {name.strip(" *") for entry in ENTRY.findall(docstring) for name in entry.split(",")}
    for code in re.findall(r"`([^`]+)`", docstring):
        names.update(re.findall(r"\w+", code))
    return names


def public_methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name in dir(owner):
        method = inspect.getattr_static(owner, name)
        if isinstance(method, staticmethod | classmethod):
            method = method.__func__
        ours = inspect.isfunction(method) and method.__module__.startswith("gaussveil")
        if ours and not name.startswith("_"):
            yield name, getattr(owner, name)


def exported(kind: Any) -> list[str]:
    return [name for name in gaussveil.__all__ if kind(getattr(gaussveil, name))]


def is_class(thing: Any) -> bool:
    return inspect.isclass(thing) and not issubclass(thing, Exception)


@pytest.mark.parametrize("name", exported(is_class) + exported(inspect.isfunction))
def test_each_parameter_of_an_export_is_described(name: str) -> None:
    export = getattr(gaussveil, name)
    assert parameters(export) - described(inspect.getdoc(export) or "") == set()


@pytest.mark.parametrize("name", exported(is_class))
def test_each_parameter_of_a_public_method_is_named(name: str) -> None:
    missing = {}
    for method, function in public_methods(getattr(gaussveil, name)):
        docstring = inspect.getdoc(function) or ""
        words = set(re.findall(r"\w+", docstring))
        unnamed = parameters(function) - words
        if unnamed or not docstring:
            missing[method] = unnamed
    assert missing == {}


def test_a_docstring_that_leaves_one_out_is_found() -> None:
    entries = "Adds.\n\n    Args:\n        a, b: numbers.\n        c: one, or `d`.\n"
    assert described(entries) - {"Args"} == {"a", "b", "c", "d"}
    assert described("The sum of a and b.") == set()
