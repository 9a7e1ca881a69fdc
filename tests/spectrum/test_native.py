"""The kernel in C against the array library: the same formulas, so the same numbers."""

from __future__ import annotations

import ctypes
import json
import math
import runpy
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from gaussveil.errors import NotPositiveDefiniteError, NotSymmetricError, NumericalError
from gaussveil.spectrum import GaussianPair, PrivacyLoss, contour, rules
from gaussveil.spectrum.native import source
from gaussveil.spectrum.selection import SWITCH, compiled_contour, compiled_reduction
from gaussveil.spectrum.subsampled import bands
from gaussveil.spectrum.subsampled.companions import Companions, Gaussians
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.double_band import DoubleBand
from gaussveil.spectrum.subsampled.double_band_step import turned_sums
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.terms import Terms, loss_limits

REPOSITORY = Path(__file__).parent.parent.parent
TABLES = REPOSITORY / "tests" / "reference"
Both = Callable[[Callable[[], object]], tuple]


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """What a call gives by the compiled loops and by the array library."""

    def evaluate(call: Callable[[], object]) -> tuple:
        monkeypatch.delenv(SWITCH, raising=False)
        compiled = call()
        monkeypatch.setenv(SWITCH, "0")
        return compiled, call()

    return evaluate


def test_the_compiled_loops_are_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert compiled_contour(np.zeros(1), 10_000) is not None
    assert compiled_reduction(np.zeros((1, 64, 64))) is not None
    assert compiled_reduction(np.zeros((1, 65, 65))) is None
    monkeypatch.setenv(SWITCH, "0")
    assert compiled_contour(np.zeros(1), 1) is None


def test_the_formulas_in_c_are_those_in_python() -> None:
    translated = runpy.run_path(str(REPOSITORY / "scripts" / "write_formulas.py"))["translated"]()
    assert (source.FOLDER / "formulas.h").read_text(encoding="utf-8") == translated


def test_a_library_from_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "source", lambda: "another kernel")
    cpu = source.FOLDER / "cpu.py"
    with pytest.raises(ImportError, match="make native"):
        runpy.run_path(str(cpu))


