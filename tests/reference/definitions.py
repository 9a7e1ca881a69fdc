"""Hockey-stick divergences of Gaussian pairs straight from the definition, in mpmath.

delta(eps) = P_X[L > eps] - e^eps P_Y[L > eps] with L = log p_X / p_Y, X_i ~ N(b_i, 1 - nu_i), Y_i ~ N(0, 1).
Each function evaluates those two probabilities for one kind of spectrum; nothing here integrates along a contour or
imports the package. Functions take exact numbers (doubles are taken as they are) and any real eps.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpmath import exp, factorial, gammainc, inf, log, mp, mpf, ncdf, quad, sqrt

Number = float | mpf


def mean_shift(shift: Number, eps: Number) -> mpf:
    """N(t,1) against N(0,1): the loss is Gaussian."""
    t, e = mpf(shift), mpf(eps)
    return ncdf(t / 2 - e / t) - exp(e) * ncdf(-t / 2 - e / t)


def one_dimension(nu: Number, b: Number, eps: Number) -> mpf:
    """The loss exceeds eps between (nu > 0) or outside (nu < 0) the two roots of a quadratic."""
    n, m, e = mpf(nu), mpf(b), mpf(eps)
    if n == 0:
        return mean_shift(abs(m), e) if m != 0 else max(mpf(0), 1 - exp(e))
    tau = 1 - n
    square = 2 * tau / n * (m * m / (2 * n) - log(tau) / 2 - e)  # L > eps  <=>  sign(nu) (y - b/nu)^2 < sign(nu) square
    if square <= 0:
        return mpf(0) if n > 0 else 1 - exp(e)
    low, high = m / n - sqrt(square), m / n + sqrt(square)

    def inside(mean: mpf, scale: mpf) -> mpf:
        left, right = (low - mean) / scale, (high - mean) / scale
        return ncdf(-left) - ncdf(-right) if left > 0 else ncdf(right) - ncdf(left)

    def outside(mean: mpf, scale: mpf) -> mpf:
        return ncdf((low - mean) / scale) + ncdf((mean - high) / scale)

    probability = inside if n > 0 else outside
    return probability(m, sqrt(tau)) - exp(e) * probability(mpf(0), mpf(1))


def equal_ratios(nu: Number, degrees: int, eps: Number, energy: Number = 0) -> mpf:
    """All nu equal: |y - b/nu|^2 is noncentral chi-squared under both laws, a Poisson mixture of incomplete gammas."""
    n, e, size = mpf(nu), mpf(eps), mpf(energy)
    tau = 1 - n
    square = 2 * tau / n * (size / (2 * n) - degrees * log(tau) / 2 - e)
    if square <= 0:
        return mpf(0) if n > 0 else 1 - exp(e)

    def probability(decentred: mpf, scale: mpf) -> mpf:
        total, rate, j = mpf(0), decentred / 2, 0
        while True:
            weight = exp(-rate) * rate**j / factorial(j) if rate else mpf(j == 0)
            half = mpf(degrees) / 2 + j
            if n > 0:
                value = gammainc(half, 0, square / (2 * scale), regularized=True)
            else:
                value = gammainc(half, square / (2 * scale), inf, regularized=True)
            total += weight * value
            if j > 3 * rate + 10 and (weight * value <= total * mpf(10) ** (-mp.dps - 5) or not rate):
                return total
            if not rate:
                return total
            j += 1

    return probability(size * (1 - 1 / n) ** 2 / tau, tau) - exp(e) * probability(size / n**2, mpf(1))


def paired(distinct: Sequence[Number], eps: Number) -> mpf:
    """Each nu occurs twice, no mean gap: L is a sum of exponentials of both signs; partial fractions."""
    gaps = [mpf(n) for n in distinct]
    e = mpf(eps)
    # L + sum log(1-nu) is -sum nu E under X and -sum nu/(1-nu) E under Y, with E independent mean-one exponentials.
    level = e + sum(log(1 - n) for n in gaps)

    def probability(weights: list[mpf]) -> mpf:
        def side(sign: int) -> mpf:
            total = mpf(0)
            for i, w in enumerate(weights):
                if sign * w > 0:
                    coefficient = mpf(1)
                    for j, v in enumerate(weights):
                        if j != i:
                            coefficient /= 1 - v / w
                    total += coefficient * exp(-level / w)
            return total

        return side(1) if level > 0 else 1 - side(-1)

    return probability([-n for n in gaps]) - exp(e) * probability([-n / (1 - n) for n in gaps])


def two_dimensions(nu: Sequence[Number], b: Sequence[Number], eps: Number) -> mpf:
    """Quadrature over the first coordinate of the one-dimensional divergence of the second at the loss that is left."""
    n, m, e = mpf(nu[0]), mpf(b[0]), mpf(eps)
    tau = 1 - n
    n2, m2 = mpf(nu[1]), mpf(b[1])

    def loss(y: mpf) -> mpf:
        return -log(tau) / 2 - (y - m) ** 2 / (2 * tau) + y * y / 2

    def integrand(y: mpf) -> mpf:
        rest = one_dimension(n2, m2, e - loss(y))
        return rest * exp(-((y - m) ** 2) / (2 * tau)) / sqrt(2 * mp.pi * tau)

    # The inner divergence is not smooth where the loss that is left crosses the edge of the second loss.
    points = {m}
    edge = e if n2 == 0 else e - (m2 * m2 / (2 * n2) - log(1 - n2) / 2)
    shift = edge + log(tau) / 2
    if n == 0:
        if m != 0:
            points.add((shift + m * m / 2) / m)
    else:
        square = 2 * tau / n * (m * m / (2 * n) - shift)
        if square > 0:
            points |= {m / n - sqrt(square), m / n + sqrt(square)}
    span = 14 * sqrt(tau) * max(1, 1 / sqrt(tau))
    points |= {p + k * w for p in list(points) for w in (sqrt(tau), mpf(1)) for k in (-4, -1, 1, 4)}
    points |= {min(points) - span, max(points) + span}
    return quad(integrand, [-inf, *sorted(points), inf])
