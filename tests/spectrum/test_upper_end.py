"""Upper ends by doubles alone never lie below the truth, and doubles that reduce matrices leave nothing out."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx
from mpmath import mp, mpf

from gaussveil.accounting import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.enclosures import enclosure
from gaussveil.spectrum.enclosures.exact_doubles import MatrixDoubles
from gaussveil.spectrum.enclosures.matrix_reduction import matrix_spectrum, quick_spectra
from gaussveil.spectrum.enclosures.upper_end import TIGHT, upper_end
from gaussveil.spectrum.selection import SWITCH

cpu = pytest.importorskip("gaussveil.spectrum.native.cpu")
TABLES = Path(__file__).parent.parent / "reference"
SIZES = {
    "ordinary": (-3, 0),
    "wide": (-12, 0),
    "strong": (-1, 4),
    "with zeros": (-6, 0),
    "in a heap": (-8, 0),
    "next to nothing": (-300, 0),
    "shrinking": (-2, 0),
    "growing": (-3, 1),
}


def gaps(rng: np.random.Generator, kind: str, size: int) -> np.ndarray:
    low, high = SIZES[kind]
    found = rng.choice([-1, 1], size) * 10.0 ** rng.uniform(low, high, size)
    if kind == "with zeros":
        found[rng.random(size) < 0.3] = 0.0
    if kind == "in a heap":
        found = found[0] * (1 + 1e-9 * rng.normal(size=size))
    if kind in ("shrinking", "growing"):
        found = np.abs(found) * (1 if kind == "shrinking" else -1)
    return np.minimum(found, 0.999)


def log_references() -> list[tuple[str, PrivacyLoss, float, mpf]]:
    mp.dps = 40
    found = []
    for name in ("gaussian_pairs", "extra_pairs"):
        for case in json.loads((TABLES / f"{name}.json").read_text())["cases"]:
            nu, b = ([float(value) for value in case[key]] for key in ("nu", "b"))
            exact = all(
                mpf(value) == mpf(text) for key, row in (("nu", nu), ("b", b)) for value, text in zip(row, case[key])
            )
            if exact and "delta_ref" in case and mpf(case["delta_ref"]) > mpf("1e-300"):
                found.append((case["id"], GaussianPair.from_reduced(nu, b), float(case["eps"]), mpf(case["delta_ref"])))
    return found


def test_it_is_no_less_than_references_of_thirty_digits() -> None:
    cases = log_references()
    decided = 0
    for name, loss, epsilon, truth in cases:
        found = upper_end(loss.sources, epsilon)
        if found < math.inf:
            decided += 1
            assert truth * (1 - mpf(10) ** -28) <= mpf(found) <= truth * (1 + 3 * mpf(TIGHT)), name
    assert decided >= 0.5 * len(cases) > 5


@pytest.mark.parametrize("kind", SIZES)
def test_it_is_no_less_than_adaptive_quadrature_in_balls(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which shares neither contour nor arithmetic with it."""
    rng = np.random.default_rng(len(kind))
    decided = 0
    for _ in range(8):
        size = int(rng.integers(1, 13))
        energy = 10.0 ** rng.uniform(-9, 1, size) * (rng.random(size) < 0.8)
        loss = PrivacyLoss.from_terms(gaps(rng, kind, size), rng.choice([1.0, 1.0, 2.0, 30.0, 0.5], size), energy)
        loss = loss.reversed() if rng.random() < 0.5 else loss
        epsilon = min(float(loss.epsilon(10.0 ** rng.uniform(-25, -0.5))), 60.0)
        monkeypatch.setenv(SWITCH, "1")
        found = upper_end(loss.sources, epsilon)
        if found == math.inf:
            continue
        decided += 1
        monkeypatch.setenv(SWITCH, "0")
        truth = loss.enclose(epsilon)
        assert truth.lower <= found <= truth.upper * (1 + 3 * TIGHT) + 1e-320
    assert decided >= 5


