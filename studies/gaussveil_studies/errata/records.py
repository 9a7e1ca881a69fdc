"""Records of `claims.toml`, one per claim, and the rule by which a verdict must follow from the evidence.

An accusation fixes the paper's own adjacency and its own released output and gives an enclosure on exactly that. Five
verdicts: *false* (a counterexample), *gap* (true in the paper's own model or wherever computed, while the argument
does not reach the usual one; both are said, the true part first), *loose* (true, with more noise than needed), *slip*
(a misprint or a step of a proof: the statement may hold), *reproduced*.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from gaussveil.spectrum import PrivacyLoss

COUNTEREXAMPLES = {  # the module of a paper's counterexamples
    "NDIS": "gaussveil_studies.errata.counterexamples",
    "class-based": "gaussveil_studies.errata.counterexamples",
    "SpDP": "gaussveil_studies.errata.spectral_counterexamples",
    "GMM": "gaussveil_studies.errata.mixture_counterexamples",
}
FILE = Path(__file__).with_name("claims.toml")
NOTICEABLE = 0.99  # a bound is called loose where less than this share of it is needed
ACCUSATION = (
    "mark",
    "where",
    "says",
    "adjacency",
    "released",
    "holds",
    "because",
    "derivation",
    "command",
    "evidence",
)
"""What a record must say whose verdict is other than reproduced."""
FIELDS = frozenset({*ACCUSATION, "document", "claim", "verdict", "printed"})

Relation = Literal["at most", "at least", "equal"]


@dataclass(frozen=True)
class Evidence:
    """What a sentence states, and a rigorous enclosure of the truth on the output that the paper releases.

    `law` is the pair of laws of that output under two neighbours, whose larger delta at `epsilon` is enclosed, or, for
    what is no Gaussian pair, the law in words.
    """

    stated: float
    lower: float
    upper: float
    law: PrivacyLoss | str
    relation: Relation = "at most"
    epsilon: float | None = None

    @classmethod
    def of_pair(cls, pair: PrivacyLoss, epsilon: float, stated: float) -> Evidence:
        """A claimed delta beside the enclosed one, the larger of both directions."""
        both = [one.enclose(epsilon) for one in (pair, pair.reversed())]
        return cls(
            stated,
            max(float(e.lower) for e in both),
            max(float(e.upper) for e in both),
            pair,
            epsilon=epsilon,
        )

    @property
    def holds(self) -> bool:
        """Whether the statement is proven on this case."""
        return (self.relation == "at least" or self.upper <= self.stated) and (
            self.relation == "at most" or self.lower >= self.stated
        )

    @property
    def fails(self) -> bool:
        """Whether it is disproven."""
        above = self.lower > self.stated
        below = self.upper < self.stated
        return {"at most": above, "at least": below, "equal": above or below}[
            self.relation
        ]

    def bears_out(self, verdict: str) -> bool:
        """Whether a verdict follows."""
        if verdict == "loose":
            return (
                self.holds
                and self.relation == "at most"
                and self.upper < NOTICEABLE * self.stated
            )
        if verdict in ("false", "gap", "slip"):
            return self.fails
        return self.holds


@dataclass(frozen=True)
class Record:
    """One claim; the fields are those of `claims.toml`."""

    key: str
    fields: Mapping[str, str]

    def __getattr__(self, name: str) -> str:
        if name not in FIELDS:
            raise AttributeError(name)
        return self.fields.get(name, "")

    def find(self) -> Evidence:
        """Evaluate its counterexample or its example."""
        # by name, as studies are: a study never imports another one, and the counterexamples use several
        module = import_module(COUNTEREXAMPLES[self.document])
        counterexample: Callable[[], Evidence] = getattr(module, self.evidence)
        return counterexample()


@cache
def records() -> dict[str, Record]:
    """All records in the order of the file."""
    body: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {key: Record(key, fields) for key, fields in body.items()}


def evidence(key: str) -> Evidence:
    """The evidence of a record, computed now."""
    return records()[key].find()
