"""The counterexamples of the mixtures' paper: each evaluates exactly what the paper releases."""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from gaussveil.calibration import covering_ellipsoid, mean_shift_for
from gaussveil.spectrum import GaussianPair
from gaussveil.typing import Floats, Integers
from gaussveil_studies.errata.closed_forms import closed
from gaussveil_studies.errata.records import Evidence
from gaussveil_studies.gmm.settings import iris
from gaussveil_studies.published.gmm_kl import mean_steps

DELTA = 1e-5


def wishart_escape() -> Evidence:
    """G-a: one column, 50 records of class k at 0; a record at 1 has its label changed into k. The covariance goes from
    0 to 1/51, the noise is exponential of mean 2/gamma, gamma = 2 N_k/3: below 1/51 only the first can have been.
    """
    rate = arb(2) * 50 / 3
    return closed(
        0.0,
        1 - (-rate / 51 / 2).exp(),
        "exponential noise above 0 and above 1/51: delta at any epsilon",
    )


def parallel_composition() -> Evidence:
    """G-b: a record at 1 among others at 0 changes its class: both means move by what each one's noise was made for,
    by Lemma 1's own formula at (1, 1e-5).
    """
    return Evidence.of_pair(
        GaussianPair.mean_shift(math.sqrt(2) / math.sqrt(2 * math.log(2 / DELTA))),
        1.0,
        DELTA,
    )


def parallel_composition_exact() -> Evidence:
    """G-b with noise by which each class alone is exactly (1, 1e-5)-private."""
    return Evidence.of_pair(
        GaussianPair.mean_shift(math.sqrt(2) * mean_shift_for(1.0, DELTA)), 1.0, DELTA
    )


def means_by_eq_10() -> Evidence:
    """G-c: Iris, the mean of the first class at epsilon_k = 1/3 with noise by (10); record 119 changes into it."""
    return _iris_flip(118, into=False)


def means_by_eq_23() -> Evidence:
    """G-c: the same with noise by (23), that is for all changes of a label; record 118 changes into the class."""
    return _iris_flip(117, into=True)


def _iris_flip(record: int, *, into: bool) -> Evidence:
    flower = iris()
    flipped = flower.codes.copy()
    flipped[record] = 0
    laws = [_noisy_mean(flower.rows, codes, into) for codes in (flower.codes, flipped)]
    return Evidence.of_pair(GaussianPair(*laws[0], *laws[1]), 1 / 3, DELTA)


def _noisy_mean(rows: Floats, codes: Integers, into: bool) -> tuple[Floats, Floats]:
    """The law of the released mean of class 0 at epsilon_k = 1/3."""
    own = rows[codes == 0]
    weight = np.linalg.inv(np.cov(own.T))
    steps = mean_steps(rows, codes, 0, into=into)
    shape = covering_ellipsoid(steps, (weight + weight.T) / 2, 1e-6).covariance
    return own.mean(axis=0), shape * (2 * math.log(2 / DELTA) * 9)


def weights_support() -> Evidence:
    """G-c: three classes far from empty. Of the 7 frequencies that (15) allows, all equally likely as (26) has them
    where all g_i are of a sign, 3 are not among the neighbour's.
    """
    moves = {
        (0, 0, 0),
        *(
            (a, b, -a - b)
            for a, b in ((1, -1), (-1, 1), (1, 0), (-1, 0), (0, 1), (0, -1))
        ),
    }
    moved = {(1 + a, -1 + b, c) for a, b, c in moves}
    share = len(moves - moved) / len(moves)
    return Evidence(
        0.0,
        share * (1 - 1e-15),
        share,
        "uniform on 7 frequencies, 4 of them the neighbour's as well",
    )


def weights_mass() -> Evidence:
    """G-d: (26) with K = 5, epsilon_0 = 1/3 and all g_i >= 0, as they are in the paper's setting."""
    return closed(
        1.0,
        21 / (1 + 20 * (arb(1) / 3).exp()),
        "21 outputs of one probability",
        "equal",
    )


def gamma_minimiser() -> Evidence:
    """G-e: d = 3, trace 3: (22) prints 4; (21) as printed, 3 gamma + 12/gamma, is least at 2."""
    return Evidence(4.0, 2.0, 2.0, "derivative 3 - 12/gamma^2", "equal")


def expected_divergence() -> Evidence:
    """G-g: one column, variance 1, gamma = 100, the mean without noise: (30) against E[W - log(1 + W)]/2, W exponential
    of mean 1/50: half of (1/50 - e^50 E1(50)).
    """
    rate = arb(50)
    truth = (1 / rate - rate.exp() * -(-rate).ei()) / 2
    printed = (2 / arb(100) + arb(100).log() - arb(2).log() + arb.const_euler()) / 2
    return closed(float(printed.mid()), truth, "exponential W of mean 1/50", "equal")


def flips_into() -> Evidence:
    """G-h: 50 records of class k at 0, one record elsewhere at 1: what (10) counts, and how far the mean can move."""
    return Evidence(0.0, 1 / 51, 1 / 51, "mean of class k, one column")


def noise_with_epsilon() -> Evidence:
    """G-i: the variance of Lemma 1's noise at epsilon 2 over that at epsilon 1."""
    return Evidence(1.0, 0.25, 0.25, "2 log(2/delta)/epsilon^2", "at least")


def objective_after_a_step() -> Evidence:
    """G-j: d log gamma + (d+1) trace/gamma, d = 3 and trace 3, at the minimiser 4 over that at 1."""

    def cost(rate: float) -> arb:
        return 3 * arb(rate).log() + 12 / arb(rate)

    return closed(1.0, cost(4.0) / cost(1.0), "cost of a covariance, (12)", "at least")


def equal_probabilities() -> Evidence:
    """G-k: (28) grants equal probabilities a ratio of e^(-1/3) at most."""
    return closed(float((-arb(1) / 3).exp().upper()), arb(1), "one law on both sides")
