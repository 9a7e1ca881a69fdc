"""Black-box audit: outputs on two inputs and nothing else, for mechanisms that can only be called.

A score orders outputs by how much they speak for the first input: the likelihood ratio where it is known, a classifier
learnt from outputs otherwise. On a first part of the outputs (the pilot) the classifier is fitted and the event chosen;
the rest, untouched so far, counts how often each input falls into it. Clopper-Pearson ends of both frequencies give
a lower end of delta that is too high with probability at most 1 - confidence, both directions together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from gaussveil import checks
from gaussveil.accounting import PrivateDiagnostics
from gaussveil.audit.binomial import (
    Claim,
    delta_lower,
    lower_end,
    refutes_surely,
    upper_end,
)
from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.typing import Floats

Score: TypeAlias = Callable[[Any], Any]

CONFIDENCE = 1.0 - 1e-6
CANDIDATES = 128
FEWEST_LESSONS = 8
QUADRATIC_UP_TO = 30  # columns; beyond, products of columns are too many to learn from


@dataclass(frozen=True)
class OutputEvent:
    """{score beyond threshold}, its direction, and how often each input fell into it among `trials` fresh outputs."""

    direction: Literal["x_y", "y_x"]
    threshold: float
    hits: int
    false_hits: int
    trials: int
    delta_lower: float


class BlackBoxAudit(PrivateDiagnostics):
    """Outcome of a black-box audit: `refuted`, `delta_lower`, and one tested event per direction."""

    __slots__ = ("claim", "confidence", "events")

    def __init__(
        self, claim: Claim, confidence: float, events: tuple[OutputEvent, OutputEvent]
    ) -> None:
        self.claim = claim
        self.confidence = confidence
        self.events = events
        super().__init__(
            claim={"epsilon": claim.epsilon, "delta": claim.delta},
            verdict="refuted" if self.refuted else "not refuted",
            confidence=confidence,
            delta_lower=self.delta_lower,
            events=[vars(event) for event in events],
        )

    @property
    def delta_lower(self) -> float:
        """Lower end of delta(epsilon), the worse direction."""
        return max(event.delta_lower for event in self.events)

    @property
    def refuted(self) -> bool:
        """Whether the outputs contradict the claim at the confidence asked for."""
        return self.delta_lower > self.claim.delta

    def power_lower(self, doubt: float = 1e-3) -> float:
        """Lower bound on the chance that a fresh audit of as many outputs would refute (itself wrong with `doubt`)."""
        checks.real("doubt", doubt, "(0, 1)")
        level = (1.0 - self.confidence) / 2.0
        best = 0.0
        for event in self.events:
            rate = lower_end(event.hits, event.trials, doubt / 4)
            false_rate = upper_end(event.false_hits, event.trials, doubt / 4)
            for power in (0.5, 0.9, 0.99, 0.999):
                if refutes_surely(
                    rate, false_rate, event.trials, self.claim, power=power, level=level
                ):
                    best = max(best, power)
        return best


def audit_scores(
    scores_x: Any,
    scores_y: Any,
    *,
    claim: tuple[float, float],
    confidence: float = CONFIDENCE,
    pilot: float = 0.25,
) -> BlackBoxAudit:
    """Audit from scores of outputs on two inputs; larger scores speak for the first input.

    Scores are in the order of drawing, which must not depend on their values; infinite scores are welcome (an output
    that the other input can never give). The first `pilot` share of them chooses the events.
    """
    claimed = Claim.of(claim)
    checks.real("confidence", confidence, "(0, 1)")
    checks.real("pilot", pilot, "(0, 1)")
    x = _scores("scores_x", scores_x)
    y = _scores("scores_y", scores_y)
    if x.size != y.size or x.size < 8:
        raise ShapeError(
            f"both inputs need equally many outputs, at least 8. Got {x.size} and {y.size}."
        )
    first = max(1, round(pilot * x.size))
    level = (1.0 - confidence) / 2.0  # per direction
    events = (
        _event("x_y", x, y, first, claimed.epsilon, level),
        _event("y_x", -y, -x, first, claimed.epsilon, level),
    )
    return BlackBoxAudit(claimed, confidence, events)


def audit_samples(
    x: Any,
    y: Any,
    *,
    claim: tuple[float, float],
    test: Score | Any = "learned",
    confidence: float = CONFIDENCE,
    pilot: float = 0.25,
) -> BlackBoxAudit:
    """Audit from outputs on two inputs, one per row.

    `test` is a function that scores outputs (the log likelihood ratio of the first input, best), a scikit-learn
    classifier, or "learned": logistic regression on squares and products, the likelihood ratio of two Gaussians.
    """
    outputs_x = _outputs("x", x)
    outputs_y = _outputs("y", y)
    if outputs_x.shape != outputs_y.shape:
        raise ShapeError(
            f"'x' and 'y' must have one shape. Got {outputs_x.shape} and {outputs_y.shape}."
        )
    if callable(test):
        return audit_scores(
            test(outputs_x),
            test(outputs_y),
            claim=claim,
            confidence=confidence,
            pilot=pilot,
        )
    checks.real("pilot", pilot, "(0, 1)")
    if isinstance(test, str) and test == "learned":
        classifier = _default_classifier(outputs_x.shape[1])
    else:
        classifier = test
    if not hasattr(classifier, "fit"):
        raise ParameterError(
            f"'test' must be 'learned', a scoring function or a classifier. Got {test!r}."
        )
    if len(outputs_x) * pilot < FEWEST_LESSONS:
        raise ShapeError(
            f"a test is learnt from at least {FEWEST_LESSONS} outputs of each input; {len(outputs_x)} at a pilot share "
            f"of {pilot:g} give fewer"
        )
    if not (np.all(np.isfinite(outputs_x)) and np.all(np.isfinite(outputs_y))):
        raise NotFiniteError(
            "a test can be learnt from finite outputs only; pass a scoring function instead"
        )
    from sklearn.base import (
        clone,
    )  # here, since few audits learn and it is slow to import

    classifier = clone(classifier)  # the caller's stays as it is
    # Half of the pilot teaches, the other half chooses the event: what was learnt by heart would mislead the choice.
    taught = max(2, round(pilot * len(outputs_x) / 2))
    classifier.fit(
        np.concatenate([outputs_x[:taught], outputs_y[:taught]]),
        np.repeat([1, 0], taught),
    )
    share = (pilot * len(outputs_x) - taught) / (len(outputs_x) - taught)
    return audit_scores(
        _decision(classifier, outputs_x[taught:]),
        _decision(classifier, outputs_y[taught:]),
        claim=claim,
        confidence=confidence,
        pilot=share,
    )


def audit_mechanism(
    draw: Callable[[Any, int], Any],
    with_record: Any,
    without: Any,
    *,
    draws: int,
    claim: tuple[float, float],
    test: Score | Any = "learned",
    confidence: float = CONFIDENCE,
    pilot: float = 0.25,
) -> BlackBoxAudit:
    """Call `draw(data, draws)` on two neighbouring inputs and audit what it returns, one output per row."""
    x = draw(with_record, draws)
    y = draw(without, draws)
    return audit_samples(
        x, y, claim=claim, test=test, confidence=confidence, pilot=pilot
    )


def _event(
    direction: Literal["x_y", "y_x"],
    scores: Floats,
    others: Floats,
    first: int,
    epsilon: float,
    level: float,
) -> OutputEvent:
    threshold = _best_threshold(
        scores[:first], others[:first], scores.size - first, epsilon, level
    )
    hits, false_hits = (
        int(np.sum(sample[first:] > threshold)) for sample in (scores, others)
    )
    trials = scores.size - first
    lower = float(delta_lower(hits, false_hits, trials, epsilon, level))
    return OutputEvent(
        direction,
        threshold if direction == "x_y" else -threshold,
        hits,
        false_hits,
        trials,
        lower,
    )


def _best_threshold(
    scores: Floats, others: Floats, trials: int, epsilon: float, level: float
) -> float:
    """The pilot's threshold that promises the largest lower end; rates of rare events are rounded up."""
    pool = np.unique(np.concatenate([scores, others]))
    candidates = pool[
        np.unique(np.linspace(0, pool.size - 1, CANDIDATES).round().astype(int))
    ]
    hits, false_hits = (
        (sample[:, None] > candidates).sum(axis=0) for sample in (scores, others)
    )
    promised = delta_lower(
        np.floor(hits / scores.size * trials),
        np.ceil((false_hits + 0.5) / (others.size + 1) * trials),
        trials,
        epsilon,
        level,
    )
    if not np.any(
        promised > 0
    ):  # nothing promises anything yet: the plain difference still says where to look
        promised = hits - np.exp(min(epsilon, 700.0)) * false_hits
    return float(candidates[int(np.argmax(promised))])


def _default_classifier(columns: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    if columns <= QUADRATIC_UP_TO:
        degree = 2
    else:
        degree = 1
    features = PolynomialFeatures(degree, include_bias=False)
    return make_pipeline(
        StandardScaler(), features, StandardScaler(), LogisticRegression(max_iter=1000)
    )


def _decision(classifier: Any, outputs: Floats) -> Floats:
    if hasattr(classifier, "decision_function"):
        return np.asarray(classifier.decision_function(outputs), dtype=np.float64)
    return np.asarray(classifier.predict_proba(outputs)[:, 1], dtype=np.float64)


def _scores(name: str, values: Any) -> Floats:
    scores = np.asarray(values, dtype=np.float64).reshape(-1)
    if np.any(np.isnan(scores)):
        raise NotFiniteError(
            f"'{name}' must not hold NaN; an output that cannot occur on one input scores +-inf"
        )
    return scores


def _outputs(name: str, values: Any) -> Floats:
    outputs = np.asarray(values, dtype=np.float64)
    if outputs.ndim == 1:
        outputs = outputs[:, None]
    if outputs.ndim < 2:
        raise ShapeError(
            f"'{name}' must hold one output per row. Got shape {outputs.shape}."
        )
    return outputs.reshape(len(outputs), -1)
