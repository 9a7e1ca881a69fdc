"""Parts of the NDIS study about random projection: Figure 2, Theorem 5.2, the subsampled and tested sketches."""

from __future__ import annotations

from gaussveil.calibration import random_projection
from gaussveil.typing import Progress
from gaussveil_studies.ndis import sketch
from gaussveil_studies.ndis.figures import improvement_figure
from gaussveil_studies.study import Options, Paper, Part, Picture, Table, Value, shown

PAPER = Paper("NDIS")

DELTA = 1e-6
RATE = 0.1


def figure_2(options: Options, progress: Progress) -> Part:
    """Figure 2, the utility bound of Theorem 5.2 (Monte Carlo), and other calibrations of the same sketch."""
    factors = sketch.improvement_factor(
        options.pick((0.1, 5.0), sketch.EPSILONS, sketch.EPSILONS)
    )
    progress("other calibrations", 0.3)
    others = sketch.other_calibrations(
        options.pick((1.0,), (0.5, 1.0, 2.0, 5.0), sketch.EPSILONS),
        options.pick((50,), (50, 200), sketch.COMPONENTS),
    )
    progress("Theorem 5.2", 0.5)
    utility = sketch.utility_bound(
        options.pick((50,), (50, 200), sketch.COMPONENTS),
        draws=options.pick(10, 100, 1000),
        seed=options.seed,
    )
    least, largest = (bound(row["factor"] for row in factors) for bound in (min, max))
    constants = [row["constant"] for row in utility]
    claims = (
        PAPER.judged(
            "figure-2-least",
            f"{shown(least)} to {shown(largest)} times",
            borne_out=least > 1,
        ),
        PAPER.judged(
            "theorem-5-2",
            f"constant {shown(min(constants))} to {shown(max(constants))}",
            borne_out=max(constants) < 3,
        ),
    )
    columns = (
        "components: r; epsilon; leverage: leverage, exact; leverage_lsv: by singular values; factor: ratio; "
        "ridge_factor: ratio of ridges"
    )
    beside = (
        "components: r; epsilon; ridge: ridge, exact; ridge_renyi: Rényi; ridge_printed: as printed; sketch_error: "
        "least error; gaussian_error: Gaussian mechanism"
    )
    measured = "components: r; ridge; error_quantile: 95 % quantile; quantile_error: standard error; constant"
    return Part(
        "Random projection: Figure 2 and Theorem 5.2",
        (
            "Leverage that a row may have at delta = 1e-6. The exact pair allows several times what bounds on the "
            "least singular value do; the tight ridge of corrections N4 adds to that.",
        ),
        (
            Table.of("leverage", factors, columns),
            Table.of(
                "calibrations",
                others,
                beside,
                "Rows of norm 1, 10 columns, delta 1e-6: least possible error of the Gram matrix, Frobenius norm",
            ),
            Table.of(
                "utility",
                utility,
                measured,
                "Spectral error of the Gram matrix over seeded draws",
            ),
        ),
        (
            Picture.of(
                "improvement",
                improvement_figure(factors),
                "Figure 2: allowed leverage by the exact spectrum over "
                "the one that singular values allow, delta = 1e-6.",
            ),
        ),
        claims,
    )


def sketches(options: Options, progress: Progress) -> Part:
    """Ridges of the plain, the subsampled and the tested random projection; Figures 1, 3 and 4."""
    epsilons = options.pick(
        (1.0,), (0.5, 1.0, 2.0, 4.0), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    )
    rows: list[dict[str, Value]] = []
    for place, epsilon in enumerate(epsilons):
        progress(f"epsilon {epsilon:g}", place / len(epsilons))
        excess = random_projection.approximate_excess(epsilon, DELTA, 100)
        sampled = random_projection.subsampled_excess(epsilon, DELTA, 100, RATE)
        tested = random_projection.propose_test_release(epsilon, DELTA, 100)
        rows.append(
            {
                "epsilon": epsilon,
                "printed": 1.0 + random_projection.tight_ridge(1.0, excess),
                "tight": random_projection.tight_ridge(1.0, excess),
                "subsampled": random_projection.tight_ridge(1.0, sampled),
                "subsampled_scaled": random_projection.tight_ridge(1.0, sampled) / RATE,
                "tested": 1.0 + 1.0 / tested.excess,
                "test_noise": 1.0 / tested.shift,
            }
        )
    columns = (
        f"epsilon; printed: as printed; tight; subsampled: sample of {RATE:g}; subsampled_scaled: in units of all "
        "rows; tested: tested: eigenvalue; test_noise: test noise"
    )
    return Part(
        "Random projection, subsampled and tested",
        (
            "Ridge in squared row norms for 100 components at delta = 1e-6. A sample needs a smaller ridge, but stands "
            "for fewer rows. The tested sketch needs no ridge once the smallest eigenvalue clears the figure shown "
            "plus the test's margin.",
        ),
        (Table.of("ridges", rows, columns),),
    )
