"""The counterexamples of the papers on NDIS and on classes: each evaluates exactly what the paper releases.

Deltas of Gaussian pairs are enclosed by the library; all else is a closed form in ball arithmetic.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
from flint import arb

from gaussveil.calibration import random_projection
from gaussveil.mechanisms.gp_sensitivity import ProcessSensitivity
from gaussveil.mechanisms.logistic import LogisticSensitivity
from gaussveil.spectrum import GaussianPair
from gaussveil_studies.bounds import smaller_covariance_bound
from gaussveil_studies.errata.closed_forms import closed, normal_below
from gaussveil_studies.errata.records import Evidence
from gaussveil_studies.ndis.bounds import SPECTRUM, narrow_pair
from gaussveil_studies.ndis.refutations import posterior_pair
from gaussveil_studies.published.ndis_calibrated import (
    published_process_sensitivity,
    published_variance,
)
from gaussveil_studies.published.ptr import PublishedTestedSketch

DELTA = 1e-5


# --- NDIS


def lemma_3_step() -> Evidence:
    """N1: the proof of Lemma 3 takes g_d for nondecreasing in a. For d = 2 and a >= 0, g = e^(-a/t) t/(1+t)."""
    return closed(
        0.5,
        (-arb(0.5)).exp() / 2,
        "R^2 of two degrees of freedom, t = 1: g(1/2) against g(0)",
        "at least",
    )


def lemma_2_reverse() -> Evidence:
    """N2: Theorem 4.2 refers its terms N(m, S_max) against N(m, S_min) to Lemma 2, which bounds the reverse."""
    wide = narrow_pair().reversed()
    found = wide.enclose(0.5)
    stated = smaller_covariance_bound(SPECTRUM, 0.5)
    return Evidence(stated, float(found.lower), float(found.upper), wide, epsilon=0.5)


def figure_5() -> Evidence:
    """N2: one record at the queried point, l = 1, observation variance 1e-4, labels within 1e-6, (1, 1e-6)."""
    sensitivity = partial(
        published_process_sensitivity,
        kernel_deviation=1.0,
        label_bound=1e-6,
        observation_deviation=1e-2,
        count=1,
    )
    return Evidence.of_pair(
        posterior_pair(published_variance(sensitivity, 1.0, 1e-6, 1)), 1.0, 1e-6
    )


TESTED = PublishedTestedSketch(
    epsilon=0.5,
    delta_release=0.01,
    delta_test=0.01,
    delta_failure=0.01,
    test_noise=0.05,
    row_norm=1.0,
    n_components=4,
)
TESTED_COLUMNS = 2000
CELLS = 640  # of the test's noise, eight deviations to both sides


def figure_4_sketch() -> Evidence:
    """N3: the sketch alone. D has the Gram matrix c I, D' lacks a unit row; then every direction but one has variance
    V = 1/p* + alpha - eta, and one more under D', four columns each: their sum of squares is V times a chi-square of
    4 (d - 1) degrees. An event is bounded cell by cell of eta, so that the result holds whatever rounding did.
    """
    freedom = TESTED.n_components * (TESTED_COLUMNS - 1)
    middle = 1.0 / TESTED.leverage + TESTED.margin
    event = freedom * (1.0 / TESTED.leverage + 1.0)
    with_row, without = (
        _above(event, freedom, middle + more, upper=bool(more == 0))
        for more in (0.0, 1.0)
    )
    lower = without - arb(TESTED.epsilon).exp() * with_row
    law = "sum of squares of a 2000 x 4 sketch in 1999 directions, mixed over the test's normal noise"
    return Evidence(
        TESTED.claim[1], float(lower.lower()), 1.0, law, epsilon=TESTED.epsilon
    )


def _above(event: float, freedom: int, middle: float, *, upper: bool) -> arb:
    """P[V chi-square > event] with V = middle - test_noise z, bounded from above or below over cells of z."""
    edges = np.linspace(-8.0, 8.0, CELLS + 1)
    if upper:
        total = 2 * normal_below(-8.0)
    else:
        total = arb(0)
    for low, high in pairwise(edges.tolist()):
        variance = middle - TESTED.test_noise * (low if upper else high)
        tail = (arb(event) / (2 * arb(variance))).gamma_upper(
            arb(freedom) / 2, regularized=1
        )
        total += (normal_below(high) - normal_below(low)) * tail
    return total


def proposition_5() -> Evidence:
    """N3: the printed condition met with one deviation of the test to spare: the ridge is still not smaller where the
    test's noise lies below minus that.
    """
    return closed(
        0.0,
        normal_below(-1.0),
        "the test's normal noise, lambda_min one tau above the threshold",
    )


def figure_1() -> Evidence:
    """Theorem 5.1 at (1, 1e-6), 64 components: both directions at the leverage that Figure 1 allows."""
    excess = random_projection.largest_excess(1.0, 1e-6, 64)
    return Evidence.of_pair(random_projection.sketch_loss(excess, 64), 1.0, 1e-6)


def figure_1_ridge() -> Evidence:
    """N4: the printed ridge, and one that gives the same leverage (`figure_1` holds at it)."""
    excess = arb(random_projection.largest_excess(1.0, 1e-6, 64))
    return closed(
        float(((1 + excess) / excess).lower()),
        1 / excess,
        "leverage s/(1+s), s = l^2/lambda, is attained",
    )


def figure_3() -> Evidence:
    """Theorem 5.3 at (1, 1e-6), rate 0.1: a sampled record shows with chance 0.1 what Figure 1 shows at (e0, d0)."""
    rate = 0.1
    inner = math.log1p(math.expm1(1.0) / rate)
    excess = random_projection.largest_excess(inner, 1e-6 / rate, 64)
    loss = random_projection.sketch_loss(excess, 64)
    upper = rate * max(
        float(side.enclose(inner).upper) for side in (loss, loss.reversed())
    )
    law = "0.1 times the sketch of the sample, by convexity of the divergence"
    return Evidence(1e-6, 0.0, upper * (1 - 1e-15), law, epsilon=1.0)


def proposition_7() -> Evidence:
    """N5: 1000 records, ten columns, lambda = l = 1, added variance 16: the log-determinant one record can move."""
    variance = 16.0
    stated = 10 * math.log((variance + 1.0) / (variance + 1.0 / (1.0 + 1000 / 4)))
    ratio = (arb(variance) + 1) / (arb(variance) + 1 / (1 + arb(1) / 4))
    assert LogisticSensitivity(1.0, 1.0)(variance)[1] >= float(
        ratio.log().lower()
    )  # what the library charges
    return closed(
        stated,
        ratio.log(),
        "one eigenvalue moves, from lambda to at most lambda + l^2/4",
    )


def proposition_8() -> Evidence:
    """N6: 100 records, all constants 1, added variance 100: the mean's step in deviations."""
    process = ProcessSensitivity(
        point_variance=1.0,
        kernel_bound=1.0,
        observation_variance=1.0,
        label_bound=1.0,
        n_max=100,
    )
    printed = published_process_sensitivity(
        100.0,
        kernel_deviation=1.0,
        label_bound=1.0,
        observation_deviation=1.0,
        count=100,
    )
    return Evidence(
        printed[0],
        0.0,
        process(100.0)[0],
        "certified maximum over the record's predictive variance",
    )


