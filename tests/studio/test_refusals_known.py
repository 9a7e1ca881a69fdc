"""Every pattern by which pages translate refusals meets one that is raised today: a changed message is not missed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import gaussveil
import gaussveil_studio
from gaussveil.accounting import Certificate
from gaussveil.errors import GaussveilError
from gaussveil.report.pair_files import read_pair
from gaussveil.statistics.block import require_columns
from gaussveil_studio.sentences import CLEARED, SAID

FILLERS = ("x", "7", "1e-05")  # what stands in a message for what it is told of
CHECKS = {"refuse", "hours"}  # besides those of `checks`: all of them say that what is named "must be" something
UNASKED = {"cli", "streaming", "spectrum"}  # parts of the library that no form asks
CHOICE = re.compile(r"\((?:\?:)?([^()]*\|[^()]*)\)")


def words_of(node: ast.expr) -> str | None:
    """A text of the source, with a mark for each value it will hold; None if it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(words_of(part) or "" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "'\0'" if node.conversion == ord("r") else "\0"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = words_of(node.left), words_of(node.right)
        return None if left is None and right is None else (left or "\0") + (right or "\0")
    return None


def is_check(call: ast.Call) -> bool:
    """Whether a call refuses what it is given under the name that stands first."""
    if isinstance(call.func, ast.Attribute):
        return isinstance(call.func.value, ast.Name) and call.func.value.id == "checks"
    return isinstance(call.func, ast.Name) and call.func.id in CHECKS


def told_in(tree: ast.Module) -> Iterator[str]:
    """What a module raises, what its functions return for others to raise, and what its checks say."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Return):
            texts = [one for one in ast.walk(node) if isinstance(one, ast.expr)]
            yield from (words for one in texts if (words := words_of(one)))
        elif isinstance(node, ast.Call) and node.args and is_check(node):
            named, *rules = [words_of(one) for one in node.args[:2]]
            yield f"{named or chr(0)} must be {(rules and rules[0]) or chr(0)}. Got \0."


def composed(folder: Path) -> Iterator[str]:
    """Messages whose words stand in several places: refused for real."""
    schema = pa.schema([("a", pa.int64())])
    file = folder / "latin.csv"
    file.write_bytes("Zähler,kW\n".encode("latin-1"))
    for refused in (
        lambda: require_columns(schema, ["b"]),
        lambda: require_columns(schema, ["b", "c"]),
        lambda: Certificate.from_json("{"),
        lambda: read_pair(file),
    ):
        with pytest.raises(GaussveilError) as caught:
            refused()
        yield str(caught.value)


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """All that the library and the studio refuse with, but for parts that no form asks."""
    found = set(composed(tmp_path_factory.mktemp("refused")))
    for package in (gaussveil, gaussveil_studio):
        assert package.__file__ is not None
        root = Path(package.__file__).parent
        for path in root.rglob("*.py"):
            if path.name != "sentences.py" and path.relative_to(root).parts[0] not in UNASKED:
                found.update(told_in(ast.parse(path.read_text(encoding="utf-8"))))
    return tuple(words.replace("\0", filler).strip() for words in sorted(found) for filler in FILLERS)


def ways(pattern: str) -> Iterator[str]:
    """A pattern for each of its choices alone."""
    first, *others = re.split(r"\|(?=\^)", pattern)
    for one in others:
        yield from ways(one)
    if choice := CHOICE.search(first):
        for chosen in choice[1].split("|"):
            yield from ways(f"{first[: choice.start()]}(?:{chosen}){first[choice.end() :]}")
    else:
        yield first


def translated(message: str) -> str | None:
    """The pattern that a message meets first."""
    return next((pattern for pattern, _, _ in SAID if re.match(pattern, message, re.DOTALL)), None)


@pytest.mark.parametrize("pattern", [pattern for pattern, _, _ in SAID])
def test_every_choice_of_a_pattern_meets_a_message_that_no_earlier_one_takes(
    messages: tuple[str, ...], pattern: str
) -> None:
    for way in ways(pattern):
        known = re.compile(way, re.DOTALL)
        assert any(known.match(one) and translated(one) == pattern for one in messages), way


def test_all_that_is_taken_out_of_sentences_stands_in_one(messages: tuple[str, ...]) -> None:
    left = set(messages)
    for pattern, words in CLEARED:
        known = re.compile(pattern)
        assert any(map(known.search, left)), pattern
        left = {known.sub(words, one) for one in left}


def test_a_message_that_nobody_raises_any_more_is_found_out(messages: tuple[str, ...]) -> None:
    assert not any(re.match(r"^columns? are of a kind that nobody foresaw.*", one) for one in messages)
    assert list(ways(r"^a (b|c) d$|^e.*")) == [r"^e.*", r"^a (?:b) d$", r"^a (?:c) d$"]
