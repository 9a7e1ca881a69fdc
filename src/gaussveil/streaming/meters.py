"""The file of meters that a gateway serves: public designs and certificates, no state."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gaussveil.accounting import Certificate
from gaussveil.accounting.canonical import fields, parse_json, text, within_limits
from gaussveil.errors import FormatError, ParameterError, VerificationError
from gaussveil.files import write_whole
from gaussveil.mechanisms.meter_stream.design import StreamDesign
from gaussveil.mechanisms.meter_stream.record import check_paid, design_from_dict, design_to_dict

FORMAT = "gaussveil meters"
VERSION = 1
LARGEST_FILE = 1 << 28  # some 50,000 meters
FORBIDDEN = re.compile("[/+#\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")  # of topics; no text


@dataclass(frozen=True)
class Meter:
    """One meter: its name in topics, its design, and the certificate of the debit that paid for it."""

    name: str
    design: StreamDesign
    certificate: Certificate

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.design.readings:
            raise ParameterError("a gateway's meters must release readings. Got registers alone: use MeterStream.")


def check_name(name: str) -> None:
    """Refuse a name that topics or lines could not carry."""
    if not name or FORBIDDEN.search(name) or len(name) > 200:
        raise ParameterError(
            "a meter's name must be 1 to 200 characters without '/', '+', '#' and control characters. "
            f"Got one of {len(name)} characters."
        )


def write_meters(meters: Sequence[Meter], path: str | os.PathLike[str]) -> Path:
    """Write the file at once: it is complete or absent."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "meters": [
            {"name": m.name, "design": design_to_dict(m.design), "certificate": m.certificate.to_dict()} for m in meters
        ],
    }
    return write_whole(path, json.dumps(record, indent=1, allow_nan=False))


def read_meters(path: str | os.PathLike[str]) -> tuple[Meter, ...]:
    """Inverse of `write_meters`; the file may be anybody's: size, depth, numbers and every field are checked."""
    what = f"the file of meters {path}"
    try:
        if (size := Path(path).stat().st_size) > LARGEST_FILE:
            raise FormatError(f"{what} must not be larger than {LARGEST_FILE} bytes. Got {size}. Serve them in parts.")
        body = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{what} cannot be read: {type(error).__name__}: {error}") from error
    found = parse_json(body, what, check=False)
    within_limits({**found, "meters": None} if isinstance(found, dict) else found, what)  # meters one by one below
    record = fields(found, what, ("format", "version", "meters"))
    listed = record["meters"]
    if record["format"] != FORMAT or record["version"] != VERSION or not isinstance(listed, list):
        raise FormatError(f"{path} is not a file of meters of version {VERSION}")
    first: dict[str, Meter] = {}  # by design: a fleet has few, and certificates that differ in little
    meters = tuple(_meter(item, f"meter {number} of {path}", first) for number, item in enumerate(listed))
    if not meters or len({meter.name for meter in meters}) != len(meters):
        raise FormatError(f"{what} must hold at least one meter, each name once")
    return meters


def _meter(item: object, what: str, first: dict[str, Meter]) -> Meter:
    found = fields(item, what, ("name", "design", "certificate"))
    try:
        within_limits({**found, "design": None, "certificate": None}, what)  # which check themselves
        record = fields(found["certificate"], f"the certificate of {what}", ())
        alike = first.get(body := json.dumps(found["design"]))
        design = design_from_dict(found["design"]) if alike is None else alike.design
        certificate = Certificate.from_dict(record) if alike is None else alike.certificate.read_another(record)
        meter = Meter(text(found, "name", what), design, certificate)
        if alike is None or certificate.parameters is not alike.certificate.parameters:
            check_paid(meter.design, meter.certificate)
    except (FormatError, ParameterError, VerificationError) as error:
        raise FormatError(f"{what} is refused: {error}") from error
    return first.setdefault(body, meter) if alike is None else meter


def digest_of(meters: Sequence[Meter]) -> str:
    """What ties a state to its meters: their names, in order, and the debits that paid for them."""
    text = json.dumps([[meter.name, meter.certificate.release_id] for meter in meters])
    return hashlib.sha256(text.encode()).hexdigest()
