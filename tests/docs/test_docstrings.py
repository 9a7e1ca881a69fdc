"""Docstrings are the reference of the API: parameters, what is returned, what is raised, and examples that run."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import gaussveil
from gaussveil import errors

ENTRY = re.compile(r"^ *((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*):", re.MULTILINE)
CHECKS = "gaussveil.checks"
PAYS = {"_publish", "_publish_sums", "_open_with", "_released", "transaction"}
"""Calls that debit an account, which may have nothing left."""


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


CLASSES = exported(is_class)
FUNCTIONS = exported(inspect.isfunction)


def contract(owner: type, method: str) -> str:
    """What a method promises: its docstring, and those of the methods that it overrides."""
    sources = [vars(parent)[method] for parent in owner.__mro__ if method in vars(parent)]
    return "\n".join(inspect.getdoc(source) or "" for source in sources)


def section(docstring: str, title: str) -> str:
    """The indented lines below each heading of that name."""
    blocks = re.findall(rf"^( *){title}:\n((?:\1 +.*\n?|\n)+)", docstring, re.MULTILINE)
    return "\n".join(body for _, body in blocks)


def errors_told(docstring: str) -> set[str]:
    return set(re.findall(r"^ *(\w+):", section(docstring, "Raises"), re.MULTILINE))


@cache
def source_of(file: str) -> tuple[dict[str, ast.FunctionDef], dict[str, str]]:
    """Functions and methods of a file by qualified name, and where each imported name comes from."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            methods = [node for node in owner.body if isinstance(node, ast.FunctionDef)]
            functions |= {f"{owner.name}.{node.name}": node for node in methods}
    imported = {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return functions, imported


class Raised:
    """Errors of ours that a function raises by its own file: itself, by checks of arguments, by its private helpers."""

    def __init__(self, function: Any) -> None:
        function = inspect.unwrap(getattr(function, "__func__", function))
        self.functions, self.imported = source_of(inspect.getsourcefile(function) or "")
        self.owner = function.__qualname__.rpartition(".")[0]
        self.seen: set[str] = set()
        self.names = self.of_function(function.__qualname__)

    def of_function(self, name: str) -> set[str]:
        if name in self.seen:
            return set()
        self.seen.add(name)
        return set().union(*map(self.of_node, self.functions[name].body))

    def of_node(self, node: ast.AST) -> set[str]:
        if isinstance(node, ast.Try):
            kept = set().union(*map(self.of_node, node.body)) - caught(node)
            others = [*node.handlers, *node.orelse, *node.finalbody]
            return kept.union(*map(self.of_node, others))
        names = set().union(*map(self.of_node, ast.iter_child_nodes(node)))
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = getattr(node.exc, "func", node.exc)
            names |= {getattr(raised, "id", "")} & vars(errors).keys()
        if isinstance(node, ast.Call):
            names |= self.of_call(node.func)
        return names

    def of_call(self, called: ast.expr) -> set[str]:
        owner = getattr(getattr(called, "value", None), "id", "")
        name = getattr(called, "attr", getattr(called, "id", ""))
        if owner == "checks" or (not owner and self.imported.get(name) == CHECKS):
            return {"ParameterError"}
        if name in PAYS and owner in ("", "self"):
            return {"BudgetExceededError"}
        if owner in ("self", "cls") and name.startswith("_"):
            name = f"{self.owner}.{name}"
        if name in self.functions and (not owner or "." in name):
            return self.of_function(name)
        return set()


def caught(attempt: ast.Try) -> set[str]:
    """Errors of ours that a statement's handlers take."""
    kinds: list[type] = []
    for handler in attempt.handlers:
        for node in ast.walk(handler.type) if handler.type else ():
            kind = getattr(errors, getattr(node, "id", ""), getattr(builtins, getattr(node, "id", ""), None))
            if isinstance(kind, type):
                kinds.append(kind)
    ours = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    return {name for name, kind in ours.items() if issubclass(kind, tuple(kinds))}


@pytest.mark.parametrize("name", CLASSES + FUNCTIONS)
def test_each_parameter_of_an_export_is_described(name: str) -> None:
    export = getattr(gaussveil, name)
    assert parameters(export) - described(inspect.getdoc(export) or "") == set()


@pytest.mark.parametrize("name", CLASSES)
def test_each_parameter_of_a_public_method_is_named(name: str) -> None:
    missing = {}
    for method, function in public_methods(getattr(gaussveil, name)):
        docstring = inspect.getdoc(function) or ""
        words = set(re.findall(r"\w+", docstring))
        unnamed = parameters(function) - words
        if unnamed or not docstring:
            missing[method] = unnamed
    assert missing == {}


@pytest.mark.parametrize("name", CLASSES)
def test_each_public_method_says_what_it_returns(name: str) -> None:
    owner = getattr(gaussveil, name)
    silent = {
        method
        for method, function in public_methods(owner)
        if inspect.signature(function).return_annotation not in ("None", None)
        and not section(contract(owner, method), "Returns").strip()
    }
    assert silent == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_exported_function_says_what_it_returns(name: str) -> None:
    assert section(inspect.getdoc(getattr(gaussveil, name)) or "", "Returns").strip()


@pytest.mark.parametrize("name", CLASSES)
def test_each_error_of_a_public_method_is_told(name: str) -> None:
    owner = getattr(gaussveil, name)
    untold = {}
    for method, function in public_methods(owner):
        missing = Raised(function).names - errors_told(contract(owner, method))
        if missing:
            untold[method] = missing
    assert untold == {}


@pytest.mark.parametrize("name", CLASSES)
def test_each_error_of_a_constructor_is_told_by_its_class(name: str) -> None:
    docstrings = [parent.__doc__ or "" for parent in getattr(gaussveil, name).__mro__[:-1]]
    told = errors_told("\n".join(map(inspect.cleandoc, docstrings)))
    for parent in getattr(gaussveil, name).__mro__:
        for method in ("__init__", "__post_init__"):
            function = inspect.unwrap(vars(parent).get(method, len))  # of a decorator's, what it wraps
            written = isinstance(function, FunctionType) and Path(function.__code__.co_filename).exists()
            if written and parent.__module__.startswith("gaussveil"):
                assert Raised(function).names <= told, f"{parent.__qualname__}.{method}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_error_of_an_exported_function_is_told(name: str) -> None:
    function = getattr(gaussveil, name)
    assert Raised(function).names <= errors_told(inspect.getdoc(function) or "")


@pytest.mark.parametrize("name", CLASSES + FUNCTIONS)
def test_errors_that_are_told_exist(name: str) -> None:
    export = getattr(gaussveil, name)
    docstrings = [inspect.getdoc(export) or ""]
    if is_class(export):
        docstrings += [contract(export, method) for method, _ in public_methods(export)]
    for told in set().union(*map(errors_told, docstrings)):
        kind = getattr(errors, told, getattr(builtins, told, None))
        assert isinstance(kind, type), told
        assert issubclass(kind, Exception)


@pytest.mark.parametrize("name", CLASSES + FUNCTIONS)
def test_each_export_has_examples_that_do_as_they_say(name: str) -> None:
    export = getattr(gaussveil, name)
    home = dict(vars(sys.modules[export.__module__]))
    tests = doctest.DocTestFinder(exclude_empty=True).find(export, name, globs=home)
    assert any(test.name == name and test.examples for test in tests), "the docstring has no example"
    runner = doctest.DocTestRunner()
    told: list[str] = []
    for test in tests:
        runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)


def test_a_docstring_that_leaves_one_out_is_found() -> None:
    entries = "Adds.\n\n    Args:\n        a, b: numbers.\n        c: one, or `d`.\n"
    assert described(entries) - {"Args"} == {"a", "b", "c", "d"}
    assert described("The sum of a and b.") == set()


def test_sections_end_where_their_lines_do() -> None:
    docstring = "Adds.\n\nReturns:\n    The sum.\n\nRaises:\n    ShapeError: they do not fit.\n\nText: more.\n"
    assert section(docstring, "Returns").strip() == "The sum."
    assert errors_told(docstring) == {"ShapeError"}
    assert section("Returns nothing.", "Returns") == ""


def test_errors_are_found_behind_helpers_and_not_where_they_are_caught() -> None:
    assert "ParameterError" in Raised(gaussveil.PrivateSketch.gram).names  # by _fitted
    assert Raised(gaussveil.RunningTotal.from_record).names == {"FormatError"}  # ParameterError is a ValueError
    assert "BudgetExceededError" in Raised(gaussveil.TableRelease.release).names
    assert Raised(gaussveil.Accountant.advantage).names == set()
