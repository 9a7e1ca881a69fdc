"""The paragraphs of docs/corrections.md, one per record; figures are marked places that `make numbers` fills."""

from __future__ import annotations

import re

from gaussveil_studies.errata.records import Record, records

STUDIES = {"NDIS": "ndis", "class-based": "class", "SpDP": "spectral", "GMM": "gmm"}


def section(document: str) -> str:
    """All records of a paper that have evidence: accusations first, then what was borne out."""
    own = [
        record
        for record in records().values()
        if record.document == document and record.evidence
    ]
    accused = [record for record in own if record.verdict != "reproduced"]
    lines = [_paragraph(record) for record in accused]
    borne_out = [
        f"- {record.where}. {record.claim}: {_figures(record)}. {_sentence(record.because)}\n"
        for record in own
        if record.verdict == "reproduced"
    ]
    if borne_out:
        lines += ["Borne out:\n", "".join(borne_out)]
    return "\n".join(lines)


def _paragraph(record: Record) -> str:
    if record.adjacency.startswith("none"):
        about = ""
    else:
        about = f" Neighbours: {record.adjacency}; released: {record.released}."
    return (
        f"**{record.mark}. {record.where}: {record.verdict}.** True first: {record.holds}\n"
        f"*Printed:* {record.says}{about}\n"
        f"*Found:* {record.claim}: {_figures(record)}. {_sentence(record.because)}\n"
        f"*Why:* {_linked(record.derivation)} (`{record.command}`)\n"
    )


def _figures(record: Record) -> str:
    key = f"{STUDIES[record.document]}.{record.key}"
    stated = f"<!-- number:{key}.printed -->?<!-- /number -->"
    return f"stated {stated}, enclosed <!-- number:{key} -->?<!-- /number -->"


def _linked(text: str) -> str:
    """Pages of these docs as links beside the page."""
    return re.sub(r"docs/([\w/]+)\.md", r"[\1](\1.md)", text)


def _sentence(text: str) -> str:
    """With a full stop, and a capital where it begins with a word."""
    if not text:
        return ""
    return f"{text[0].upper() if text[:2].isalpha() or text.startswith('a ') else text[0]}{text[1:]}."
