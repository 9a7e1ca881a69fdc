"""The formulas of the contour integral, one number or one array of them at a time.

Every function here acts elementwise and calls nothing but the array namespace `xp` that it is given, so the same lines
serve whole batches (contour: NumPy, PyTorch, CuPy) and, translated into C (scripts/write_formulas.py), one pair after
another (native). Sums over terms and nodes, and the loops, are the callers'. Derivations: docs/math/spectrum.
"""

from __future__ import annotations

import math
from typing import Any

Number = Any  # a float or an array
Namespace = Any

DECAY = -36.7  # log of 2^-53: where a probe counts as decayed
GROWTH = 3.0  # log growth along the way that would cost digits by cancellation
RULE_ERROR = 2e-12  # relative error of a settled rule, tested against ball arithmetic
LARGE = -0.5  # log of peak times width beyond which 1 - delta is the better integral
STRETCH = 1.4  # contour scale in local widths, the best of those tried
HALF_RULE_TOLERANCE = (
    3e-9  # the full rule's error is about the square of the half rule's
)
LEVER_TOLERANCE = (
    3e-8  # the same for the sum weighted by u^2, whose errors have another phase
)
MOMENT_TOLERANCE = 1e-7  # for the one weighted by (s - centre) / width, whose errors far out are a quarter turn ahead
SPLIT = (
    134217729.0  # 2^27 + 1, Veltkamp's constant: halves of a double multiply exactly
)
EXPONENT_ROUNDING = 2.0**-50  # relative rounding error of the exponent's parts

# --- the cumulant function and its slopes: one term, real order


def cumulant_term(
    xp: Namespace,
    order: Number,
    gap: Number,
    log_ratio: Number,
    multiplicity: Number,
    energy: Number,
) -> Number:
    """What one term adds to K(order); +inf where K does not exist."""
    spread = 1 + order * gap
    exists = spread > 0
    log_spread = xp.log1p(xp.where(exists, order * gap, 0.0))
    mean_part = energy * order * (1 + order) / (2 * xp.where(exists, spread, 1.0))
    value = mean_part - 0.5 * multiplicity * (order * log_ratio + log_spread)
    return xp.where(exists, value, math.inf)


def slope_parts(
    order: Number, gap: Number, log_ratio: Number
) -> tuple[Number, Number, Number, Number]:
    """One term's parts of K' (to weigh by energy and multiplicity) and K'' (by multiplicity and energy times ratio)."""
    inverse = 1 / (1 + order * gap)
    square, lean = inverse * inverse, gap * inverse
    return (
        (1 + 2 * order + order * order * gap) * square,
        log_ratio + lean,
        lean * lean,
        inverse * square,
    )


def highest_order(xp: Namespace, lowest_gap: Number) -> Number:
    """Where K ends on the right, from the lowest variance gap."""
    return xp.where(
        lowest_gap < 0, -1 / xp.where(lowest_gap < 0, lowest_gap, -1.0), math.inf
    )


def lowest_order(xp: Namespace, highest_gap: Number) -> Number:
    """Where K ends on the left, from the highest variance gap."""
    return xp.where(
        highest_gap > 0, -1 / xp.where(highest_gap > 0, highest_gap, 1.0), -math.inf
    )


# --- the saddle: safeguarded Newton in a logit-like coordinate that maps the region onto the line


def first_coordinate(
    xp: Namespace,
    direction: float,
    threshold: Number,
    inverse_reach: Number,
    slope: Number,
    curvature: Number,
) -> Number:
    """Where to start, from the slopes of K at the region's base."""
    drift = direction * (slope - threshold)
    root = xp.hypot(drift, xp.sqrt(6 * curvature))
    ahead, behind = (
        3 / (xp.abs(drift) + root + 1e-300),
        (root + xp.abs(drift)) / (2 * curvature + 1e-300),
    )
    distance = xp.where(
        drift > 0, ahead, behind
    )  # one number, from the side on which nothing cancels
    distance = xp.minimum(distance, 0.9 / (inverse_reach + 1e-300))
    return -xp.log(xp.clip(1 / distance - inverse_reach, 1e-300, 1e300))


def crossing(
    xp: Namespace,
    base: float,
    direction: float,
    inverse_reach: Number,
    coordinate: Number,
) -> tuple[Number, Number, Number]:
    """The order at a coordinate, its distance from the base, and how fast the coordinate falls off there."""
    decay = xp.exp(-coordinate)
    distance = 1 / (inverse_reach + decay)
    return base + direction * distance, distance, decay


