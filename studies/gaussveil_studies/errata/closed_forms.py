"""Closed forms in ball arithmetic, as evidence."""

from __future__ import annotations

from flint import arb

from gaussveil_studies.errata.records import Evidence, Relation


def closed(
    stated: float, value: arb, law: str, relation: Relation = "at most"
) -> Evidence:
    """A closed form, its ball rounded outwards."""
    return Evidence(stated, float(value.lower()), float(value.upper()), law, relation)


def normal_below(x: arb | float) -> arb:
    """The normal distribution function."""
    return (-arb(x) / arb(2).sqrt()).erfc() / 2