def test_jobs_lie_in_memory_as_c_lays_them_out(tmp_path: Path) -> None:
    """Every field of every job has the place and the size that the compiler gives to the field of that name."""
    jobs = [value for value in vars(source).values() if isinstance(value, type) and issubclass(value, ctypes.Structure)]
    assert len(jobs) == 7
    asked = ['#define REVISION "layout"', f'#include "{source.FOLDER / "kernel.c"}"', "#include <stdio.h>"]
    asked += ["#include <stddef.h>", "int main(void) {"]
    wanted = []
    for job in jobs:
        asked.append(f'printf("{job.__name__} %zu\\n", sizeof({job.__name__}));')
        wanted.append(f"{job.__name__} {ctypes.sizeof(job)}")
        for name, *_ in job._fields_:
            place = f"offsetof({job.__name__}, {name}), sizeof((({job.__name__} *)0)->{name})"
            asked.append(f'printf("{name} %zu %zu\\n", {place});')
            field = getattr(job, name)
            wanted.append(f"{name} {field.offset} {field.size}")
    (tmp_path / "layout.c").write_text("\n".join([*asked, "}"]), encoding="utf-8")
    program = tmp_path / "layout"
    command = ["cc", "-O0", "-std=gnu11", "-Wno-psabi", str(tmp_path / "layout.c"), "-o", str(program), "-lm"]
    subprocess.run(command, check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert printed.split("\n")[:-1] == wanted


def test_a_number_that_no_entry_knows_is_refused() -> None:
    cpu = pytest.importorskip("gaussveil.spectrum.native.cpu")
    with pytest.raises(TypeError, match="knows no \\['firts'\\]"):
        cpu.step_sums("turned", np.zeros((3, 4)), 2, 4, firts=1.0)


@pytest.mark.parametrize("region", [rules.HOCKEY_STICK, rules.HOCKEY_STICK_COMPLEMENT])
def test_a_half_rule_that_is_right_by_chance_does_not_settle(region: rules.Region, full: bool) -> None:
    """Settled values are as near to a rule of eight times as many nodes as they say (3e-9 off without the levers)."""
    # Any crossing is allowed; Newton's steps end within a quarter of the local width, further off rounding counts more.
    rng = np.random.default_rng(11)
    for _ in range(80 if full else 4):
        shape = (1500, int(rng.integers(1, 14)))
        gap = np.where(rng.random(shape) < 0.5, rng.uniform(-1, 0.7, shape), rng.normal(size=shape) * 0.1)
        energy = rng.exponential(size=shape) * 10.0 ** rng.uniform(-3, 1, (shape[0], 1))
        terms = Terms.from_gaps(np.minimum(gap, 0.95), np.ones(shape), energy)
        threshold = rng.exponential(size=shape[0]) * 3
        with np.errstate(all="ignore"):
            centre, width = contour.saddle(terms, threshold, region)
            near = np.arange(shape[0]) % 2 == 0
            centre = np.where(near, centre + rng.uniform(-0.17, 0.17, shape[0]) * width, centre * 0.95)
            few, many = (contour._trapezoid(terms, threshold, region, centre, width, count, 7.0) for count in (40, 320))
        settled = ~np.isinf(few.log_error) & ~np.isinf(many.log_error)
        assert np.mean(settled) > 0.3
        stated = few.log_error + many.log_error - 2e-12
        assert np.all(np.abs(few.log_value - many.log_value)[settled] <= np.where(near, stated, 2e-10)[settled])


def test_a_pair_that_settled_by_chance() -> None:
    """Its half rule agreed to 3e-9 while both were 2.5e-9 off, and the error was stated as 6e-12."""
    gap = [-0.53031337, -0.43122108, -0.252039, -0.00782204, 0.0053732, 0.04965049]
    gap += [0.05717996, 0.07641165, 0.15503024, 0.18179094, 0.2806145, 0.35375221]
    energy = [4.79070884e-01, 3.89541865e-01, 3.94248723e-02, 1.46592285e-04, 1.02714162e-02, 7.21123439e-04]
    energy += [2.36479222e-03, 3.12036986e-03, 1.00540675e-01, 2.87062579e-02, 1.95176699e-02, 3.58488337e-01]
    loss = PrivacyLoss.from_terms(gap, [1] * 12, energy)
    terms, threshold = loss._terms.flat((1,)), np.array([1.0])
    at = np.linspace(-0.43, -0.36, 400)
    several = Terms(*(np.repeat(column, at.size, axis=0) for column in terms.columns()))
    found = contour._trapezoid(
        several, np.repeat(threshold, at.size), rules.HOCKEY_STICK_COMPLEMENT, at, 1.07 * np.abs(at), 40, 7.0
    )
    enclosed = loss.enclose(1.0)
    truth = np.log1p(-0.5 * float(enclosed.lower + enclosed.upper))
    error = np.abs(found.log_value - truth)
    assert np.max(error) > 1e-10  # the rule is too coarse for some crossings
    settled = ~np.isinf(found.log_error)
    assert np.all(error[settled] <= found.log_error[settled])


@pytest.mark.parametrize(("dimension", "seed"), [(2, 3), (5, 3), (3, 4), (2, 6)])
def test_stated_errors_are_true(dimension: int, seed: int, both: Both) -> None:
    """Each of these populations holds a value whose half rule and lever agreed by chance, an error from far out."""
    rng = np.random.default_rng([77, seed, dimension])
    shape = (4000, dimension)
    scale = 10.0 ** rng.uniform(-2, 0.5, (shape[0], 1))
    gap = rng.normal(size=shape) * scale
    gap = np.where(gap > 0, gap / (1 + gap), gap)
    energy = rng.exponential(size=shape) * 10.0 ** rng.uniform(-3, 1, (shape[0], 1))
    epsilon = 10.0 ** rng.uniform(-2, 1.5, shape[0])
    terms = Terms.from_gaps(gap, np.ones(shape), energy)
    with np.errstate(all="ignore"):
        inside = np.flatnonzero(epsilon < loss_limits(terms)[1] * (1 - 1e-10))
        terms, epsilon = terms.rows(inside), epsilon[inside]
        centre, width = contour.saddle(terms, epsilon, rules.HOCKEY_STICK)
        finer = contour._trapezoid(terms, epsilon, rules.HOCKEY_STICK, centre, width, 320, 26.0)
    for found in both(partial(contour.log_hockey_stick, terms, epsilon)):
        settled = ~np.isinf(found.log_error) & ~np.isinf(finer.log_error)
        assert np.mean(settled) > 0.9
        stated = found.log_error + finer.log_error - 2e-12
        assert np.all(np.abs(found.log_value - finer.log_value)[settled] <= stated[settled])


def reference_terms() -> list[tuple[Terms, float]]:
    cases = [
        case
        for name in ("gaussian_pairs", "extra_pairs")
        for case in json.loads((TABLES / f"{name}.json").read_text())["cases"]
    ]
    pairs = [GaussianPair.from_reduced([float(g) for g in c["nu"]], [float(b) for b in c["b"]]) for c in cases]
    return [(pair._terms.flat((1,)), float(case["eps"])) for pair, case in zip(pairs, cases)]


def random_terms(count: int, dimension: int, seed: int) -> tuple[Terms, np.ndarray]:
    """Gaps and energies over 14 decades, of either sign, some of them zero, some repeated; epsilon up to 1000."""
    rng = np.random.default_rng([seed, dimension])
    shape = (count, dimension)
    sign = np.where(rng.random((count, 1)) < 0.3, 1.0, rng.choice([-1.0, 1.0], shape))
    gap = -sign * 10.0 ** rng.uniform(-10, 4, shape)
    gap = np.where(gap > 0, gap / (1 + gap), gap) * (rng.random(shape) < 0.9)
    energy = 10.0 ** rng.uniform(-10, 4, shape) * (rng.random(shape) < 0.9)
    repeats = np.where(rng.random((count, 1)) < 0.5, 1.0, rng.choice([1.0, 2.0, 7.0, 3000.0], shape))
    epsilon = np.where(rng.random(count) < 0.2, 0.0, 10.0 ** rng.uniform(-3, 3, count))
    return Terms.from_gaps(gap, repeats, energy), epsilon


def assert_same(compiled: rules.Integral, arrays: rules.Integral) -> None:
    """The same value to 1e-13, or to the rounding that each path itself reports; the same verdict on settling."""
    value, other = compiled.log_value, arrays.log_value
    assert not np.any(np.isnan(value))
    unsettled = np.isinf(arrays.log_error)
    assert np.mean(unsettled != np.isinf(compiled.log_error)) <= 0.002  # a rule may just settle in one of them
    both = ~unsettled & ~np.isinf(compiled.log_error)
    rounding = np.maximum(arrays.log_error, compiled.log_error)[both] - 2e-12
    allowed = 1e-13 * np.maximum(1.0, np.abs(other[both])) + 2 * np.maximum(rounding, 0.0)
    assert np.all(np.abs(value - other)[both] <= allowed)
    np.testing.assert_allclose(value[~both], other[~both], rtol=1e-9, atol=1e-9)


def test_reference_cases(both: Both) -> None:
    for terms, epsilon in reference_terms():
        _, supremum = loss_limits(terms)
        if epsilon >= supremum[0]:
            continue
        threshold = np.array([epsilon])
        assert_same(*both(partial(contour.log_hockey_stick, terms, threshold)))


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 12, 17, 40, 200])
def test_random_losses(dimension: int, both: Both, full: bool) -> None:
    count = (2000 if full else 300) // max(1, dimension // 20)
    terms, epsilon = random_terms(count, dimension, 1)
    with np.errstate(all="ignore"):
        _, supremum = loss_limits(terms)
        rows = np.flatnonzero(epsilon < supremum)
    chosen, threshold = terms.rows(rows), epsilon[rows]
    compiled, arrays = both(lambda: contour.log_hockey_stick(chosen, threshold))
    assert_same(compiled, arrays)
    assert np.all(compiled.log_value[~np.isinf(compiled.log_error)] <= 1e-9)