def forces(
    poles: tuple[float, ...], centre: Number, force: Number, stiffness: Number
) -> tuple[Number, Number]:
    """First and second derivative of log |integrand| on the real axis, from those without its poles."""
    for pole in poles:
        offset = 1 / (centre - pole)
        force, stiffness = force - offset, stiffness + offset * offset
    return force, stiffness


def newton_step(
    xp: Namespace,
    direction: float,
    inverse_reach: Number,
    distance: Number,
    decay: Number,
    force: Number,
    stiffness: Number,
    coordinate: Number,
    below: Number,
    above: Number,
) -> tuple[Number, Number, Number, Number]:
    """Whether the crossing is within a quarter of the local width, the next coordinate, and the bracket."""
    arrived = xp.abs(force) < 0.25 * xp.sqrt(stiffness)
    stride = direction * distance * distance * decay  # d centre / d coordinate
    balance = force * stride
    below, above = (
        xp.where(balance < 0, coordinate, below),
        xp.where(balance > 0, coordinate, above),
    )
    gradient = stiffness * stride * stride + balance * (
        1 - 2 * distance * inverse_reach
    )
    step = xp.where(
        gradient > 0, xp.clip(-balance / gradient, -4.0, 4.0), -4.0 * xp.sign(balance)
    )
    proposal = coordinate + step
    middle = (below + above) / 2
    outside = ((proposal <= below) | (proposal >= above)) & xp.isfinite(middle)
    return arrived, xp.where(outside, middle, proposal), below, above


# --- the integrand at s = centre + offset + i imag


def spread_at(gap: Number, centre: Number) -> Number:
    """1 + centre * gap without cancellation next to a branch point: the product is error-free."""
    product = gap * centre
    gap_high = gap * SPLIT - (gap * SPLIT - gap)
    centre_high = centre * SPLIT - (centre * SPLIT - centre)
    gap_low, centre_low = gap - gap_high, centre - centre_high
    error = (
        (gap_high * centre_high - product)
        + gap_high * centre_low
        + gap_low * centre_high
    ) + gap_low * centre_low
    return (1 + product) + error


def branch(
    gap: Number, base: Number, offset: Number, imag: Number
) -> tuple[Number, Number, Number]:
    """Real part, imaginary part and squared modulus of 1 + s g, where `base` is 1 + centre * g."""
    spread, along = base + offset * gap, imag * gap
    return spread, along, spread * spread + along * along


def log_square_near_one(
    xp: Namespace,
    real: Number,
    gap: Number,
    along: Number,
    modulus: Number,
    log_modulus: Number,
) -> Number:
    """log |1 + s g|^2 with all digits also where it is small, for terms that count thousands of times."""
    across = real * gap
    return xp.where(
        modulus < 0.25, log_modulus, xp.log1p(across * (2 + across) + along * along)
    )


def later_growth(
    xp: Namespace, gap: Number, log_ratio: Number, spread: Number, modulus: Number
) -> Number:
    """How much, per energy, log |integrand| may still grow straight up from s: terms behind their branch point only."""
    squared = xp.where(gap != 0, gap * gap, 1.0)
    return xp.where(
        spread < 0, -xp.exp(log_ratio) / (2 * squared) * spread / modulus, 0.0
    )


def log_size(
    real: Number,
    imag: Number,
    drift: Number,
    log_modulus: Number,
    mean_real: Number,
    mean_imag: Number,
) -> Number:
    """log |integrand| from sums over terms: multiplicity log |1+sg|^2, and energy (Re, Im) of (1+sg)/|1+sg|^2.

    A pole p is a factor s - p of multiplicity two.
    """
    mean_part = (real * (1 + real) - imag * imag) * mean_real + imag * (
        1 + 2 * real
    ) * mean_imag
    return 0.5 * mean_part - 0.25 * log_modulus - real * drift


def log_phase(
    real: Number,
    imag: Number,
    drift: Number,
    angle: Number,
    mean_real: Number,
    mean_imag: Number,
) -> Number:
    """The phase of the integrand; `angle` sums multiplicity times the angle of 1 + s g."""
    mean_part = (
        imag * (1 + 2 * real) * mean_real
        - (real * (1 + real) - imag * imag) * mean_imag
    )
    return 0.5 * mean_part - 0.5 * angle - imag * drift


# --- the contour s(u) = centre + width (i sinh u + bend (cosh u - 1)) and the trapezoid rule on it


def place(
    xp: Namespace, position: Number, bend: Number, width: Number
) -> tuple[Number, Number, Number, Number]:
    """sinh u, cosh u, and the node's offset and imaginary part."""
    grow = 0.5 * xp.exp(position)
    rise, swing = grow - 0.25 / grow, grow + 0.25 / grow
    return rise, swing, width * (bend * (swing - 1)), width * rise


