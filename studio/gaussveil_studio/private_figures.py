"""Figures from private data for the owner alone: how far a release is from its table, and an audit on the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussveil.accounting.diagnostics import MARK
from gaussveil.errors import ParameterError
from gaussveil_studio.offers import make_offer
from gaussveil_studio.offers.offer import Picture
from gaussveil_studio.offers.tables import read_plain

Fact = tuple[str, str]
MOST_PICTURES = 4


def diagnose(**asked: Any) -> dict[str, Any]:
    """Compute what was asked for; nothing of it is kept."""
    facts, pictures = (_audit(asked), []) if "variance" in asked else _compare(asked)
    shown = [one.to_dict() for one in pictures[:MOST_PICTURES]]
    return {"warning": MARK, "facts": [list(fact) for fact in facts], "pictures": shown}


def _audit(asked: dict[str, Any]) -> list[Fact]:
    from gaussveil.audit import GaussianSum, audit

    rows = read_plain(asked["address"]).values
    found = audit(
        GaussianSum(covariance=asked["variance"]),
        rows,
        claim=(asked["epsilon"], asked["delta"]),
    )
    worst = found.findings[0]
    return [
        ("Verdict", found.verdict),
        ("Neighbours", f"{len(found.log_delta)}, one for every row left out"),
        ("Above the claim", str(found["above_the_claim"])),
        (
            "Worst row",
            f"number {worst.neighbour + 1}: delta in [{worst.lower!r}, {worst.upper!r}]",
        ),
    ]


def _compare(asked: dict[str, Any]) -> tuple[list[Fact], list[Picture]]:
    """What was drawn of a release, beside the same with next to no noise, both within the public bounds."""
    released = asked["picture"]
    truth = (
        make_offer(asked["order"], asked["address"], "the table")
        .nearly_exact()
        .to_dict()
    )
    if released is None or any(
        one != other for one, other in zip(truth["x"], released["x"])
    ):
        raise ParameterError(
            "what was released and what is true now do not lie at the same places: the table changed"
        )
    # of two series, one beside the other
    if released["kind"] == "rows":
        kind = "points"
    else:
        kind = released["kind"]
    facts = []
    pictures = []
    error = []
    for place, ((name, values), (_, exact)) in enumerate(
        zip(released["series"], truth["series"])
    ):
        bands = [{**one, "of": 0} for one in released["bands"] if one["of"] == place]
        inside = [
            low <= v <= high
            for one in bands
            for low, v, high in zip(one["low"], exact, one["high"])
        ]
        facts += (
            [(f"{name}, inside the band", f"{sum(inside)} of {len(inside)}")]
            if inside
            else []
        )
        error += [one - other for one, other in zip(values, exact)]
        series = {"released": values, "with next to no noise": exact}
        pictures.append(
            Picture(
                name,
                released["x"],
                series,
                released["x_name"],
                released["y_name"],
                kind,
                bands=bands,
            )
        )
    size = np.abs(np.array(error))
    found = [
        ("Root mean square error", f"{float(np.sqrt(np.mean(size**2))):.6g}"),
        ("Largest", f"{size.max():.6g}"),
    ]
    return [*found, *facts], pictures
