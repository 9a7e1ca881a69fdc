"""What a release costs its account in processor time, against the promise, and whether later ones cost more.

Everything as every mechanism does it: `transaction`, one draw of nothing, durable commits. "Again" is a design released
before in the process; "new" one whose charge was never seen, so that its delta is enclosed. Faint pairs have a delta of
next to nothing; ordinary ones, in 4, 8 and 12 dimensions, one of 1e-6, at the very epsilon that they are certified for.
The peer is the budget of processor time that the debit was given: 4 ms for a mean shift, 8 ms for a pair.

The account of 10^5 releases is filled by the library's own debits, thousands of them prepared and committed together;
what is measured at each size are single releases with commits of their own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import limits
from gaussveil.accounting import Account, Adjacency, CertificateDraft, Charge, Ledger, transaction
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.enclosures.matrix_reduction import matrix_spectra, matrix_spectrum

RELEASES, ORDINARY = 200, 40
SIZES = (1000, 10_000, 100_000)
DRAFT = CertificateDraft(released="x", mechanism="m", adjacency=Adjacency.add_remove(), epsilon=1.0, delta=0.1)
DELTA = 1e-6
FAINT: dict[str, tuple[float, Callable[[int], PrivacyLoss]]] = {
    "a mean shift, again": (4e-3, lambda number: GaussianPair.mean_shift(1e-3)),
    "a mean shift, new": (4e-3, lambda number: GaussianPair.mean_shift(1e-3 * (1 + 1e-6 * number))),
    "a faint pair, again": (8e-3, lambda number: PrivacyLoss.from_terms([-1e-3, 0.0], [1, 1], [0.0, 1e-6])),
    "a faint pair, new": (
        8e-3,
        lambda number: PrivacyLoss.from_terms([-1e-3 - 1e-9 * number, 0.0], [1, 1], [0.0, 1e-6]),
    ),
}
Release = tuple[PrivacyLoss | Charge, CertificateDraft]


def ordinary(dimension: int, number: int) -> GaussianPair:
    """Covariances that differ by some percent, a mean gap of 0.1."""
    rng = np.random.default_rng((dimension, number))
    roots = 0.05 * rng.normal(size=(2, dimension, dimension + 8))
    cov_x, cov_y = np.eye(dimension) + roots @ roots.swapaxes(-1, -2)
    mean = rng.normal(size=dimension)
    return GaussianPair(0.1 * mean / np.linalg.norm(mean), cov_x, np.zeros(dimension), cov_y)


def certified(pair: PrivacyLoss) -> CertificateDraft:
    """A draft that claims no more than the pair keeps, by one part in a million of delta."""
    epsilon = float(pair.dp_epsilon(DELTA * (1 - 1e-6)))
    return CertificateDraft(released="x", mechanism="m", adjacency=DRAFT.adjacency, epsilon=epsilon, delta=DELTA)


def ordinary_releases(kind: str, dimension: int, count: int) -> Iterator[Release]:
    """Pairs that nobody has seen: of matrices, reduced as part of the debit, or charges of pairs calibrated before."""
    for number in range(count):
        pair = ordinary(dimension, number if kind == "matrices" else number + count)
        draft = certified(pair)
        for cache in (matrix_spectra, matrix_spectrum):
            cache.cache_clear()
        yield (ordinary(dimension, number) if kind == "matrices" else Charge(pair)), draft


def seconds(account: Account, releases: Iterable[Release]) -> float:
    """Processor time of one release, the mean over some of them."""
    return float(np.mean(all_seconds(account, releases)))


def all_seconds(account: Account, releases: Iterable[Release]) -> list[float]:
    """Processor time of each release."""
    times = []
    for source, draft in releases:
        before = time.process_time()
        charge = source if isinstance(source, Charge) else Charge(source)
        with transaction(account, charge, draft, at_once=True) as debit:
            debit.draw(lambda: None)
        times.append(time.process_time() - before)
    return times


@contextmanager
def one_commit(ledger: Ledger) -> Iterator[None]:
    """Debits inside share one commit instead of one each."""
    with (
        ledger._database.writing() as connection,
        patch.object(ledger._database, "held", nullcontext),
        patch.object(ledger._database, "reading", lambda: nullcontext(connection)),
        patch.object(ledger._database, "writing", lambda **_: nullcontext(connection)),
    ):
        yield


def run(sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (promised, make) in FAINT.items():
            account = opened(folder, name)
            seconds(account, ((make(number), DRAFT) for number in range(3)))
            ours = seconds(account, ((make(number), DRAFT) for number in range(3, 3 + RELEASES)))
            rows.append(row(name, ours, promised, {}))
        for kind in ("terms", "matrices"):
            for dimension in (4, 8, 12):
                account = opened(folder, f"{kind} {dimension}")
                releases = ordinary_releases(kind, dimension, ORDINARY + 3)
                seconds(account, islice(releases, 3))
                times, least = all_seconds(account, releases), limits.pair(dimension, matrices=kind == "matrices")
                name = f"an ordinary pair of {kind}, d = {dimension}, new"
                rows.append(row(name, float(np.mean(times)), 8e-3, least))
                rows[-1]["note"] += f"; median {1e3 * np.median(times):.3g} ms, worst {1e3 * max(times):.3g} ms"
        rows.append(growth(folder, sizes))
    return rows


def opened(folder: str, name: str) -> Account:
    return Ledger.create(Path(folder) / f"{name}.ledger").open_account("bench", epsilon=40.0, delta=0.1)


def growth(folder: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    """One release after so many others on the account; the goal is the slope in doubly logarithmic scales."""
    account = opened(folder, "many")
    ledger, again = Ledger(account.ledger), (GaussianPair.mean_shift(1e-3), DRAFT)
    charge, found, made = Charge(again[0]), [], 0
    seconds(account, [again] * 10)
    for size in sizes:
        while made < size:
            with one_commit(ledger):
                prepared = ledger._prepared("bench", charge, DRAFT.adjacency)
                for _ in range(min(5000, size - made)):
                    about = (f"other {made}", "worst case", "x", False)
                    ledger._debited(prepared, "bench", charge, DRAFT.adjacency, about)
                    made += 1
        found.append(seconds(account, [again] * RELEASES))
    slope = float(np.polyfit(np.log(sizes), np.log(found), 1)[0])
    shown = ", ".join(f"{size:g}: {1e3 * taken:.3g} ms" for size, taken in zip(sizes, found))
    return {
        "name": f"slope of a debit's cost, up to {sizes[-1]:g} others on the account, against 0.1",
        "ours": slope,
        "peer": 0.1,
        "ratio": None,
        "goal": None,
        "met": slope <= 0.1,
        "note": shown,
    }


def row(name: str, ours: float, peer: float, enclosure: dict[str, float]) -> dict[str, Any]:
    """One debit beside its promise and its limit: a commit and, of a pair that matters, an enclosure."""
    return {
        "name": f"debit: {name}, against the promised {peer:g} s",
        "ours": ours,
        "peer": peer,
        "ratio": peer / ours,
        "goal": 1.0,
        "met": ours <= peer,
        "note": f"{1e3 * ours:.3g} ms; {limits.limit(commits=1, **enclosure)}",
    }


if __name__ == "__main__":
    for found in run():
        print(found)
