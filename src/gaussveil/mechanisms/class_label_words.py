"""What is said of a query that class-label noise hides: assumptions, adjacency and public parameters."""

from __future__ import annotations

from gaussveil.accounting import Adjacency
from gaussveil.mechanisms.class_label_plan import ClassLabelPlan


def _of_the_draw(constant: bool, draw: str | None) -> tuple[str, ...]:
    """What is assumed of random queries."""
    if constant:
        return ()
    if draw is None:
        return (
            "the draw of the random query is not named: the noise alone is counted, however often it is released",
        )
    return (
        f"the random query comes from the draw {draw!r}, whose spread protects it once: the ledger pays for one "
        "release of that name, and nothing else is released of it",
    )


def assumptions_of(
    plan: ClassLabelPlan, public_models: bool, draw: str | None
) -> tuple[str, ...]:
    """What the guarantee rests on."""
    if plan.models.constant:
        models = "constant queries"
    else:
        models = "means and covariances of the queries"
    if public_models:
        known = "public"
    else:
        known = "assumed public, though they may come from private records, which this guarantee does not cover"
    assumptions = [
        f"the labels, their graph and their models ({models}) are {known}",
        "that the query fits its label's model and is below 2^52 grids is public knowledge",
        *_of_the_draw(plan.models.constant, draw),
    ]
    if plan.swap:
        assumptions.append(
            "every label is released exactly once and the rows carry no label"
        )
    return tuple(assumptions)


def neighbours_of(plan: ClassLabelPlan, carrier: str) -> Adjacency:
    """Which labels, of what carries them, must look alike."""
    edges = [(plan.labels[first], plan.labels[second]) for first, second in plan.edges]
    if plan.swap:
        carrier = f"pair of {carrier}s that change places"
    return Adjacency.label_graph(edges, carrier)


def parameters_of(plan: ClassLabelPlan, kind: str) -> dict[str, object]:
    """Everything public about the noise, all labels' own included."""
    return {
        "labels": len(plan.labels),
        "dimension": plan.shifts.shape[1],
        "accuracy": plan.accuracy,
        "retained_variance": plan.retained_variance,
        "pdp_delta": plan.pdp_delta_told,
        "kind": kind,
        "duality_gap": plan.duality_gap,
        "grid": plan.grid,
        "noise_means": plan.shifts.tolist(),
        "noise_covariances": plan.noise_covariances.tolist(),
    }