def theorem_7_1() -> Evidence:
    """The difference of two distribution functions, each rounded to an oracle's error, against the exact delta."""
    accuracy = 1e-3
    epsilon = 1.0
    error = accuracy / (2 * (1 + math.exp(epsilon)))
    pair = GaussianPair([1.0], [[4.0]], [0.0], [[1.0]])
    tails = (
        float(pair.loss_tail(epsilon)),
        float(1 - pair.reversed().loss_tail(-epsilon)),
    )
    spoilt = [round(tail / (2 * error)) * 2 * error for tail in tails]
    estimate = spoilt[0] - math.exp(epsilon) * spoilt[1]
    exact = pair.enclose(epsilon)
    distance = max(
        abs(estimate - float(exact.lower)), abs(estimate - float(exact.upper))
    )
    return Evidence(accuracy, 0.0, distance, pair, epsilon=epsilon)


# --- class-based


def one_sided() -> Evidence:
    """K1: N(0, 4) and N(0, 1) at 0.5. L > e iff x^2 > (8/3)(e + log 2): the larger one-sided tail of the two ordered
    edges against the two-sided tail under N(0, 4).
    """

    def beyond(epsilon: float, deviation: int) -> arb:
        """P[L > epsilon] for x of this deviation."""
        level = arb(8) / 3 * (arb(epsilon) + arb(2).log())
        return 2 * normal_below(-level.sqrt() / deviation)

    one_way = beyond(0.5, 2)
    other_way = 1 - beyond(-0.5, 1)
    stated = max(float(one_way.upper()), float(other_way.upper()))
    return closed(stated, one_way + 1 - beyond(-0.5, 2), "N(0, 4) against N(0, 1)")


def corollary_3(copies: int = 20) -> Evidence:
    """K2: `copies` ratios of 4 and as many of 1/4, s = copies: Delta_G = 0. The tail is at least delta."""
    epsilon = 1.0125 * copies
    pair = GaussianPair.from_reduced(
        [-3.0] * copies + [0.75] * copies, [0.0] * (2 * copies)
    )
    found = pair.enclose(epsilon)
    return Evidence(
        math.exp(-epsilon / copies), float(found.lower), 1.0, pair, epsilon=epsilon
    )


