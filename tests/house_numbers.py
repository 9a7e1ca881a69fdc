"""A few hundred numbers of the library at settings drawn from a seed: who changes one of them changes what users read.

Seed 1 is stored (`tests/reference/house_numbers.json`, by `python -m tests.house_numbers`): on every machine, with
every build of the kernel and every Python the same numbers come out, to the last digits that bounds leave open. The
tool that changes the library on purpose (`scripts/mutants.py`) asks another seed whether a change changed any number.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy.stats import norm

from gaussveil import (
    BLT,
    DPSGD,
    Accountant,
    Allocation,
    ApproximatePoint,
    BandMF,
    DiscreteGaussian,
    DiscreteLaplace,
    Enclosure,
    Exponential,
    Gaussian,
    GaussianPair,
    Laplace,
    Ledger,
    MatrixMechanism,
    Pair,
    PrivacyCurve,
    PrivacyLoss,
    RandomisedResponse,
    RenyiBound,
    ZeroConcentrated,
    calibrate,
    compose,
    covering_ellipsoid,
)
from gaussveil.accounting import Adjacency, Charge
from gaussveil.errors import GaussveilError
from gaussveil.noise.discrete_gaussian import AliasTable
from gaussveil.noise.gaussian import GaussianNoise
from gaussveil.noise.generator import SeededGenerator
from gaussveil.noise.laplace import discrete_laplace

STORED = Path(__file__).parent / "reference" / "house_numbers.json"
AGREEMENT = 1e-8  # relative: far above what machines differ by, far below what a wrong sign or factor does
SEARCHED = ", searched"  # ends the name of what a search for the best leaves, near which all are as good
AGREEMENT_OF_SEARCHES = 1e-6
NOTHING = 1e-290  # below it numbers are compared by their size alone
REFUSED = math.nan
Number = Callable[[], float]


def numbers(seed: int) -> dict[str, float]:
    """Every number by its name; nan where the library refuses, which is an answer as well."""
    found = {}
    for room in (pairs, runs, laws, mixed, designs, books, drawn):
        for name, number in room(Random(f"{room.__name__} {seed}")):
            found[name] = REFUSED
            with suppress(GaussveilError):
                found[name] = float(number())
    return found


def differing(ours: dict[str, float], stored: dict[str, float]) -> list[str]:
    """Names whose numbers are not the same."""
    return sorted(
        name for name in ours.keys() | stored.keys() if not _agree(name, ours.get(name, -1.0), stored.get(name, -2.0))
    )


def _agree(name: str, ours: float, stored: float) -> bool:
    return same(ours, stored, AGREEMENT_OF_SEARCHES if name.endswith(SEARCHED) else AGREEMENT)


def same(one: float, other: float, agreement: float = AGREEMENT) -> bool:
    """Whether two numbers agree; no number and no number do."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or abs(one - other) <= agreement * max(abs(one), abs(other), NOTHING)


Named = Iterator[tuple[str, Number]]


def curve_numbers(name: str, curve: PrivacyCurve, epsilon: float, delta: float, *, inverse: bool = True) -> Named:
    """What one asks of any curve: doubles, both proven ends, inverses, other languages."""
    yield f"{name}: delta", partial(curve.delta, epsilon)
    yield f"{name}: delta of both", partial(curve.dp_delta, epsilon)
    yield f"{name}: log delta of three", partial(curve.log_delta, 3.0 * epsilon)
    yield f"{name}: reversed", lambda: curve.reversed().delta(epsilon)
    yield from both_ends(name, lambda: curve.dp_enclose(epsilon))
    yield f"{name}: Renyi", partial(curve.renyi, 3.5)
    if inverse:
        yield f"{name}: epsilon", partial(curve.dp_epsilon, delta)
        yield f"{name}: one way", partial(curve.epsilon, delta)
        yield f"{name}: advantage", curve.advantage
        yield f"{name}: trade-off", partial(curve.tradeoff, 0.03)


def both_ends(name: str, enclose: Callable[[], Enclosure]) -> Named:
    """Ends of an enclosure that is computed once."""
    ends = cache(enclose)
    yield f"{name}: upper end", lambda: ends().upper
    yield f"{name}: lower end", lambda: ends().lower
    yield f"{name}: proven", lambda: ends().proven


def pairs(random: Random) -> Named:
    """Two Gaussians, of few and many coordinates, near and far, well and ill conditioned."""
    for dimension, strength in ((1, 0.3), (2, 1.0), (4, 0.1), (7, 3.0), (12, 0.03)):
        rng = np.random.default_rng(random.getrandbits(32))
        basis = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
        covariance = basis @ np.diag(10.0 ** rng.uniform(-2, 2, dimension)) @ basis.T
        root = np.eye(dimension) + strength * rng.normal(size=(dimension, dimension)) / dimension
        shift = strength * np.linalg.cholesky(covariance) @ rng.normal(size=dimension)
        pair = GaussianPair(shift, root @ covariance @ root.T, np.zeros(dimension), covariance)
        yield from curve_numbers(f"pair of {dimension}", pair, random.uniform(0.1, 2.0), 1e-6)
    energies = [random.uniform(0.1, 2.0) for _ in range(3)]
    terms = PrivacyLoss.from_terms([0.3, -0.2, 0.05], [2, 1, 40], energies)
    yield from curve_numbers("terms", terms, random.uniform(0.1, 1.0), 1e-5)
    shifts = compose(terms, GaussianPair.mean_shift(random.uniform(0.2, 2.0)))
    yield from curve_numbers("composed", shifts, random.uniform(0.1, 1.0), 1e-7)
    yield "mean shift: advantage", GaussianPair.mean_shift(random.uniform(0.01, 5.0)).advantage