def test_deltas_are_probabilities(both: Both) -> None:
    for dimension in (1, 4, 30):
        terms, epsilon = random_terms(60, dimension, 2)
        loss = PrivacyLoss.from_terms(terms.variance_gap, terms.multiplicity, terms.energy)
        for found in both(partial(loss.delta, epsilon)):
            assert np.all((found >= 0) & (found <= 1))


@pytest.mark.parametrize("region", [rules.TAIL_X, rules.TAIL_X_COMPLEMENT, rules.TAIL_Y, rules.TAIL_Y_COMPLEMENT])
def test_tails(region: rules.Region, both: Both) -> None:
    rng = np.random.default_rng(3)
    gap, energy = rng.uniform(-3, 0.9, (200, 6)), rng.exponential(size=(200, 6))
    terms = Terms.from_gaps(gap, np.ones_like(gap), energy)
    threshold = rng.normal(size=200)
    assert_same(*both(lambda: contour.integrate(terms, threshold, region)))


def covariances(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    roots = rng.normal(size=(count, dimension, dimension + 2)) * np.exp(rng.normal(size=(count, dimension, 1)))
    return roots @ roots.swapaxes(1, 2)


@pytest.mark.parametrize("dimension", [1, 2, 3, 12, 40, 64])
def test_reduction(dimension: int, both: Both, full: bool) -> None:
    """Eigenvalues to the precision of the matrix; energies of separated ones; delta to what rounding leaves of it."""
    rng = np.random.default_rng(dimension)
    count = 20 if full or dimension <= 12 else 7  # the last is no special one
    cov_x, cov_y = covariances(rng, count, dimension), covariances(rng, count, dimension)
    cov_x[3] = cov_y[3]  # no difference at all
    cov_x[4] = cov_y[4] + 1e-9 * np.eye(dimension)
    row_y = rng.normal(size=(dimension, 1))
    cov_x[5] = cov_y[5] + row_y @ row_y.T  # rank one
    mean_x = rng.normal(size=(count, dimension))
    compiled, arrays = both(lambda: GaussianPair(mean_x, cov_x, np.zeros_like(mean_x), cov_y))
    scale = np.max(np.abs(arrays.variance_gap), axis=-1, keepdims=True)
    assert np.all(np.abs(compiled.variance_gap - arrays.variance_gap) <= 1e-11 * scale)
    assert np.all(np.diff(compiled.variance_gap, axis=-1) >= 0)
    assert compiled.variance_gap[3] == pytest.approx(0, abs=0)
    np.testing.assert_allclose(compiled.energy.sum(-1), arrays.energy.sum(-1), rtol=1e-9)
    if dimension <= 12:  # larger ones ask for ball arithmetic, which takes its time
        np.testing.assert_allclose(compiled.log_delta(1.0), arrays.log_delta(1.0), rtol=1e-8, atol=1e-8)


def test_special_rows_are_left_to_the_array_library(both: Both) -> None:
    """Ratios over many decades need singular values; every other row keeps its own numbers beside them."""
    rng = np.random.default_rng(6)
    cov_x, cov_y = covariances(rng, 9, 4), covariances(rng, 9, 4)
    cov_x[2], cov_x[7] = 1e-9 * cov_x[2], np.diag([1e-8, 1.0, 2.0, 3.0])
    zero = np.zeros((9, 4))
    compiled, arrays = both(lambda: GaussianPair(zero + 1, cov_x, zero, cov_y))
    np.testing.assert_array_equal(compiled.variance_gap[[2, 7]], arrays.variance_gap[[2, 7]])
    np.testing.assert_allclose(compiled.log_delta(2.0), arrays.log_delta(2.0), rtol=1e-9, atol=1e-9)


def test_errors_name_the_row(both: Both) -> None:
    def refused(cov_x: np.ndarray, cov_y: np.ndarray) -> Callable[[], str]:
        def message() -> str:
            with pytest.raises((NotPositiveDefiniteError, NotSymmetricError)) as caught:
                GaussianPair(np.zeros((5, 2)), cov_x, np.zeros((5, 2)), cov_y)
            return str(caught.value)

        return message

    good = np.broadcast_to(np.eye(2), (5, 2, 2))
    for bad, row_of, text in (
        (np.array([[1.0, 2.0], [2.0, 1.0]]), 3, "index 3"),
        (np.array([[1.0, 1.0], [1.0, 1.0]]), 2, "index 2"),
        (np.array([[-1.0, 0.0], [0.0, 1.0]]), 4, "index 4"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), 1, "symmetric"),
    ):
        spoiled = good.copy()
        spoiled[row_of] = bad
        for pair in ((spoiled, good), (good, spoiled)):
            ours, theirs = both(refused(*pair))
            assert ours == theirs
            assert text in ours


