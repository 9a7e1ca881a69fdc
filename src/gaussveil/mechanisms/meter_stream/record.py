"""A stream's design as plain values, and what its certificate says: both guarantees, and what repeats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from gaussveil.accounting import Adjacency, Certificate
from gaussveil.accounting.canonical import decoded, fields, within_limits
from gaussveil.errors import FormatError, ParameterError
from gaussveil.mechanisms.meter_stream.design import StreamDesign
from gaussveil.mechanisms.meter_stream.register_design import REGISTER_HOURS
from gaussveil.mechanisms.meter_stream.request import HiddenChange
from gaussveil.mechanisms.release_path import Plan

LARGEST_COUNT = 2**62


def design_to_dict(design: StreamDesign) -> dict[str, Any]:
    """Give plain JSON values; floats survive exactly."""
    plain = asdict(design)
    return {"promise": plain.pop("hidden"), **plain}


def design_from_dict(record: object) -> StreamDesign:
    """Inverse of `design_to_dict`; the record may come from a stranger, so every field is checked."""
    what = "the design of a meter stream"
    plain = fields(within_limits(record, what), what, ("promise",))
    try:
        design: StreamDesign = decoded(
            StreamDesign, {**plain, "hidden": plain["promise"]}, what
        )
    except ParameterError as error:
        raise FormatError(
            f"not the design of a meter stream of this version: {error}"
        ) from error
    counts = (design.sample_limit, *design.windows)
    if (
        not all(1 <= count <= LARGEST_COUNT for count in counts)
        or not 0 <= design.hidden.samples <= LARGEST_COUNT
    ):
        raise FormatError(f"{what} must count readings from 1 to {LARGEST_COUNT}")
    if len(design.registers) > len(REGISTER_HOURS) or not all(
        one.noise_sd > 0 for one in design.registers
    ):
        raise FormatError(
            f"{what} must have at most {len(REGISTER_HOURS)} registers, each with positive noise"
        )
    return design


def check_paid(
    design: StreamDesign, certificate: Certificate, mechanism: str = "meter stream"
) -> None:
    """Refuse a design that is not the one the certificate was written for."""
    stated = certificate.parameters
    trajectory = stated.get("trajectory")
    same = (
        isinstance(trajectory, Mapping)
        and _hidden(design).items() <= {**trajectory}.items()
    )
    written = {"purpose": design.purpose, **_public(design)}
    if (
        not same
        or certificate.mechanism != mechanism
        or any(stated.get(name) != written[name] for name in written)
    ):
        raise FormatError("the design is not the one that its certificate covers")


def _hidden(design: StreamDesign) -> dict[str, float]:
    hidden = design.hidden
    return {
        "mean_shift": design.mean_shift,
        "event_kw": hidden.size,
        "event_samples": hidden.samples,
        "l2_ball": hidden.l2_ball,
    }


def _public(design: StreamDesign) -> dict[str, object]:
    return {
        "sample_limit": design.sample_limit,
        "sample_period_hours": design.sample_period,
        "filter": _plain(asdict(design.filter)),
        "registers": [asdict(register) for register in design.registers],
        "limits": list(design.limits),
        "substitute": design.substitute,
    }


def adjacency_of(hidden: HiddenChange) -> Adjacency:
    """Which two streams must look alike."""
    if hidden.is_event:
        return Adjacency.event(hidden.samples, hidden.size, "meter's stream")
    return Adjacency.l2_ball(hidden.l2_ball, space="trajectory", unit="meter's stream")


def stream_plan(
    design: StreamDesign, spectrum: Certificate | None, events: int, readings: str
) -> Plan:
    """What the certificate says of a stream: the trajectory's guarantee, the spectrum's, and their composition."""
    hidden = design.hidden
    total = math.hypot(design.mean_shift, design.spectrum_mean_shift)
    if design.readings:
        what = readings
    else:
        what = "energies"
    return Plan(
        charge=design.charge,
        released=f"stream of {what}, purpose {design.purpose}, every {design.sample_period * 60:g} minutes",
        adjacency=adjacency_of(hidden),
        built_from=() if spectrum is None else (spectrum,),
        assumptions=(
            "one event: a habit repeated on several days is several events (see repeated_events)"
            if hidden.is_event
            else "any change of the whole stream within the ball, once",
            f"at most {design.sample_limit} readings are pushed, none of them twice",
            "time stamps, and which readings are missing, are public; readings are clipped to the limits",
            "the filters are functions of public numbers and of released spectra only",
        ),
        parameters={
            "purpose": design.purpose,
            "trajectory": {
                "epsilon": design.epsilon,
                "delta": design.delta,
                **_hidden(design),
            },
            "spectrum": _spectral(spectrum),
            "together": {
                **_figure(design, total),
                "when": "history and stream concern the same protected data",
            },
            "repeated_events": {
                "events": events,
                **_repeated(design, events),
                "spacing": "one a day"
                if hidden.is_event
                else "each anywhere in the ball",
            },
            "noise_sd": design.noise_sd if design.readings else None,
            "grid": design.filter.grid,
            **_public(design),
        },
    )


def _spectral(spectrum: Certificate | None) -> object:
    if spectrum is None:
        return "no spectrum was released; a long stream tells the spectrum of its readings, which is not protected"
    return {
        "epsilon": spectrum.epsilon,
        "delta": spectrum.delta,
        "l2_ball": spectrum.parameters["l2_ball"],
        "release_id": spectrum.release_id,
        "covers": "the private spectrum that shaped the filters; the stream is covered by the trajectory's promise",
    }


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in record.items()
    }


@lru_cache(maxsize=64)
def _repeated(design: StreamDesign, events: int) -> dict[str, float]:
    return _figure(design, design.repeated_shift(events))


def _figure(design: StreamDesign, shift: float) -> dict[str, float]:
    epsilon, delta = design.promise_of(shift)
    return {"mean_shift": shift, "epsilon": epsilon, "delta": delta}
