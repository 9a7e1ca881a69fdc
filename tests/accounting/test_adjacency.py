"""Adjacency: constructors, words, exact round trips, refusals."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from gaussveil.accounting import Adjacency
from gaussveil.errors import FormatError, ParameterError

EVERY_KIND = [
    Adjacency.add_remove(),
    Adjacency.replace_one("household"),
    Adjacency.label_graph([("a", "b"), ("b", "a")]),
    Adjacency.l2_ball(0.1, space="spectrum", unit="home"),
    Adjacency.event(12, 3.5),
]


@pytest.mark.parametrize("adjacency", EVERY_KIND, ids=lambda found: found.kind)
def test_round_trips(adjacency: Adjacency) -> None:
    assert Adjacency.from_dict(json.loads(json.dumps(adjacency.to_dict()))) == adjacency
    assert pickle.loads(pickle.dumps(adjacency)) == copy.deepcopy(adjacency) == adjacency
    assert hash(copy.deepcopy(adjacency)) == hash(adjacency)


def test_every_kind_differs_from_the_others() -> None:
    assert len(set(EVERY_KIND)) == len(EVERY_KIND)


@pytest.mark.parametrize(
    ("adjacency", "symmetric", "words"),
    [
        (Adjacency.add_remove("home"), False, "one home is added or removed"),
        (Adjacency.replace_one(), True, "one record is replaced"),
        (Adjacency.label_graph([("x", "y")]), False, "1 ordered edges"),
        (Adjacency.l2_ball(2.0), True, "at most 2 in l2"),
        (Adjacency.event(3, 0.5), True, "at most 3 consecutive samples, each by at most 0.5"),
    ],
)
def test_symmetry_and_words(adjacency: Adjacency, symmetric: bool, words: str) -> None:
    assert adjacency.symmetric is symmetric
    assert words in str(adjacency)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Adjacency.add_remove(" "),
        lambda: Adjacency.label_graph([]),
        lambda: Adjacency.label_graph([("a", "a")]),
        lambda: Adjacency.label_graph([("a", "b"), ("a", "b")]),
        lambda: Adjacency.l2_ball(0.0),
        lambda: Adjacency.l2_ball(float("nan")),
        lambda: Adjacency.l2_ball(1.0, space="l1"),
        lambda: Adjacency.event(0, 1.0),
        lambda: Adjacency.event(2, -1.0),
        lambda: Adjacency("other"),
        lambda: Adjacency("event"),
    ],
)
def test_refuses(make: object) -> None:
    with pytest.raises(ParameterError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("record", [None, {}, {"kind": "replace"}, {**EVERY_KIND[0].to_dict(), "kind": "new"}])
def test_refuses_malformed_records(record: object) -> None:
    with pytest.raises(FormatError):
        Adjacency.from_dict(record)


def test_parameters_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        Adjacency.event(2, 1.0).parameters["size"] = 2.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("kind", "symmetric"), [("replace", False), ("add-remove", True), ("l2-ball", False), ("event", False)]
)
def test_symmetry_follows_from_the_kind(kind: str, symmetric: bool) -> None:
    parameters = {"radius": 1.0, "space": "vector", "length": 2, "size": 1.0}
    assert Adjacency(kind, "record", not symmetric, parameters).symmetric is not symmetric
    with pytest.raises(ParameterError, match="symmetric must be"):
        Adjacency(kind, "record", symmetric, parameters)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("label-graph", {}),
        ("label-graph", {"edges": []}),
        ("label-graph", {"edges": [["a", "a"]]}),
        ("label-graph", {"edges": [["a", "b"], ["a", "b"]]}),
        ("label-graph", {"edges": [["a"]]}),
        ("label-graph", {"edges": [[1, 2]]}),
        ("l2-ball", {"radius": 0.0, "space": "vector"}),
        ("l2-ball", {"radius": -1.0, "space": "vector"}),
        ("l2-ball", {"radius": True, "space": "vector"}),
        ("l2-ball", {"radius": 1.0, "space": "other"}),
        ("event", {"length": 0, "size": 1.0}),
        ("event", {"length": 2.5, "size": 1.0}),
        ("event", {"length": 2, "size": -1.0}),
    ],
)
def test_a_relation_without_neighbours_is_refused_from_files_too(kind: str, parameters: dict[str, object]) -> None:
    record = {"kind": kind, "unit": "home", "symmetric": kind != "label-graph", "parameters": parameters}
    with pytest.raises(FormatError):
        Adjacency.from_dict(record)


def test_only_label_graphs_have_edges() -> None:
    assert Adjacency("add-remove", parameters={"edges": [["a", "b"]]}).edge_count is None
