"""Figures from private data for the owner alone: how far a release is from its table, and an audit on the table."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.accounting.diagnostics import MARK
from gaussveil.errors import ParameterError
from gaussveil.studio.offers.offer import Picture, band
from gaussveil.studio.offers.tables import open_source, read_plain

Fact = tuple[str, str]
MOST_PICTURES = 4


def diagnose(**asked: Any) -> dict[str, Any]:
    """Compute what was asked for; nothing of it is kept."""
    facts, pictures = (_audit(asked), []) if "variance" in asked else _compare(asked)
    shown = [one.to_dict() for one in pictures[:MOST_PICTURES]]
    return {"warning": MARK, "facts": [list(fact) for fact in facts], "pictures": shown}


def _audit(asked: dict[str, Any]) -> list[Fact]:
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


def _compare(asked: dict[str, Any]) -> tuple[list[Fact], list[Picture]]:
    order, file = asked["order"], Path(asked["file"])
    if order["mechanism"] == "vector":
        from gaussveil.report.number_files import read_numbers

        return _errors(read_numbers(file).values - read_plain(asked["address"]).values), []
    if order["mechanism"] == "table":
        return _beside_the_truth(order, asked["address"], file)
    if order["mechanism"] == "mixture" and order["label"]:
        return _mixture(order, asked["address"], file), []
    raise ParameterError("only answers from tables, vectors and mixtures with labels can be compared here")


def _errors(error: Any) -> list[Fact]:
    return [
        ("Root mean square error", f"{float(np.sqrt(np.mean(error**2))):.6g}"),
        ("Largest error", f"{float(np.max(np.abs(error))):.6g}"),
    ]


def _beside_the_truth(order: dict[str, Any], address: str, file: Path) -> tuple[list[Fact], list[Picture]]:
    """Released answers beside the same with next to no noise, both within the public bounds."""
    from gaussveil.studio.offers.table import TableOffer

    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    name = next(column.removesuffix("_sd") for column in rows[0] if column.endswith("_sd"))
    released, low, high = ([float(row[f"{name}{end}"]) for row in rows] for end in ("", "_low", "_high"))
    truth = TableOffer(order, address).almost_exact(name)
    inside = sum(bottom <= value <= top for bottom, value, top in zip(low, truth, high))
    keys = [next(iter(row.values())) for row in rows] if order["by"] != "nothing" else ["all"]
    facts = [*_errors(np.array(released) - np.array(truth)), ("Inside the band", f"{inside} of {len(truth)}")]
    series = {"released": released, "truth, within the bounds": truth}
    kind = "line" if len(keys) > 1 else "points"
    return facts, [Picture("Released and true", keys, series, order["by"], name, kind, bands=[band(low, high)])]


def _mixture(order: dict[str, Any], address: str, file: Path) -> list[Fact]:
    from gaussveil.mechanisms import MixtureModel
    from gaussveil.mechanisms.mixture.diagnostics import diagnose as compare
    from gaussveil.mechanisms.mixture.records import read_records

    model = MixtureModel.read(file)
    records = read_records(open_source(address), order["label"], classes=model.classes, columns=order["columns"])
    found = compare(model, *records.in_memory(), None)
    return [(name.replace("_", " "), f"{found[name]:.6g}") for name in found if isinstance(found[name], float)]
