"""The demo audits its own releases: exact deltas of the town's real neighbours, for the owner's eyes only."""

from __future__ import annotations

import numpy as np
from scipy.linalg import toeplitz

from gaussveil.accounting import Certificate
from gaussveil.audit import Audit, GaussianSketch, audit
from gaussveil.errors import NumericalError
from gaussveil.mechanisms import MeterStream, Sketch
from gaussveil.spectrum import PrivacyLoss
from gaussveil.typing import Floats


def audit_charge(certificate: Certificate) -> Audit:
    """The pair, or the pair of every edge, that the certificate rests on."""
    (part,) = certificate.charge.parts
    if not isinstance(part.source, PrivacyLoss):
        raise NumericalError(
            "only charges that are pairs of Gaussians can be audited exactly"
        )
    if part.count == 1:
        loss = part.source
    else:
        loss = part.source**part.count
    return audit(loss, claim=_claim(certificate))


def audit_sketch(certificate: Certificate, sketch: Sketch, rows: Floats) -> Audit:
    """Every home left out in turn: one row each, shortened as the mechanism shortens it."""
    release = GaussianSketch(n_components=sketch.components, ridge=sketch.ridge)
    return audit(release, shortened(rows, sketch.row_norm), claim=_claim(certificate))


def shortened(rows: Floats, row_norm: float) -> Floats:
    """Rows longer than the public norm, cut down to it."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, row_norm / np.maximum(length, 1e-300)))


def audit_stream(
    certificate: Certificate, stream: MeterStream, readings: Floats
) -> Audit:
    """At every time of the meter's own readings, the promised event taken out: as many kW as there are to take."""
    energy = event_energies(stream, readings)
    loss = PrivacyLoss.from_terms(np.zeros((energy.size, 1)), 1.0, energy[:, None])
    return audit(loss, claim=_claim(certificate))


def event_energies(stream: MeterStream, readings: Floats) -> Floats:
    """Squared mean shift of the stream with its registers, for the event at every start (docs: meter_stream, C).

    Stream: d' Q d with Q of the filters as they run. Registers: the squared part of d in each window over its variance.
    """
    design = stream.design_
    length = design.hidden.samples
    starts = np.arange(readings.size - length + 1)
    moved = np.minimum(
        readings[starts[:, None] + np.arange(length)], design.hidden.size
    )
    quadratic = toeplitz(design.filter.ratio_lags(length))
    total = np.einsum("ki,ij,kj->k", moved, quadratic, moved)
    for register in design.registers:
        window = (starts[:, None] + np.arange(length)) // register.samples
        for number in range(int(window.max()) + 1):
            inside = np.sum(np.where(window == number, moved, 0.0), axis=1)
            total += (inside / register.noise_sd) ** 2
    return np.asarray(total)


def _claim(certificate: Certificate) -> tuple[float, float]:
    return certificate.epsilon, certificate.delta
