"""A stream's design as plain values, and what its certificate says: both guarantees, and what repeats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from gaussveil.accounting import Adjacency, Certificate, CertificateDraft, Guarantee
from gaussveil.errors import FormatError
from gaussveil.mechanisms.stream_design import Promise, RegisterDesign, StreamDesign
from gaussveil.mechanisms.stream_noise import StreamFilter


def design_to_dict(design: StreamDesign) -> dict[str, Any]:
    """Give plain JSON values; floats survive exactly."""
    plain = {name: getattr(design, name) for name in _SIMPLE}
    return {
        **plain,
        "limits": list(design.limits),
        "promise": asdict(design.promise),
        "filter": design.filter.to_dict(),
        "registers": [asdict(register) for register in design.registers],
    }


def design_from_dict(record: Mapping[str, Any]) -> StreamDesign:
    """Inverse of `design_to_dict`."""
    try:
        return StreamDesign(
            **{name: record[name] for name in _SIMPLE},
            limits=(float(record["limits"][0]), float(record["limits"][1])),
            promise=Promise(**record["promise"]),
            filter=StreamFilter.from_dict(record["filter"]),
            registers=tuple(RegisterDesign(**register) for register in record["registers"]),
        )
    except (TypeError, KeyError, ValueError) as error:
        raise FormatError("not the design of a meter stream of this version") from error


def stream_draft(
    design: StreamDesign, spectrum: Certificate | None, guarantee: Guarantee, events: int
) -> CertificateDraft:
    """What the certificate says of a stream: the trajectory's guarantee, the spectrum's, and their composition."""
    promise = design.promise
    if promise.is_event:
        adjacency = Adjacency.event(promise.samples, promise.size, "meter's stream")
    else:
        adjacency = Adjacency.l2_ball(promise.l2_ball, space="trajectory", unit="meter's stream")
    total = math.hypot(design.mean_shift, design.spectrum_mean_shift)
    return CertificateDraft(
        released=f"stream of readings, purpose {design.purpose}, every {design.sample_period * 60:g} minutes",
        mechanism="meter stream",
        adjacency=adjacency,
        epsilon=design.epsilon,
        delta=design.delta,
        guarantee=guarantee,
        assumptions=(
            "one event: a habit repeated on several days is several events (see repeated_events)"
            if promise.is_event
            else "any change of the whole stream within the ball, once",
            f"at most {design.sample_limit} readings are pushed, none of them twice",
            "time stamps, and which readings are missing, are public; readings are clipped to the limits",
            "the filters are functions of public numbers and of released spectra only",
        ),
        parameters={
            "purpose": design.purpose,
            "trajectory": {"mean_shift": design.mean_shift, "epsilon": design.epsilon, "delta": design.delta,
                           "event_kw": promise.size, "event_samples": promise.samples, "l2_ball": promise.l2_ball},
            "spectrum": _spectral(spectrum),
            "together": {**_figure(design, total), "when": "history and stream concern the same protected data"},
            "repeated_events": {"events": events, **_repeated(design, events),
                                "spacing": "one a day" if promise.is_event else "each anywhere in the ball"},
            "sample_limit": design.sample_limit,
            "sample_period_hours": design.sample_period,
            "noise_sd": design.noise_sd,
            "grid": design.filter.grid,
            "filter": _plain(design.filter.to_dict()),
            "registers": [asdict(register) for register in design.registers],
            "limits": list(design.limits),
            "substitute": design.substitute,
        },
    )  # fmt: skip


def _spectral(spectrum: Certificate | None) -> object:
    if spectrum is None:
        return "no spectrum was released; a long stream tells the spectrum of its readings, which is not protected"
    return {
        "epsilon": spectrum.epsilon, "delta": spectrum.delta, "l2_ball": spectrum.parameters["l2_ball"],
        "release_id": spectrum.release_id,
        "covers": "the private spectrum that shaped the filters; the stream is covered by the trajectory's promise",
    }  # fmt: skip


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in record.items()}


@lru_cache(maxsize=64)
def _repeated(design: StreamDesign, events: int) -> dict[str, float]:
    return _figure(design, design.repeated_shift(events))


def _figure(design: StreamDesign, shift: float) -> dict[str, float]:
    epsilon, delta = design.promise_of(shift)
    return {"mean_shift": shift, "epsilon": epsilon, "delta": delta}


_SIMPLE = (
    "purpose", "sample_period", "epsilon", "delta", "mean_shift", "sampler_error", "sample_limit", "substitute",
    "spectrum_mean_shift",
)  # fmt: skip
