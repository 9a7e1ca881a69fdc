"""Pairs, claims and certificates that somebody sends: read from a file, decided below, told in plain words."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.accounting import Certificate, Verification
from gaussveil.accounting.certificates.cells import Sheet
from gaussveil.accounting.certificates.keys import load_private_key
from gaussveil.accounting.certificates.verification import verify_files
from gaussveil.audit.binomial import Claim
from gaussveil.errors import MissingDependencyError
from gaussveil.files import PRIVATE, write_whole
from gaussveil.report.number_files import encode_columns
from gaussveil.report.pair_files import read_pair
from gaussveil.report.released import readings, unpacked
from gaussveil_studio.curves import PairState, curve, enclosure, summary
from gaussveil_studio.handed_on import package as package
from gaussveil_studio.plain_words import explained
from gaussveil_studio.sliders import coordinates

ZIP_MARK = b"PK\x03\x04"
NOT_CHECKED = "{}: what their sender says they are"


def curve_of_file(path: str, times: int, points: int) -> dict[str, Any]:
    """The curve of a pair in a file, and the sliders that stand for it."""
    pair = read_pair(Path(path))
    if times == 1:
        loss = pair
    else:
        loss = pair**times
    return {
        "pair": coordinates(pair),
        "curve": curve(loss, points),
        "summary": summary(loss, 1e-6, 61),
    }


def enclose(pair: dict[str, Any], epsilon: float) -> dict[str, Any]:
    """Rigorous ends of delta of a pair given by sliders."""
    return enclosure(PairState.model_validate(pair).loss(), epsilon)


def sampled(path: str, rows: int) -> dict[str, Any]:
    """Rows drawn from a released mixture, as CSV: free, as often as anybody likes."""
    from gaussveil.mechanisms import MixtureModel

    model = MixtureModel.read(path)
    drawn, which = model.sample(rows)
    columns = {
        **dict(zip(model.columns, drawn.T)),
        model.label: np.array([str(model.classes[k]) for k in which]),
    }
    return {"page": encode_columns(columns, ".csv").decode()}


def sign(path: str, key: str) -> dict[str, Any]:
    """Sign a certificate in place with the owner's key, and recompute it."""
    signed = Certificate.read(path).signed(load_private_key(key))
    write_whole(path, signed.to_json(), PRIVATE)
    return verify_certificate(path)


def verify_release(folder: str) -> dict[str, Any]:
    """Recompute the certificate of a release and hold its numbers against it."""
    place = Path(folder)
    name = json.loads((place / "done.json").read_text(encoding="utf-8"))["file"]
    ways = readings(name, (place / name).read_bytes())
    read = Certificate.read(place / "certificate.json")
    return _verdict(
        read,
        verify_files(read, None, {name: ways} if ways else {}),
        [] if ways else [name],
    )


def verify_certificate(path: str) -> dict[str, Any]:
    """Recompute everything that a certificate says; of a package, hold every table inside against it."""
    with open(path, "rb") as file:
        packed = file.read(len(ZIP_MARK)) == ZIP_MARK
    if packed:
        body, inside, others = unpacked(Path(path))
        read = Certificate.from_json(body)
        tables = _readable(inside)
        return _verdict(
            read,
            verify_files(read, None, tables),
            [*others, *(inside.keys() - tables.keys())],
        )
    read = Certificate.read(path)
    return _verdict(read, verify_files(read, None, {}), [])


def _readable(inside: Mapping[str, bytes]) -> dict[str, list[Sheet]]:
    """The tables of a package; those that only a program that is not here could read are left out, and named."""
    tables = {}
    for name, content in inside.items():
        with contextlib.suppress(MissingDependencyError):
            tables[name] = readings(name, content)
    return tables


def _verdict(
    read: Certificate, found: Verification, others: list[str]
) -> dict[str, Any]:
    """What was found, in words."""
    words = {"refuted": "does not verify", "not decided": "not decided"}
    verdict = words.get(
        found.outcome,
        "verified" if found.private else "verified, but it promises nothing",
    )
    return {
        "checked": found.checked,
        "verdict": verdict,
        "verified": found.ok,
        "private": found.private,
        "epsilon": read.epsilon,
        "delta": read.delta,
        "delta_lower": found.delta_lower,
        "delta_upper": found.delta_upper,
        "proven": found.proven,
        "signature": found.signature,
        "rests_on": found.rests_on,
        "on_trust": found.on_trust,
        "problems": list(found.problems),
        "explained": explained(read)
        + ([["Not checked", NOT_CHECKED.format(", ".join(others))]] if others else []),
        "certificate": read.to_dict(),
    }


def check_claim(path: str, times: int, epsilon: float, delta: float) -> dict[str, Any]:
    """Whether a pair keeps a claimed (epsilon, delta): the upper end certifies, the lower end refutes."""
    claim = Claim.of((epsilon, delta))
    pair = read_pair(Path(path))
    if times == 1:
        loss = pair
    else:
        loss = pair**times
    ends = enclosure(loss, claim.epsilon)
    if claim.covers(ends["upper"]):
        verdict = "holds"
    elif ends["lower"] > claim.delta:
        verdict = "refuted"
    else:
        verdict = "undecided"
    return {
        "verdict": verdict,
        "claim": {"epsilon": claim.epsilon, "delta": claim.delta},
        "times": times,
        "ends": ends,
        "curve": curve(loss, 81),
    }