def runs(random: Random) -> Named:
    """Training runs of both relations, short, long, of fixed batches, and allocations."""
    settings = (
        ("add-remove", 0.7, 0.01, 1_000),
        ("add-remove", 1.3, 0.2, 20),
        ("add-remove", 5.0, 1e-4, 100_000),
        ("add-remove", 0.4, 1e-3, 3),
        ("replace", 1.0, 0.02, 200),
        ("replace", 2.0, 1e-3, 5),
        ("add-remove", 0.8, 1.0, 7),
        ("replace", 3.0, 1.0, 7),
    )
    for relation, noise, rate, steps in settings:
        noise *= random.uniform(0.9, 1.2)
        used = rate if rate == 1.0 else rate * random.uniform(0.8, 1.2)
        run = Accountant(relation=relation)
        run.add(DPSGD(noise_multiplier=noise, sampling_rate=used), steps)
        name = f"{steps} steps of {relation} at {rate:g}"
        yield from accountant_numbers(name, run, delta=10.0 ** random.uniform(-9, -3), tradeoff=steps == 1_000)
    fixed = Accountant(relation="replace")
    fixed.add(DPSGD(noise_multiplier=random.uniform(1, 3), sampling_rate=0.01, fixed_size=True), 50)
    yield from accountant_numbers("fixed size", fixed, delta=1e-6)
    allotted = Accountant()
    allotted.add(Allocation(noise_multiplier=random.uniform(1, 2), steps=40), 2)
    yield from accountant_numbers("one of 40 steps", allotted, delta=1e-5)


def accountant_numbers(name: str, run: Accountant, delta: float, *, tradeoff: bool = False) -> Named:
    """Epsilon, delta and both ends there, another language; a point of the trade-off curve."""
    epsilon = cache(partial(run.epsilon, delta))
    yield f"{name}: epsilon", epsilon
    yield f"{name}: delta", lambda: run.delta(1.1 * epsilon())
    yield from both_ends(name, lambda: run.enclose(1.1 * epsilon()))
    if tradeoff:
        yield f"{name}: trade-off", partial(run.tradeoff, 0.02)
    yield f"{name}: Renyi", partial(run.renyi, 4.0)


def laws(random: Random) -> Named:
    """Mechanisms that are no Gaussians, alone and thrice."""
    epsilon = random.uniform(0.3, 1.5)
    masses = [random.uniform(0.5, 1.0) for _ in range(6)]
    whole = sum(masses)
    first = [mass / whole for mass in masses]
    curves = {
        "Laplace": Laplace(epsilon),
        "discrete Laplace": DiscreteLaplace(1, 2.0 / epsilon),
        "randomised response": RandomisedResponse(epsilon),
        "exponential": Exponential(epsilon),
        "discrete Gaussian": DiscreteGaussian(random.uniform(0.8, 3.0)),
        "point": ApproximatePoint(epsilon, 1e-7),
        "masses": Pair(first, first[::-1]),
        "density": Pair(norm(random.uniform(0.2, 1.0), 1.0), norm(0.0, 1.0)),
    }
    for name, curve in curves.items():
        yield f"{name}: delta", partial(curve.delta, 0.4 * epsilon)
        yield f"{name}: epsilon", partial(curve.dp_epsilon, 1e-3)
        yield f"{name}: Renyi", partial(curve.renyi, 2.5)
        thrice = Accountant()
        thrice.add(curve, 3)
        yield f"{name} thrice: epsilon", partial(thrice.epsilon, 1e-4)
        yield from both_ends(f"{name} thrice", partial(thrice.enclose, epsilon))
    for name, bound in (("Renyi", RenyiBound((2.0, 8.0), (0.1, 0.5))), ("zero concentrated", ZeroConcentrated(0.1))):
        yield f"{name} bound: delta", partial(bound.delta, 1.0)
        yield f"{name} bound: epsilon", partial(bound.dp_epsilon, 1e-5)


