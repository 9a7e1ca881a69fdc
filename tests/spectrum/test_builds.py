"""The same answers from every build of the kernel: they may differ in last digits, never in kind."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaussveil import DPSGD, Accountant, GaussianPair
from gaussveil.errors import GaussveilError
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.native import source
from gaussveil.spectrum.selection import SWITCH
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.step import Step

from .builds import CountedLibrary, builds, compiled, forget

pytestmark = pytest.mark.xdist_group("builds of the kernel")  # each is compiled once

REPOSITORY = Path(__file__).parents[2]
REFERENCE = REPOSITORY / "tests" / "reference"
QUICK = [name for name in ("sse2", "avx2-fused", "avx512-fused", "neon", "neon-fused") if name in builds()]
Outcome = tuple[float, ...] | str
Kernel = Callable[[str], CountedLibrary]
NAMED = [  # settings at which one machine answered and another did not: noise multiplier, rate, steps, delta
    (2.0372830869782543, 0.00018460413157706757, 17132, 1.2089664276663088e-11),
    (1.0690214284450592, 0.0002721892643994218, 23, 1e-9),
    (0.45, 1e-6, 8, 1e-7),
]


def table(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((REFERENCE / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    return cases


def stress_matrices(number: int) -> list[np.ndarray]:
    """Matrices of all conditions up to 1e12, shifts of all sizes; the same bits on every machine.

    Factors are rounded far above what libraries differ by, and products of fractions are rounded once: those of BLAS
    differ in the last place, which moves a delta by 2e-10 of itself at a condition of 1e8, far more than its ends.
    """
    rng = np.random.default_rng([38, number])
    size = int(rng.integers(1, 9))
    basis = rounded(np.linalg.qr(rng.normal(size=(size, size)))[0])
    spread = rounded(np.diag(10.0 ** np.linspace(0.0, rng.uniform(0.0, 12.0), size)))
    away = rng.normal(size=(size, size)) * 10.0 ** rng.uniform(-6, -0.5) / math.sqrt(size)
    root = rounded(np.eye(size) + away)
    shift = rounded(rng.normal(size=(size, 1)) * np.sqrt(np.diag(spread))[:, None] * 10.0 ** rng.uniform(-3, 0.5))
    cov_y = product(basis, spread, basis.T)
    cov_x = product(root, basis, spread, basis.T, root.T)
    return [product(root, shift)[:, 0], cov_x, np.zeros(size), cov_y]


def rounded(factor: np.ndarray) -> np.ndarray:
    return np.round(factor * 2.0**24) / 2.0**24


def product(*factors: np.ndarray) -> np.ndarray:
    """Of matrices, rounded once."""
    whole = [[Fraction(value) for value in row] for row in factors[0].tolist()]
    for factor in factors[1:]:
        columns = [[Fraction(value) for value in column] for column in factor.T.tolist()]
        whole = [[sum(map(operator.mul, row, column), Fraction(0)) for column in columns] for row in whole]
    return np.array([[float(value) for value in row] for row in whole])


def stress_pair(number: int) -> GaussianPair:
    return GaussianPair(*stress_matrices(number))


def test_pairs_are_the_same_on_every_machine() -> None:
    """Both ends hold the truth of their inputs: of the same ones, two enclosures overlap wherever they are found."""
    found = hashlib.sha256()
    for number in range(40):
        for matrix in stress_matrices(number):
            found.update(np.ascontiguousarray(matrix, dtype="<f8").tobytes())
    assert found.hexdigest()[:16] == "5c2ec6cbebf31f76"


def ends_of_pair(number: int) -> tuple[float, float]:
    return ends_of(stress_pair(number), 0.5)


def reduced(case: dict[str, Any]) -> PrivacyLoss:
    return GaussianPair.from_reduced([float(gap) for gap in case["nu"]], [float(gap) for gap in case["b"]])


def value_of_reduced(case: dict[str, Any]) -> tuple[float]:
    return (float(reduced(case).log_delta(case["eps"])),)


def ends_of_reduced(case: dict[str, Any]) -> tuple[float, float]:
    return ends_of(reduced(case), case["eps"])


def training_loss(case: dict[str, Any]) -> SubsampledLoss:
    return SubsampledLoss([(Step(case["noise_multiplier"], case["sampling_rate"]), case["steps"])])


def values_of_training(case: dict[str, Any]) -> tuple[float, float]:
    loss = training_loss(case)
    return float(loss.log_delta(case["epsilon"])), float(loss.epsilon(math.exp(float(case["log_delta"]))))


def value_of_run(noise: float, rate: float, steps: int, delta: float) -> tuple[float]:
    return (float(Accountant().add(DPSGD(noise_multiplier=noise, sampling_rate=rate), steps).epsilon(delta)),)


def ends_of_training(case: dict[str, Any]) -> tuple[float, float]:
    return ends_of(training_loss(case), case["epsilon"])


def ends_of(loss: Any, epsilon: float) -> tuple[float, float]:
    ends = loss.enclose(epsilon)
    return float(ends.lower), float(ends.upper)


def questions(full: bool) -> Iterator[tuple[str, Callable[[], tuple[float, ...]]]]:
    """What every build is asked: values, to be compared digit by digit, or ends of an enclosure."""
    for case in [*table("gaussian_pairs"), *table("extra_pairs")][:: 1 if full else 3]:
        yield f"value of {case['id']}", partial(value_of_reduced, case)
    for case in table("gaussian_pairs")[:: 1 if full else 6]:
        yield f"ends of {case['id']}", partial(ends_of_reduced, case)
    training = table("training")
    for case in training[:: 1 if full else 140]:
        yield f"value of training {case['index']}", partial(values_of_training, case)
    for setting in NAMED:
        yield f"value at {setting}", partial(value_of_run, *setting)
    for case in training[10 :: 3 if full else 600]:
        yield f"ends of training {case['index']}", partial(ends_of_training, case)
    for number in range(400 if full else 10):
        yield f"ends of pair {number}", partial(ends_of_pair, number)


@np.errstate(all="ignore")
def answers(full: bool) -> dict[str, Outcome]:
    """Numbers, or the name of the refusal, to every question."""
    forget()
    found: dict[str, Outcome] = {}
    for name, question in questions(full):
        try:
            found[name] = question()
        except GaussveilError as refusal:
            found[name] = type(refusal).__name__
    return found


@pytest.fixture(scope="module")
def usual(full: bool) -> dict[str, Outcome]:
    """The answers of what is installed."""
    return answers(full)


@pytest.fixture(scope="module")
def kernel(full: bool, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    """Builds by their names, each compiled when it is first asked for."""
    folder = tmp_path_factory.mktemp("kernels")
    return cache(partial(compiled, folder=folder, optimised=full))


def assert_alike(found: dict[str, Outcome], usual: dict[str, Outcome]) -> None:
    """Alike in kind; values to 1e-9, ends of enclosures in that they hold one number and are as near to each other."""
    assert found.keys() == usual.keys()
    for name, wanted in usual.items():
        answer = found[name]
        if isinstance(answer, str) or isinstance(wanted, str):
            assert answer == wanted, name
        elif name.startswith("value"):
            assert answer == pytest.approx(wanted, rel=1e-9, abs=0.0), name
        else:
            (low, high), (lower, upper) = answer, wanted
            assert max(low, lower) <= min(high, upper), name
            assert (high - low <= 1e-6 * high) == (upper - lower <= 1e-6 * upper), name


@pytest.mark.parametrize("name", QUICK)
def test_every_width_of_vectors_answers_alike(
    name: str, usual: dict[str, Outcome], kernel: Kernel, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_through(kernel(name), usual, full, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(builds().keys() - set(QUICK)))
def test_the_other_builds_answer_alike(
    name: str, usual: dict[str, Outcome], kernel: Kernel, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_through(kernel(name), usual, full, monkeypatch)


def run_through(
    library: CountedLibrary, usual: dict[str, Outcome], full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gaussveil.spectrum.native.cpu._LIBRARY", library)
    try:
        found = answers(full)
    finally:
        forget()
    assert {
        f"gaussveil_{name}" for name in ("integrals", "reductions", "hyperbola", "line", "tilted")
    } <= library.calls.keys()
    assert_alike(found, usual)


def test_without_a_compiler_answers_are_alike(
    usual: dict[str, Outcome], full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "0")
    try:
        found = answers(full)
    finally:
        forget()
    assert_alike(found, usual)


def test_where_nothing_is_fused_every_width_gives_the_same_digits(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No loop adds in an order that depends on the processor: certificates are alike on every x86_64."""
    rng = np.random.default_rng(5)
    roots = rng.normal(size=(2, 40, 7, 9))
    covariances = roots @ roots.swapaxes(-1, -2)
    digits = []
    for name in [name for name in builds() if not name.endswith("-fused")]:
        monkeypatch.setattr("gaussveil.spectrum.native.cpu._LIBRARY", kernel(name))
        pair = GaussianPair(np.full(7, 0.3), covariances[0], np.zeros(7), covariances[1])
        digits.append([np.asarray(pair.variance_gap).tobytes(), np.asarray(pair.log_delta(1.0)).tobytes()])
    assert all(one == digits[0] for one in digits[1:])