def white_baseline() -> Evidence:
    """K3: k = 12, rho = 1: the error (13) of noise of variance rho/k."""
    return Evidence(1.0, 1 / 12, 1 / 12, "(1/k) tr of (rho/k) I", "equal")


def lemma_2_step() -> Evidence:
    """K4: the step that (51)-(52) allow at the first iteration, paper's synthetic setting, where 0.1 is begun with."""
    from gaussveil_studies.class_based.synthetic import EDGES, LINE, wishart_covariances
    from gaussveil_studies.published.class_based import lemma_2_step as step
    from gaussveil_studies.published.class_based import surrogates

    ordered = np.concatenate([EDGES, EDGES[:, ::-1]])
    inverses = np.asarray(
        np.linalg.inv(wishart_covariances(0) + np.eye(2)), dtype=np.float64
    )
    first, second = ordered[int(np.argmax(surrogates(LINE, inverses, ordered)))]
    found = step(LINE, inverses, ordered, int(first), int(second))
    return Evidence(0.1, found, found, "four classes in the plane, rho = 1", "equal")


def forecast_law() -> Evidence:
    """K5: AR(1) homes of coefficients 0.5 and 0.9 after a reading of 1; the one-step forecasts 0.5 and 0.9 with white
    noise of variance 0.01. By (57) both have variance 1.01; what is released has variance 0.01.
    """
    stated = GaussianPair([0.5], [[1.01]], [0.9], [[1.01]]).enclose(1.0)
    return Evidence.of_pair(
        GaussianPair([0.5], [[0.01]], [0.9], [[0.01]]), 1.0, float(stated.upper)
    )


def arma_response() -> Evidence:
    """K6: x[k] = -x[k-1]/2 + w[k] by (59): variance 4/3; a numerator of a's over a denominator of b's gives 1/4."""
    return closed(0.25, arb(4) / 3, "first-order process, a_1 = 1/2, b_0 = 1", "equal")


def lemma_1_tail() -> Evidence:
    """Lemma 1: (34) at its best s against the tail of the loss, which `loss_tail` knows to far below 1e-9."""
    epsilon = 1.0
    means = [0.0, 0.0], [0.5, 0.2]
    variances = [1.0, 1.0], [1.25, 0.8]
    pair = GaussianPair(
        means[0], np.diag(variances[0]), means[1], np.diag(variances[1])
    )
    stated = min(
        _chernoff(epsilon, power, means[1], variances[1])
        for power in np.linspace(1.3, 12.0, 400).tolist()
    )
    tail = float(pair.loss_tail(epsilon))
    return Evidence(stated, tail * (1 - 1e-9), tail * (1 + 1e-9), pair, epsilon=epsilon)


def _chernoff(
    epsilon: float, power: float, shift: list[float], variances: list[float]
) -> float:
    """(34) for N(0, I) against N(shift, diag(variances)): the ratios are 1/variances, `power` is the paper's s."""
    ratios = 1 / np.asarray(variances)
    steps = np.asarray(shift)
    quadratic = float(np.sum(steps**2 * ratios / (power - ratios)))
    exponent = (-epsilon + power * quadratic / 2) / (power - 1)
    log_determinants = (
        np.sum(np.log(ratios)) / (2 * (power - 1)) + np.sum(np.log(power - ratios)) / 2
    )
    return math.exp(
        len(ratios) / 2 * math.log(power - 1) + exponent - float(log_determinants)
    )


def surrogate_of_42() -> Evidence:
    """K7: mean shift 1, equal covariances, epsilon 2, s = 10: the exponents of (42) and of (36)."""
    surrogate = 1.0
    epsilon = 2.0
    power = 10.0
    printed = -epsilon / (2 * power) + surrogate / power
    by_36 = (surrogate / 2 - epsilon) / power
    return Evidence(printed, by_36, by_36, "exponents at one shift", "equal")


def tail_with_prior() -> Evidence:
    """K8: the loss is N(1/2, 1): its tail beyond 1 - log 3 against the one beyond 1."""
    stated = 1 - normal_below(arb(1) / 2)
    return closed(
        float(stated.upper()),
        1 - normal_below(arb(1) / 2 - arb(3).log()),
        "N(1, 1) against N(0, 1)",
    )


def delta_of_figure_3() -> Evidence:
    """K9: what the text prints for epsilon 1 is a lower end at 0.8."""
    return Evidence(0.5637, 0.84, 1.0, "delta is nonincreasing in epsilon")
