"""Which two inputs count as neighbours: the first half of every privacy statement.

Orientation (mathematics, section 3): X is the law with the record, Y the law without it; along a label graph X belongs
to the first label of an ordered edge. Under a *symmetric* adjacency neither neighbour is "the one with the record", so
each entry may stand either way round and a composition takes the worst over all orientations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gaussveil import checks
from gaussveil.accounting.canonical import (
    FrozenRecord,
    canonical_json,
    fields,
    text,
    within_limits,
)
from gaussveil.errors import FormatError, ParameterError

_KINDS = {
    "add-remove": "one {unit} is added or removed",
    "replace": "one {unit} is replaced by another",
    "label-graph": "the label of one {unit} changes along an edge of a public graph of {edges} ordered edges",
    "l2-ball": "the {space} of one {unit} moves by at most {radius:g} in l2 norm",
    "event": "one {unit} changes in at most {length:d} consecutive samples, each by at most {size:g}",
    "steps": "one {unit} changes in at most {takes:d} samples, {apart:d} or more apart, each by at most {size:g}",
}
_SYMMETRIC = frozenset({"replace", "l2-ball", "event", "steps"})
SPACES = ("spectrum", "trajectory", "vector")


def _check_parameters(kind: str, parameters: Mapping[str, object]) -> None:
    """Raise where a relation says too little, or relates nothing: a promise about no neighbours is empty."""
    if kind == "label-graph":
        _check_edges(parameters.get("edges"))
    elif kind == "l2-ball":
        checks.positive("radius", parameters.get("radius"))
        checks.one_of("space", parameters.get("space"), SPACES)
    elif kind == "event":
        checks.positive("size", parameters.get("size"))
        checks.whole("length", parameters.get("length"))
    elif kind == "steps":
        checks.positive("size", parameters.get("size"))
        checks.whole("takes", parameters.get("takes"))
        checks.whole("apart", parameters.get("apart"))


def _is_pair_of_texts(edge: object) -> bool:
    if not isinstance(edge, list) or len(edge) != 2:
        return False
    return all(isinstance(end, str) for end in edge)


def _check_edges(edges: object) -> None:
    if not isinstance(edges, list) or not edges:
        raise ParameterError(
            "edges must hold at least one ordered pair of labels. Got none."
        )
    if not all(map(_is_pair_of_texts, edges)):
        raise ParameterError("edges must be ordered pairs of labels, each label a text")
    if any(first == second for first, second in edges):
        raise ParameterError(
            "edges must join two different labels. Got an edge from a label to itself."
        )
    if len({tuple(edge) for edge in edges}) != len(edges):
        raise ParameterError(
            "edges must not repeat an ordered pair. Got a repeated one."
        )


@dataclass(frozen=True, eq=False)
class Adjacency:
    """A neighbouring relation and its privacy unit; build one with the constructors below."""

    kind: str
    unit: str = "record"
    symmetric: bool = False
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, _KINDS)
        if not isinstance(self.unit, str) or not self.unit.strip():
            checks.refuse(
                "unit",
                "text that names what is protected, for example 'record' or 'household'",
                self.unit,
            )
        # Read as oriented, a symmetric relation would be charged for one orientation only.
        if self.symmetric is not (self.kind in _SYMMETRIC):
            raise ParameterError(
                f"symmetric must be {self.kind in _SYMMETRIC} for the kind {self.kind!r}. Got {self.symmetric}. "
                "Use the constructors of Adjacency, which set it."
            )
        object.__setattr__(self, "parameters", FrozenRecord(self.parameters))
        _check_parameters(self.kind, self.parameters)
        self.describe()

    @classmethod
    def add_remove(cls, unit: str = "record") -> Adjacency:
        """One record is added or removed; X is the law with it."""
        return cls("add-remove", unit)

    @classmethod
    def replace_one(cls, unit: str = "record") -> Adjacency:
        """One record is replaced by another; symmetric."""
        return cls("replace", unit, symmetric=True)

    @classmethod
    def label_graph(
        cls, edges: Iterable[tuple[object, object]], unit: str = "record"
    ) -> Adjacency:
        """One label changes along an ordered edge (X has the first label); losses carry one batch entry per edge."""
        listed = [[str(first), str(second)] for first, second in edges]
        return cls("label-graph", unit, parameters={"edges": listed})

    @classmethod
    def l2_ball(
        cls, radius: float, *, space: str = "trajectory", unit: str = "trajectory"
    ) -> Adjacency:
        """Two spectra or trajectories at most `radius` apart in l2 norm; symmetric."""
        return cls(
            "l2-ball",
            unit,
            True,
            {"radius": checks.positive("radius", radius), "space": space},
        )

    @classmethod
    def event(cls, length: int, size: float, unit: str = "trajectory") -> Adjacency:
        """Two trajectories that differ in at most `length` consecutive samples, each by at most `size`; symmetric."""
        bound = checks.real(
            "length", length
        )  # a whole number written as a float will do
        if bound.is_integer():
            whole = int(bound)
        else:
            whole = length
        return cls(
            "event",
            unit,
            True,
            {"length": whole, "size": checks.positive("size", size)},
        )

    @classmethod
    def steps(
        cls, takes: int, apart: int, size: float, unit: str = "trajectory"
    ) -> Adjacency:
        """Two trajectories that differ in at most `takes` samples, `apart` or more apart, each by at most `size`."""
        counts = {
            "takes": checks.whole("takes", takes),
            "apart": checks.whole("apart", apart),
        }
        return cls(
            "steps", unit, True, {**counts, "size": checks.positive("size", size)}
        )

    @property
    def edge_count(self) -> int | None:
        """Number of ordered edges of a label graph, None for the other kinds."""
        if self.kind == "label-graph":
            edges = self.parameters.get("edges")
        else:
            edges = None
        if isinstance(edges, list):
            return len(edges)
        return None

    @property
    def protected(self) -> str:
        """What a promise is about, in a few words: of a label graph which label it is, not all that came before."""
        if self.kind == "label-graph":
            return f"the label of each {self.unit}"
        return f"each {self.unit}"

    def describe(self) -> str:
        """Say the relation in one sentence."""
        values = {**self.parameters, "unit": self.unit, "edges": self.edge_count}
        try:
            return _KINDS[self.kind].format(**values)
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise ParameterError(
                f"an adjacency of kind {self.kind!r} lacks or misstates {error}"
            ) from error

    __str__ = describe

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Adjacency) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(canonical_json(self.to_dict()))

    def to_dict(self) -> dict[str, object]:
        """Give plain JSON values."""
        return {
            "kind": self.kind,
            "unit": self.unit,
            "symmetric": self.symmetric,
            "parameters": dict(self.parameters),
        }

    @classmethod
    def from_dict(cls, record: object) -> Adjacency:
        """Inverse of `to_dict`."""
        stated = fields(
            within_limits(record, "an adjacency"),
            "an adjacency",
            ("kind", "unit", "symmetric", "parameters"),
        )
        parameters = stated["parameters"]
        symmetric = stated["symmetric"]
        if not isinstance(parameters, Mapping) or not isinstance(symmetric, bool):
            raise FormatError(
                "an adjacency needs 'parameters' as an object and 'symmetric' as true or false"
            )
        kind = text(stated, "kind", "an adjacency")
        unit = text(stated, "unit", "an adjacency")
        try:
            return cls(kind, unit, symmetric, parameters)
        except ParameterError as error:
            raise FormatError(f"not an adjacency of this version: {error}") from error