@pytest.mark.parametrize("tiny", [1e-4, -1e-4, 1e-9, -1e-9, 1e-200, -1e-200])
def test_a_gap_next_to_zero_takes_no_more_nodes(tiny: float, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = PrivacyLoss.from_terms([tiny, -0.09, 0.05], [1, 1, 1], [0.02, 0.001, 0.003])
    rules = []
    best = cpu.hyperbola
    monkeypatch.setattr(cpu, "hyperbola", lambda *job: rules.append(best(*job)) or rules[-1])
    found = upper_end(loss.sources, 0.8)
    assert rules[0][5] < 80
    monkeypatch.setenv(SWITCH, "0")
    truth = loss.enclose(0.8)
    assert truth.lower <= found <= truth.upper * (1 + 3 * TIGHT)


@pytest.mark.parametrize("energy", [1e-6, 0.01, 1.0, 90.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 9.0])
def test_a_mean_shift_is_its_closed_form(energy: float, epsilon: float) -> None:
    loss = PrivacyLoss.from_terms([0.0, 0.0], [1, 1], [energy / 4, 0.75 * energy])
    found = upper_end(loss.sources, epsilon)
    mp.dps = 60
    t = mp.sqrt(mpf(energy / 4) + mpf(0.75 * energy))
    truth = mp.ncdf(t / 2 - epsilon / t) - mp.exp(epsilon) * mp.ncdf(-t / 2 - epsilon / t)
    assert truth <= mpf(found)
    assert mpf(found) <= truth * (1 + 3 * mpf(TIGHT)) + mpf(10) ** -320 or found == math.inf


@pytest.mark.parametrize("gap", [0.0, -1e-3])
def test_what_leaves_the_range_of_doubles_is_the_smallest_of_them(gap: float) -> None:
    loss = PrivacyLoss.from_terms([gap, 0.0], [1, 1], [0.0, 1e-6])
    assert loss.enclose(1.0).log_upper < -400
    assert 0 < upper_end(loss.sources, 1.0) <= max(loss.enclose(1.0).upper, math.ulp(0.0)) * (1 + 3 * TIGHT)


def test_what_enough_allows_is_proven_in_doubles_and_the_rest_in_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    charge = Charge(PrivacyLoss.from_terms([-0.09, 0.07], [1, 1], [0.004, 0.003]))
    composition = Composition.of([(charge, 1)], symmetric=False)
    exact = composition.delta_upper(0.5)
    asked = []
    balls = enclosure.enclose_loss
    monkeypatch.setattr(enclosure, "enclose_loss", lambda *job: asked.append(job) or balls(*job))
    quick = composition.delta_upper(0.5, enough=2 * exact)
    assert not asked
    assert exact * (1 - 1e-14) <= quick <= exact * (1 + TIGHT)
    assert composition.delta_upper(0.5, enough=exact) == exact  # a claim to the last digit is not refused
    assert asked


# --- matrices


def drawn(rng: np.random.Generator, kind: str, size: int) -> MatrixDoubles:
    root = rng.normal(size=(size, 2 * size))
    cov_y = root @ root.T
    axes = np.linalg.cholesky(cov_y)
    spread = rng.uniform(-0.5, 0.9, size)
    if kind == "heap":
        spread = 0.25 + 1e-7 * rng.normal(size=size)
    if kind == "faint":
        spread = 1e-9 * rng.uniform(0.5, 1, size)
    cov_x = axes @ np.diag(1 - spread) @ axes.T
    mean, scale = axes @ rng.normal(size=size), np.ones(size)
    if kind == "scales":
        scale = 10.0 ** rng.uniform(-120, 120, size)
    if kind == "singular":
        cov_y, cov_x = (one + 1e9 * np.ones((size, size)) for one in (cov_y, cov_x))
    square = np.multiply.outer(scale, scale)
    lopsided = 1 + 2.0**-50 * np.triu(rng.normal(size=(size, size)), 1) if kind == "lopsided" else 1.0
    return MatrixDoubles.of(mean * scale, cov_x * square * lopsided, np.zeros(size), cov_y * square)


@pytest.mark.parametrize("kind", ["ordinary", "heap", "faint", "scales", "singular", "lopsided"])
def test_doubles_reduce_matrices_as_balls_do(kind: str) -> None:
    """Each ball that doubles give holds what 640 bits find, once their own residuals are allowed for."""
    rng = np.random.default_rng(23)
    for size in (1, 2, 5, 12):
        pair = drawn(rng, kind, size)
        with ctx.workprec(640):
            (quick,), exact = quick_spectra((pair,)), matrix_spectrum(pair, 640)
            assert quick is not None
            assert exact is not None
            assert quick.residual_gram < 1e-12
            assert quick.gap_error > exact.gap_error
            ordered = (sorted(found.terms, key=lambda term: float(term.gap)) for found in (quick, exact))
            for rough, fine in zip(*ordered, strict=True):
                assert abs(rough.gap - fine.gap) <= quick.gap_error + exact.gap_error + rough.gap.rad()
            assert quick.log_ratio.overlaps(exact.log_ratio)
            # b' M2^-1 b and its like in M1 do not depend on T.
            for weight in (lambda gap: arb(1), lambda gap: 1 / (1 - gap)):
                rough, fine = (sum((weight(t.gap) * t.energy for t in found.terms), arb(0)) for found in (quick, exact))
                room = 4 * (quick.residual_gram + quick.residual_gap) / (1 - max(t.gap for t in exact.terms)) ** 2
                assert abs(rough - fine) <= room * fine + rough.rad() + fine.rad()
            if kind in ("ordinary", "scales", "lopsided"):
                assert quick.residual_gap < 1e-20


@pytest.mark.parametrize("kind", ["ordinary", "heap", "faint", "scales", "singular", "lopsided"])
def test_a_charge_of_matrices_is_no_better_than_they_are(kind: str) -> None:
    rng = np.random.default_rng(29)
    for size in (1, 3, 8):
        pair = drawn(rng, kind, size)
        loss = GaussianPair(pair.mean_x, pair.cov_x, pair.mean_y, pair.cov_y)
        kept, variation = loss.dominating()
        for exact, stored in ((loss, kept), (loss.reversed(), kept.reversed())):
            for epsilon in (0.0, 2.0):
                truth, cost = exact.enclose(epsilon), stored.enclose(epsilon)
                assert truth.lower <= cost.upper + (1 + math.exp(epsilon)) * variation
                if kind not in ("faint", "singular"):  # of a ratio just below one doubles tell the gap to seven digits
                    assert cost.lower <= truth.upper * (1 + 1e-12)


def test_terms_grow_by_what_the_channel_needs() -> None:
    """The channel, built with numbers: it maps the pair of grown terms to the exact one, and adds noise."""
    mp.dps = 60
    rng = np.random.default_rng(31)
    for _ in range(20):
        size = int(rng.integers(2, 6))
        diagonal = rng.choice([-1, 1], size) * rng.uniform(0.05, 0.6, size)
        off, gram = (rng.normal(size=(size, size)) * 1e-3 for _ in range(2))
        off, gram = (off + off.T) * (1 - np.eye(size)), gram + gram.T
        residual, across = np.linalg.norm(off), np.linalg.norm(gram)
        share = residual / np.min(np.abs(diagonal))
        growth = (1 + share) ** 2 / (1 - across)
        values, vectors = np.linalg.eig(np.eye(size) + off / diagonal)
        root = (vectors * np.sqrt(values.astype(complex)) @ np.linalg.inv(vectors)).real
        channel = root / math.sqrt(growth)
        assert np.allclose(channel @ np.diag(diagonal * growth) @ channel.T, np.diag(diagonal) + off, atol=1e-12)
        assert np.min(np.linalg.eigvalsh(np.eye(size) + gram - channel @ channel.T)) > 0
        mean = rng.normal(size=size)
        longest = (np.abs(mean) + share * np.linalg.norm(mean)) * math.sqrt(growth)
        assert np.all(np.abs(np.linalg.solve(channel, mean)) <= longest)
