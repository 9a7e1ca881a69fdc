"""Pairs, claims and certificates that somebody sends: read from a file, decided below, told in plain words."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.accounting import Certificate
from gaussveil.accounting.certificates.keys import load_private_key
from gaussveil.accounting.certificates.verification import verify_files
from gaussveil.audit.binomial import Claim
from gaussveil.files import PRIVATE, write_whole
from gaussveil.report.number_files import encode_columns
from gaussveil.report.pair_files import read_pair
from gaussveil.report.released import readings, unpacked
from gaussveil_studio.curves import PairState, curve, enclosure, summary
from gaussveil_studio.plain_words import explained
from gaussveil_studio.sliders import coordinates

ZIP_MARK = b"PK\x03\x04"
NOT_CHECKED = "{}: what their sender says they are"


def curve_of_file(path: str, times: int, points: int) -> dict[str, Any]:
    """The curve of a pair in a file, and the sliders that stand for it."""
    pair = read_pair(Path(path))
    loss = pair if times == 1 else pair**times
    return {"pair": coordinates(pair), "curve": curve(loss, points), "summary": summary(loss, 1e-6, 61)}


def enclose(pair: dict[str, Any], epsilon: float) -> dict[str, Any]:
    """Rigorous ends of delta of a pair given by sliders."""
    return enclosure(PairState.model_validate(pair).loss(), epsilon)


def report_page(path: str) -> dict[str, Any]:
    """A page about a certificate, to keep or to print."""
    from gaussveil.report.certificate import certificate_report
    from gaussveil.report.html import render

    return {"page": render(certificate_report(Certificate.read(path)))}


def sampled(path: str, rows: int) -> dict[str, Any]:
    """Rows drawn from a released mixture, as CSV: free, as often as anybody likes."""
    from gaussveil.mechanisms import MixtureModel

    model = MixtureModel.read(path)
    drawn, which = model.sample(rows)
    columns = {**dict(zip(model.columns, drawn.T)), model.label: np.array([str(model.classes[k]) for k in which])}
    return {"page": encode_columns(columns, ".csv").decode()}


def sign(path: str, key: str) -> dict[str, Any]:
    """Sign a certificate in place with the owner's key, and recompute it."""
    signed = Certificate.read(path).signed(load_private_key(key))
    write_whole(path, signed.to_json(), PRIVATE)
    return verify_certificate(path)


def package(folder: str, out: str, python: str, command: str) -> dict[str, Any]:
    """Everything of a release in one file: the value, the certificate, a page, a script and a command."""
    place = Path(folder)
    done = json.loads((place / "done.json").read_text(encoding="utf-8"))
    value = place / done["file"]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as parcel:
        parcel.write(value, value.name)
        parcel.write(place / "certificate.json", "certificate.json")
        parcel.writestr("report.html", report_page(str(place / "certificate.json"))["page"])
        parcel.writestr("again.py", python + "\n")
        if command:
            parcel.writestr("again.txt", command + "\n")
        if value.suffix in (".csv", ".parquet"):
            other = ".parquet" if value.suffix == ".csv" else ".csv"
            columns = {name: column.to_numpy() for name, column in _released(value).items()}
            parcel.writestr(f"{value.stem}{other}", encode_columns(columns, other))
    return {}


def _released(file: Path) -> dict[str, Any]:
    import pyarrow.csv
    import pyarrow.parquet

    table = (pyarrow.csv.read_csv if file.suffix == ".csv" else pyarrow.parquet.read_table)(file)
    return dict(zip(table.column_names, table.columns))


def verify_certificate(path: str) -> dict[str, Any]:
    """Recompute everything that a certificate says; of a package, hold every table inside against it."""
    with open(path, "rb") as file:
        packed = file.read(len(ZIP_MARK)) == ZIP_MARK
    others: list[str] = []
    if packed:
        body, inside, others = unpacked(Path(path))
        read = Certificate.from_json(body)
        found = verify_files(read, None, {name: readings(name, content) for name, content in inside.items()})
    else:
        read = Certificate.read(path)
        found = verify_files(read, None, {})
    words = {"refuted": "does not verify", "not decided": "not decided"}
    verdict = words.get(found.outcome, "verified" if found.private else "verified, but it promises nothing")
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
        "problems": list(found.problems),
        "explained": explained(read) + ([["Not checked", NOT_CHECKED.format(", ".join(others))]] if others else []),
        "certificate": read.to_dict(),
    }


def check_claim(path: str, times: int, epsilon: float, delta: float) -> dict[str, Any]:
    """Whether a pair keeps a claimed (epsilon, delta): the upper end certifies, the lower end refutes."""
    claim = Claim.of((epsilon, delta))
    pair = read_pair(Path(path))
    loss = pair if times == 1 else pair**times
    ends = enclosure(loss, claim.epsilon)
    verdict = "holds" if claim.covers(ends["upper"]) else "refuted" if ends["lower"] > claim.delta else "undecided"
    return {
        "verdict": verdict,
        "claim": {"epsilon": claim.epsilon, "delta": claim.delta},
        "times": times,
        "ends": ends,
        "curve": curve(loss, 81),
    }