def mixed(random: Random) -> Named:
    """Other laws beside Gaussians and training; groups."""
    beside = Accountant()
    beside.add(DPSGD(noise_multiplier=random.uniform(0.8, 1.2), sampling_rate=0.01), 300)
    beside.add(Laplace(random.uniform(0.2, 0.6)))
    beside.add(Gaussian(noise_multiplier=random.uniform(3, 6)), 2)
    yield from accountant_numbers("training beside Laplace", beside, delta=1e-5)
    releases = Accountant()
    releases.add(Gaussian(noise_multiplier=random.uniform(2, 4)), 5)
    releases.add(RandomisedResponse(random.uniform(0.2, 0.6)), 2)
    releases.add(ApproximatePoint(0.1, 1e-8))
    yield from accountant_numbers("Gaussians beside responses", releases, delta=1e-6)
    yield "group: epsilon", lambda: releases.group(2).epsilon(1e-4)
    both = Accountant(relation="replace")
    both.add(Gaussian(noise_multiplier=random.uniform(2, 4)), 3)
    yield "replaced Gaussians: epsilon", partial(both.epsilon, 1e-6)


def designs(random: Random) -> Named:
    """Noise for a promise, strategies, bodies that cover."""
    epsilon = random.uniform(0.5, 3.0)
    yield "noise of one release", lambda: calibrate(Gaussian(), epsilon=epsilon, delta=1e-6)
    yield "noise of a run", lambda: calibrate(DPSGD(sampling_rate=0.02), steps=500, epsilon=epsilon, delta=1e-5)
    yield "noise for an advantage", lambda: calibrate(Gaussian(), steps=4, advantage=0.2)
    yield "noise for an attack", lambda: calibrate(Gaussian(), steps=2, true_positive_rate=0.1, at=0.01)
    banded = MatrixMechanism(BandMF(64, 8), noise_multiplier=random.uniform(1, 2), sampling_rate=0.1)
    yield "bands: epsilon", partial(banded.dp_epsilon, 1e-5)
    for takes, separation in ((1, 1), (3, 16)):
        strategy = BLT(64, buffers=2, takes=takes, separation=separation)
        toeplitz = MatrixMechanism(strategy, noise_multiplier=random.uniform(1, 2), takes=takes, separation=separation)
        yield f"buffers of {takes}: delta", partial(toeplitz.delta, 1.0)
        for place in (1, 7):
            yield f"buffers of {takes}: {place}{SEARCHED}", lambda place=place, own=strategy: own.coefficients()[place]
    rng = np.random.default_rng(random.getrandbits(32))
    body = covering_ellipsoid(rng.normal(size=(9, 3)))
    for place in range(3):
        yield f"ellipsoid: {place}", lambda place=place: body.covariance[place, (place + 1) % 3]


def books(random: Random) -> Named:
    """What accounts have spent, by both filters, and what a plan may still buy."""
    home = Adjacency.add_remove("home")
    shift = Charge(GaussianPair.mean_shift(random.uniform(0.1, 0.4)), sampler_error=1e-12)
    spread = Charge(PrivacyLoss.from_terms([random.uniform(-0.01, 0.01), 0.0], [1, 1], [0.0, 0.01]))
    noise = Charge(Laplace(random.uniform(0.05, 0.2)))
    for filtered, charges in (("mean-shift", (shift, shift)), ("renyi", (spread, shift, noise))):
        yield from account_numbers(f"{filtered} filter", home, charges, filter=filtered)
    plan = [(shift, 3), (spread, 2)]
    yield from account_numbers("plan", home, (shift, spread), rule="planned", plan=plan, adjacency=home)


def account_numbers(name: str, neighbours: Adjacency, charges: Sequence[Charge], **terms: Any) -> Named:
    """What a statement says of an account that paid for these."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "new.ledger")
        ledger.open_account("all", epsilon=3.0, delta=1e-5, **terms)
        for charge in charges:
            ledger.debit("all", charge, neighbours)
        statement = ledger.statement("all")
    for said in ("spent_epsilon", "spent_delta", "filter_used"):
        value = getattr(statement, said)
        if value is not None:
            yield f"{name}: {said}", lambda value=value: value


def drawn(random: Random) -> Named:
    """Noise of known seeds, what its law is off by, its grid."""
    for width in (0.7, 90.0, 4e6):
        used = width * random.uniform(0.9, 1.1)
        noise = GaussianNoise(used, (3,))
        generator = SeededGenerator(random.getrandbits(30))
        for place, value in enumerate(noise.draw(generator).tolist()):
            yield f"noise of {width:g}: draw {place}", lambda value=value: value
        yield f"noise of {width:g}: variation", lambda noise=noise: noise.total_variation
        yield f"noise of {width:g}: grid", lambda noise=noise: noise.grid
    table = AliasTable(Fraction(random.randrange(20, 60)))
    yield "table: variation", lambda: table.total_variation
    steps = discrete_laplace(random.uniform(2.0, 9.0), 4, SeededGenerator(random.getrandbits(30)))
    for place, value in enumerate(np.asarray(steps).tolist()):
        yield f"Laplace noise: draw {place}", lambda value=value: value


def stored() -> dict[str, float]:
    """The numbers of seed 1 as they were written."""
    kept = json.loads(STORED.read_text(encoding="utf-8"))
    return {name: math.nan if value is None else value for name, value in kept.items()}


if __name__ == "__main__":
    written = {name: None if math.isnan(value) else value for name, value in numbers(1).items()}
    STORED.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(written)} numbers\n")
