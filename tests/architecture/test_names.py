"""A name has one meaning: no two rooms give it to different classes, and no two binary formats begin alike."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "gaussveil"

SHARED: dict[str, str] = {}
"""Public classes of one name in several rooms, each with the reason."""

IN_ONE_ROOM = {
    "Counting": "a protocol: what the draws of the same file ask of a release",
    "ExactAccountant": "stands in for an accountant of Google's and of Opacus', whose names for it are alike",
}
"""And in several files of a room."""


def public_classes() -> dict[str, set[str]]:
    """Rooms that define a public class of each name, at the head of a module."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                rooms[node.name].add(room)
    return rooms


def test_a_class_name_belongs_to_one_room() -> None:
    shared = {name: rooms for name, rooms in public_classes().items() if len(rooms) > 1}
    assert shared.keys() == SHARED.keys(), shared


def test_a_class_name_belongs_to_one_file() -> None:
    files: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].add(path.name)
    shared = {name: paths for name, paths in files.items() if len(paths) > 1}
    assert shared.keys() == IN_ONE_ROOM.keys(), shared


def test_binary_formats_begin_differently() -> None:
    marks: Counter[bytes] = Counter()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            is_mark = isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["MARK"]
            if is_mark and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bytes):
                marks[node.value.value] += 1
    assert len(marks) >= 2
    assert set(marks.values()) == {1}