@pytest.mark.parametrize("mean", [10.0**9.5, 1e10, 10.0**13.5, 10.0**16.5, 10.0**18.5])
@pytest.mark.parametrize("variance", [0.1, 0.5, 1.001, 10.0, 1e8])
def test_pairs_too_far_apart_for_doubles_are_not_called_private(both: Both, mean: float, variance: float) -> None:
    """1 - delta underflows here and its exponent has no digits: what is left must err towards delta = 1."""
    pair = GaussianPair([mean], [[variance]], [0.0], [[1.0]])
    for found in both(lambda: pair.delta([0.0, 1.0, 30.0])):
        assert np.all(np.asarray(found) > 0.999)


@pytest.mark.parametrize(
    "pair",
    [
        ([0.0], [[1.7e308]], [0.0], [[1.0]]),
        ([0.0, 0.0], np.eye(2) * 1e300, [0.0, 0.0], np.eye(2) * 1e-300),
        ([1e308], [[1e-300]], [0.0], [[1e-300]]),
        ([1e300], [[1.0]], [0.0], [[1.0]]),
        ([0.0, 0.0], [[1e308, 1e307], [1e307, 1e308]], [0.0, 0.0], np.eye(2) * 1e-5),
    ],
)
def test_what_overflows_is_refused_and_not_taken_for_noise(both: Both, pair: tuple) -> None:
    def refused() -> bool:
        with pytest.raises(NumericalError):
            GaussianPair(*pair)
        return True

    assert both(refused) == (True, True)