def faults_under_sanitisers(sources: Path) -> str:
    """What AddressSanitizer and UndefinedBehaviorSanitizer say of a kernel that sanitised.py drives; "" for nothing."""
    library = sources / "kernel.so"
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1", "-std=gnu11", "-Wno-psabi"]
    command = ["cc", *checks, "-shared", "-fPIC", '-DREVISION=""', str(sources / "kernel.c"), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    runtimes = []
    for name in ("libasan.so", "libubsan.so"):
        printed = subprocess.run(["cc", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
        runtimes.append(str(Path(printed.stdout.strip()).resolve()))
    environment = os.environ | {"LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0"}
    driver = [sys.executable, "-m", "tests.spectrum.sanitised", str(library)]
    run = subprocess.run(driver, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=1200)
    return "" if run.returncode == 0 else run.stdout + run.stderr


@pytest.mark.full
def test_the_kernel_reads_and_writes_where_it_may(tmp_path: Path) -> None:
    """Every entry, odd sizes, and the questions above; a room that is too small is noticed."""
    sound, spoiled = tmp_path / "sound", tmp_path / "spoiled"
    for folder in (sound, spoiled):
        shutil.copytree(source.FOLDER, folder, ignore=shutil.ignore_patterns("*.py", "*.so", "__pycache__"))
    assert faults_under_sanitisers(sound) == ""
    text = (spoiled / "kernel.c").read_text(encoding="utf-8")
    room = "#define ROW_ROOM(terms) (6 *"
    assert room in text
    (spoiled / "kernel.c").write_text(text.replace(room, room.replace("6", "5")), encoding="utf-8")
    assert "heap-buffer-overflow" in faults_under_sanitisers(spoiled)
