"""Figures from private data for the owner alone: how far a release is from its table, and an audit on the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.accounting.diagnostics import MARK
from gaussveil.errors import ParameterError
from gaussveil.studio.offers.offer import names
from gaussveil.studio.offers.tables import open_source, read_plain


def diagnose(**asked: Any) -> dict[str, Any]:
    """Compute what was asked for; nothing of it is kept."""
    facts = _audit(asked) if "variance" in asked else _compare(asked)
    return {"warning": MARK, "facts": [list(fact) for fact in facts]}


def _audit(asked: dict[str, Any]) -> list[tuple[str, str]]:
    from gaussveil.audit import NoisySum, audit

    rows = read_plain(asked["address"]).values
    found = audit(NoisySum(covariance=asked["variance"]), rows, claim=(asked["epsilon"], asked["delta"]))
    worst = found.findings[0]
    return [
        ("Verdict", found.verdict),
        ("Neighbours", f"{len(found.log_delta)}, one for every row left out"),
        ("Above the claim", str(found["above_the_claim"])),
        ("Worst row", f"number {worst.neighbour + 1}: delta in [{worst.lower!r}, {worst.upper!r}]"),
    ]


def _compare(asked: dict[str, Any]) -> list[tuple[str, str]]:
    order, file = asked["order"], Path(asked["file"])
    if order["mechanism"] == "vector":
        from gaussveil.report.number_files import read_numbers

        error = read_numbers(file).values - read_plain(asked["address"]).values
        return [
            ("Root mean square error", f"{float(np.sqrt(np.mean(error**2))):.6g}"),
            ("Largest error", f"{float(np.max(np.abs(error))):.6g}"),
        ]
    if order["mechanism"] == "mixture" and order["label"]:
        from gaussveil.mechanisms import MixtureModel
        from gaussveil.mechanisms.mixture.diagnostics import diagnose as compare
        from gaussveil.mechanisms.mixture.records import read_records

        model, columns = MixtureModel.read(file), names(order["columns"])
        records = read_records(open_source(asked["address"]), order["label"], classes=model.classes, columns=columns)
        found = compare(model, *records.in_memory(), None)
        return [(name.replace("_", " "), _words(found[name])) for name in found]
    raise ParameterError("only vectors and mixtures with labels can be compared with their tables here")


def _words(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
