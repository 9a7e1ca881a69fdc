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
from gaussveil.mechanisms.meter_stream.record import (
    check_paid,
    design_from_dict,
    design_to_dict,
)

FORMAT = "gaussveil meters"
VERSIONS = (1, 2)  # in the second, a meter may say which earlier one it is like
LARGEST_FILE = 1 << 28  # some 50,000 meters
FORBIDDEN = re.compile(
    "[/+#\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff]"
)  # of topics; no text


@dataclass(frozen=True)
class Meter:
    """One meter: its name in topics, its design, and the certificate of the debit that paid for it."""

    name: str
    design: StreamDesign
    certificate: Certificate

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.design.readings:
            raise ParameterError(
                "a gateway's meters must release readings. Got registers alone: use MeterStream."
            )


def check_name(name: str) -> None:
    """Refuse a name that topics or lines could not carry."""
    if not name or FORBIDDEN.search(name) or len(name) > 200:
        raise ParameterError(
            "a meter's name must be 1 to 200 characters without '/', '+', '#' and control characters. "
            f"Got one of {len(name)} characters."
        )


def write_meters(meters: Sequence[Meter], path: str | os.PathLike[str]) -> Path:
    """Write the file at once: it is complete or absent. Meters of one design and promise share one record of it."""
    last: dict[str, int] = {}  # the last meter written whole, by design
    lines = []
    for number, meter in enumerate(meters):
        design = design_to_dict(meter.design)
        own = meter.certificate.own()
        like = last.setdefault(json.dumps(design), number)
        if like < number and meters[like].certificate.another(own) == meter.certificate:
            record = {"name": meter.name, "like": like, "own": own}
        else:
            last[json.dumps(design)] = number
            record = {
                "name": meter.name,
                "design": design,
                "certificate": meter.certificate.to_dict(),
            }
        lines.append(json.dumps(record, allow_nan=False))
    joined = ",\n".join(lines)
    head = json.dumps({"format": FORMAT, "version": VERSIONS[-1]})
    return write_whole(path, f'{head[:-1]}, "meters": [\n{joined}\n]}}\n')


def read_meters(path: str | os.PathLike[str]) -> tuple[Meter, ...]:
    """Inverse of `write_meters`; the file may be anybody's: size, depth, numbers and every field are checked."""
    what = f"the file of meters {path}"
    content = parse_json(_text_of(Path(path), what), what, check=False)
    within_limits(
        {**content, "meters": None} if isinstance(content, dict) else content, what
    )  # meters one by one below
    record = fields(content, what, ("format", "version", "meters"))
    listed = record["meters"]
    if (
        record["format"] != FORMAT
        or record["version"] not in VERSIONS
        or not isinstance(listed, list)
    ):
        raise FormatError(
            f"{path} is not a file of meters of version {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    meters: list[Meter] = []
    for number, item in enumerate(listed):
        meters.append(_meter(item, f"meter {number} of {path}", meters))
    if not meters or len({meter.name for meter in meters}) != len(meters):
        raise FormatError(f"{what} must hold at least one meter, each name once")
    return tuple(meters)


def _text_of(path: Path, what: str) -> str:
    """The text of a file that is not too large."""
    try:
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise FormatError(
                f"{what} must not be larger than {LARGEST_FILE} bytes. Got {size}. Serve them in parts."
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(
            f"{what} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _meter(item: object, what: str, earlier: Sequence[Meter]) -> Meter:
    stated = fields(item, what, ("name",))
    try:
        name = text(stated, "name", what)
        within_limits(name, what)
        if "like" in stated:
            like = fields(stated, what, ("name", "like", "own"))["like"]
            if type(like) is not int or not 0 <= like < len(earlier) or len(stated) > 3:
                raise FormatError(
                    "'like' must be the number of an earlier meter, beside 'name' and 'own' alone"
                )
            return Meter(
                name,
                earlier[like].design,
                earlier[like].certificate.another(stated["own"]),
            )
        stated = fields(stated, what, ("design", "certificate"))
        meter = Meter(
            name,
            design_from_dict(stated["design"]),
            Certificate.from_dict(stated["certificate"]),
        )
        check_paid(meter.design, meter.certificate)
    except (FormatError, ParameterError, VerificationError) as error:
        raise FormatError(f"{what} is refused: {error}") from error
    return meter


def digest_of(meters: Sequence[Meter]) -> str:
    """What ties a state to its meters: their names, in order, and the debits that paid for them."""
    text = json.dumps([[meter.name, meter.certificate.release_id] for meter in meters])
    return hashlib.sha256(text.encode()).hexdigest()
