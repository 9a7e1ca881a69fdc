"""How far a promised event can move a stream, in noise deviations: the exact supremum, from the filters as they run.

The stream F x + c has noise of spectrum gamma; a difference d of two inputs moves it by D, D^2 = d' Q d at most, with Q
the Toeplitz matrix of q[m] = int |F|^2/gamma e^{jwm} dw/2pi (docs/corrections, S4). For an event of at most T samples,
|d_k| <= a, the supremum lies at a vertex of the box, so it is a maximum over signs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import toeplitz

from gaussveil.errors import NumericalError, ParameterError
from gaussveil.typing import Floats

Power = Callable[[Floats], Floats]

ENUMERATED = 12  # samples whose signs are all tried
SOLVED = 512  # samples up to which the dual bound is solved for; beyond, its limit for long events is within a per cent
FACTORS = 24
SWEEPS = 400


def largest_event(energy: Floats) -> float:
    """Upper bound, exact where it can be, of max s' Q s over signs s, Q = toeplitz(energy).

    Exact if all coefficients have one sign pattern (all positive, or alternating), and up to 12 samples by trying all
    signs; otherwise the dual bound min sum mu, diag mu >= Q, within a few per cent. Of long events its best mu is
    nearly constant: there the largest eigenvalue of a circulant matrix that contains Q is taken for all of it.
    """
    lags = np.asarray(energy, dtype=np.float64)
    if (
        lags.ndim != 1
        or lags.size < 1
        or not np.isfinite(lags).all()
        or not lags[0] > 0
    ):
        raise ParameterError(
            "energy must be a finite vector of Fourier coefficients whose first is positive"
        )
    size = lags.size
    absolute = float(
        lags[0] * size + 2 * np.sum((size - np.arange(1, size)) * np.abs(lags[1:]))
    )
    alternating = lags * (-1.0) ** np.arange(size)
    if (lags >= 0).all() or (alternating >= 0).all():
        return absolute
    if size <= ENUMERATED:
        return _by_signs(lags)
    if size <= SOLVED:
        return min(absolute, _dual_bound(toeplitz(lags)))
    # T times the largest eigenvalue of a circulant matrix with Q in a corner, rounding included.
    around = np.concatenate([lags, np.zeros(lags.size), lags[:0:-1]])
    return min(
        absolute, lags.size * float(np.fft.rfft(around).real.max()) + 1e-12 * absolute
    )


def _by_signs(lags: Floats) -> float:
    """All 2^(T-1) sign vectors at once; the first sign is free."""
    size = lags.size
    codes = np.arange(1 << (size - 1))
    signs = 1.0 - 2.0 * ((codes[:, None] >> np.arange(size)) & 1)
    return float(np.max(np.einsum("ij,ij->i", signs @ toeplitz(lags), signs)))


def _dual_bound(matrix: Floats) -> float:
    """sum mu + T * (what lacks to diag mu >= Q): valid for any mu, tight where unit vectors maximise sum q_ij v_i'v_j.

    The vectors are found by coordinate ascent (Wang and Kolter's mixing method), which needs no solver.
    """
    size = len(matrix)
    off = matrix - np.diag(np.diagonal(matrix))
    vectors = np.random.default_rng(7).standard_normal((size, min(FACTORS, size)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    before = -np.inf
    for _ in range(SWEEPS):
        for row in range(size):
            pull = off[row] @ vectors
            length = float(np.linalg.norm(pull))
            if length > 0:
                vectors[row] = pull / length
        value = float(np.einsum("ij,ij->", matrix @ vectors, vectors))
        if value - before <= 1e-9 * abs(value):
            break
        before = value
    dual = np.einsum("ij,ij->i", matrix @ vectors, vectors)
    lacking = float(np.linalg.eigvalsh(matrix - np.diag(dual))[-1])
    return (
        float(dual.sum())
        + size * max(lacking, 0.0)
        + 1e-12 * float(np.abs(matrix).sum())
    )


def repeated_events(energy: Floats, length: int, spacing: int, count: int) -> float:
    """Upper bound of d' Q d for `count` events of `length` samples (|d| <= 1) that start `spacing` samples apart.

    Exact where all coefficients are positive; needs (count - 1) * spacing + length of them.
    """
    reach = (count - 1) * spacing + length
    if energy.size < reach:
        raise ParameterError(
            f"energy must hold {reach} coefficients for so many events. Got {energy.size}."
        )
    size = np.abs(energy)
    inside = length - np.abs(np.arange(-length + 1, length))
    total = 0.0
    for apart in range(count):
        lag = np.abs(apart * spacing + np.arange(-length + 1, length))
        total += (
            (1 if apart == 0 else 2)
            * (count - apart)
            * float(np.sum(inside * size[lag]))
        )
    return total


def largest_ratio(
    signal: Power, noise: Power, degree: int, points: int = 1 << 17
) -> float:
    """Upper bound of sup |F|^2/gamma for trigonometric polynomials |F|^2 and gamma of at most the given degree.

    p = |F|^2 - r gamma is such a polynomial too. At its maximum p' = 0 and |p''| <= degree^2 max|p| (Bernstein), so the
    nearest of the grid's angles, at most h away, misses it by no more than degree^2 h^2 max|p| / 2. The margin on r
    makes up for that.
    """
    angles = np.linspace(0, np.pi, points + 1)
    above = signal(angles)
    below = noise(angles)
    ratio = float(np.max(above / below))
    half_step = np.pi / points / 2
    missed = (
        0.5
        * (degree * half_step) ** 2
        * (float(above.max()) + 2 * ratio * float(below.max()))
    )
    if ratio > 0:
        margin = 1.01 * missed / (ratio * float(below.min()))
    else:
        margin = 0.0
    if margin > 0.01:
        raise NumericalError(
            "the noise spectrum is too deep to bound its ratio: raise its floor"
        )
    return ratio * (1 + margin)