def test_an_empty_batch_has_an_empty_curve(both: Both) -> None:
    pair = GaussianPair(np.zeros((0, 2)), np.eye(2), np.zeros(2), np.eye(2))
    assert [np.shape(found) for found in both(lambda: pair.delta(1.0))] == [(0,), (0,)]


STEPS = [Step(0.35, 1e-4), Step(1.1, 0.02), Step(0.9, 0.3, backward=True), Step(0.6, 0.01, replace=True)]


@np.errstate(all="ignore")
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_sums_over_outputs_agree_with_arrays(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real moments, coarse points and their means, and whole lines of bands: native/steps.h against NumPy."""
    parts = Parts(((step, 40),), Companions(Gaussians(*(np.zeros(0) for _ in range(4))))).windowed(-20.0)
    found = []
    for switch in ("1", "0"):
        monkeypatch.setenv(SWITCH, switch)
        bands._coarse.cache_clear()
        chosen = bands.chosen_bands(parts, 0.5)
        assert chosen is not None
        line, points = DoubleBand(*chosen.bands[0], chosen.log_delta).nodes(), chosen.bands[0][0].coarse[0]
        assert line is not None
        moments = [step.real_moments(order, cap) for order in (-0.4, 0.0, 3.0, 60.0) for cap in (6.0, math.inf)]
        windows, means = np.exp([points.whole, points.inside]), points.means(np.array([0.1, 4.0, 90.0]))
        rows = [moments, points.base, points.loss, windows, *means, line.order, line.cumulant[:9], line.rounding[:9]]
        found.append([*rows, np.exp(line.cumulant - line.cumulant[0])])
    monkeypatch.undo()
    bands._coarse.cache_clear()
    for compiled, plain in zip(*found):
        np.testing.assert_allclose(compiled, plain, rtol=2e-10, atol=1e-11)


def test_turned_sums_in_pairs_of_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of w e^(inx) to 2^-80 of the weights against 50 digits; those in doubles to 1e-15."""
    rng, nodes = np.random.default_rng(3), 70
    weights, angles = rng.random((2, 150)), rng.random(150)
    mp.mp.dps = 50
    turns = [mp.expj(mp.mpf(float(angle))) for angle in angles]
    parts = [[mp.mpf(float(w)) for w in row] for row in weights]
    parts += [[turn.real for turn in turns], [turn.imag for turn in turns]]
    pairs = [part for row in parts for part in ([float(x) for x in row], [float(x - mp.mpf(float(x))) for x in row])]
    cpu = pytest.importorskip("gaussveil.spectrum.native.cpu")
    found = cpu.step_sums("twice_turned", np.array(pairs), nodes, 8)
    points = np.array([*weights, angles])
    plain = cpu.step_sums("turned", points, nodes, 4, first=0)
    monkeypatch.setenv(SWITCH, "0")
    np.testing.assert_allclose(plain[::2] + 1j * plain[1::2], turned_sums(points, 0, 3)[:, :nodes], atol=1e-12)
    for n in (0, 1, 33, nodes - 1):
        for row in (0, 1):
            wanted = mp.fsum(w * turn**n for w, turn in zip(parts[row], turns))
            real, imag = (mp.mpf(found[k, n]) + mp.mpf(found[k + 1, n]) for k in (4 * row, 4 * row + 2))
            assert abs(mp.mpc(real, imag) - wanted) < 2.0**-80 * mp.fsum(parts[row])
            assert abs(mp.mpc(*plain[2 * row : 2 * row + 2, n]) + mp.fsum(parts[row]) - wanted) < 1e-12
