"""Drives a kernel built with sanitisers: `python -m tests.spectrum.sanitised FILE`; a fault ends it."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np

from gaussveil.spectrum.native import cpu
from gaussveil.spectrum.terms import Terms

from .builds import CountedLibrary
from .test_builds import answers

ENTRIES = {"integrals", "moments", "reductions", "hyperbola", "diagonalisers", "turns"}
ENTRIES |= {"turned", "twice_turned", "points", "means", "tilted", "line", "saddle"}


def odd_sizes() -> None:
    """Batches that fill no vector, one term and many, and matrices of every small size."""
    rng = np.random.default_rng(8)
    for rows, size in product((1, 2, 5, 9), (1, 2, 3, 4, 7, 12, 33)):
        roots = rng.normal(size=(2, rows, size, size + 2))
        cov_x, cov_y = roots @ roots.swapaxes(-1, -2)
        mean = rng.normal(size=(rows, size))
        gap, _, energy, *_ = cpu.reduce_rows(mean, cov_x, np.zeros_like(mean), cov_y)
        terms = Terms.from_gaps(gap, np.ones_like(gap), energy**2)
        cpu.log_hockey_stick(terms, np.linspace(0.0, 3.0, rows))
        cpu.moments(terms, np.full(rows, 0.5), 1)
        first, low = np.linalg.inv(roots[1, :, :, :size]), np.zeros((rows, size, size))
        cpu.turn(cov_x, low, first, low)
        cpu.diagonalise(mean, cov_x, np.zeros_like(mean), cov_y, np.ones((rows, size)), first, low)
    for size, count in product((1, 31, 32, 33, 200), (1, 31, 33, 290)):
        cpu.step_sums("turned", rng.random((3, size)), count, 4, first=3)
        cpu.step_sums("twice_turned", rng.random((8, size)), count, 8)


def main() -> int:
    """How many entries were not called."""
    library = CountedLibrary(Path(sys.argv[1]))
    vars(cpu)["_LIBRARY"] = library
    with np.errstate(all="ignore"):
        odd_sizes()
    refused = [name for name, answer in answers(False).items() if isinstance(answer, str)]
    called = {name.removeprefix("gaussveil_") for name in library.calls}
    print(f"{sum(library.calls.values())} calls, refused: {refused}, not called: {sorted(ENTRIES - called)}")
    return len(ENTRIES - called)


if __name__ == "__main__":
    sys.exit(main())
