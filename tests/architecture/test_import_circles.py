"""No module imports, at its head, inside a function or for type checkers only, a module that imports it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / place for place in ("src/gaussveil", "studio/gaussveil_studio", "studies/gaussveil_studies")]


def import_graph(package: Path) -> dict[str, set[str]]:
    """The modules of a package that each of them names; where a package gives a name from inside it, the package."""
    paths = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        found: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found |= {f"{node.module}.{alias.name}" for alias in node.names} & paths.keys() or {node.module}
        graph[name] = (found & paths.keys()) - {name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> set[tuple[str, ...]]:
    """Strongly connected components of more than one module (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: set[tuple[str, ...]] = set()

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == order[name]:
            members = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(members) > 1:
                found.add(tuple(sorted(members)))

    for name in graph:
        if name not in order:
            visit(name)
    return found


def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path) -> None:
    package = tmp_path / "ring"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from ring.two import b\n")
    (package / "two.py").write_text("def work():\n    import ring.three\n")
    (package / "three.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ring import one\n")
    (package / "apart.py").write_text("from ring import one, two\n")
    assert circles(import_graph(package)) == {("ring.one", "ring.three", "ring.two")}


def test_no_module_is_part_of_a_circle() -> None:
    assert [circles(import_graph(package)) for package in PACKAGES] == [set()] * len(PACKAGES)
