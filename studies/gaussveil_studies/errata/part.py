"""The records of one paper as a part of its study: every counterexample evaluated, every verdict checked against it."""

from __future__ import annotations

from functools import partial

from gaussveil.typing import Progress
from gaussveil_studies.errata.records import Evidence, records
from gaussveil_studies.study import Claim, Options, Paper, Part, Row, Step, Table, shown

WORDS = {"at most": "at most ", "at least": "at least ", "equal": ""}


def errata_step(document: str) -> Step:
    """The step of a study that evaluates a paper's records."""
    return Step("errata", "claims on what is released", partial(_part, document))


def _part(document: str, options: Options, progress: Progress) -> Part:
    own = [
        record
        for record in records().values()
        if record.document == document and record.evidence
    ]
    paper = Paper(document)
    claims: list[Claim] = []
    rows: list[Row] = []
    for place, record in enumerate(own):
        progress(record.claim, place / len(own))
        found = record.find()
        claims.append(
            paper.judged(
                record.key,
                value(found),
                printed=f"{WORDS[found.relation]}{shown(found.stated)}",
                borne_out=found.bears_out(record.verdict),
            )
        )
        rows.append(
            {
                "mark": record.mark,
                "where": record.where,
                "stated": f"{WORDS[found.relation]}{shown(found.stated)}",
                "lower": found.lower,
                "upper": found.upper,
                "verdict": claims[-1].verdict.value,
            }
        )
    columns = "where; mark; stated; lower: enclosed from; upper: to; verdict"
    return Part(
        "Claims, each on exactly what the paper releases",
        (
            "An upper end of 1 where the lower end decides. Documentation: corrections, one paragraph per claim.",
        ),
        (Table.of("enclosed", rows, columns),),
        (),
        tuple(claims),
    )


def value(found: Evidence) -> str:
    """The enclosure for people: one figure where its ends agree to three digits, its deciding end otherwise."""
    if shown(found.lower) == shown(found.upper):
        return shown(found.lower)
    if found.upper - found.lower < 0.02 * abs(found.lower):
        return shown((found.lower + found.upper) / 2)
    if found.fails:
        return f"at least {shown(found.lower)}"
    return f"at most {shown(found.upper)}"