def decayed(level: Number, growth: Number) -> Number:
    """Nothing of weight is left above such a probe, so the contour may end there, unless it grew on the way."""
    return level + growth < DECAY


def grown(level: Number) -> Number:
    """The contour met values so large, or so undefined, that digits would be lost."""
    return (level > GROWTH) | (level != level)


def shortened(xp: Namespace, extent: Number, depth: Number) -> Number:
    """A Gaussian saddle falls like sinh(u)^2: end the contour where such a fall reaches the wanted depth."""
    return xp.asinh(xp.sinh(extent) * xp.sqrt(xp.clip(DECAY / depth, 0.0, 1.0)))


def polar(xp: Namespace, log_relative: Number, phase: Number) -> tuple[Number, Number]:
    """Real and imaginary part of the integrand, relative to its size at the crossing."""
    size = xp.exp(log_relative)
    return size * xp.cos(phase), size * xp.sin(phase)


def node(
    bend: Number,
    rise: Number,
    swing: Number,
    real: Number,
    imag: Number,
    cosine: Number,
    sine: Number,
) -> tuple[Number, Number]:
    """Im of integrand times ds/du, and of s times that: its sum is the slope in the threshold."""
    tilt = bend * rise
    tilted = (cosine * real - sine * imag) * swing + (
        sine * real + cosine * imag
    ) * tilt
    return cosine * swing + sine * tilt, tilted


def exponent_rounding(
    xp: Namespace, threshold: Number, centre: Number, drift: Number, mean_sum: Number
) -> Number:
    """Rounding error of the exponent at the crossing, whose parts may be far larger than their sum.

    `drift` sums multiplicity |log ratio|, `mean_sum` energy / |1 + centre g|.
    """
    mean_part = 0.5 * xp.abs(centre * (1 + centre)) * mean_sum
    return EXPONENT_ROUNDING * (
        xp.abs(centre) * (0.5 * drift + xp.abs(threshold)) + mean_part
    )


def verdict(
    xp: Namespace,
    direction: float,
    fine: Number,
    coarse: Number,
    lever: Number,
    coarse_lever: Number,
    moment: Number,
    coarse_moment: Number,
    tail: Number,
    rounding: Number,
    peak: Number,
    centre: Number,
    width: Number,
    step: Number,
) -> tuple[Number, Number, Number]:
    """log |integral|, its slope and the error bound; the error is infinite where the rule has not settled.

    A half rule may be right by chance, where its error changes sign; the levers, sums weighted by u^2, are then wrong,
    or, if the error comes from far out, the sums weighted by s - centre (derived: docs/math/spectrum).
    """
    magnitude = xp.abs(fine)
    turned = moment - coarse_moment - centre * (fine - coarse)
    settled = (
        (xp.abs(fine - coarse) <= (HALF_RULE_TOLERANCE + 4 * rounding) * magnitude)
        & (
            xp.abs(lever - coarse_lever)
            <= (LEVER_TOLERANCE + 100 * rounding) * magnitude
        )
        & (xp.abs(turned) <= (MOMENT_TOLERANCE + 100 * rounding) * (width * magnitude))
        & (tail <= (1e-14 + rounding) * magnitude)
        & (xp.sign(fine) == direction)
    )
    log_value = peak + xp.log(
        xp.where(magnitude > 0, magnitude, 1.0) * (step * width) / math.pi
    )
    slope = -moment / xp.where(fine != 0, fine, 1.0)
    return log_value, slope, xp.where(settled, RULE_ERROR + rounding, math.inf)


# --- delta from either side


def looks_large(
    xp: Namespace, threshold: Number, centre: Number, width: Number, cumulant: Number
) -> Number:
    """Whether delta is so near one that 1 - delta is the better integral."""
    return (
        cumulant - centre * threshold + xp.log(width / (centre * (1 + centre))) > LARGE
    )


def from_complement(
    xp: Namespace, missing: Number, slope: Number, error: Number
) -> tuple[Number, Number, Number]:
    """log delta, its slope and error from log(1 - delta) and its own.

    Where that error leaves room for delta = 0, the value is the upper bound 0 and the error infinite.
    """
    highest = missing + error
    bounded = highest < 0
    steepest = xp.exp(highest) / -xp.expm1(
        xp.where(bounded, highest, -1.0)
    )  # d log delta grows with 1 - delta
    missing = xp.where(missing > 0, 0.0, missing)
    odds = xp.exp(missing) / -xp.expm1(missing)  # (1 - delta) / delta
    value = xp.where(bounded, xp.log1p(-xp.exp(missing)), 0.0)
    return value, -odds * slope, xp.where(bounded, steepest * error, math.inf)
