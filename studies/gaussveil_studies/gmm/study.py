"""`gaussveil study gmm`: Figures 1 to 10 of the GMM paper, ours beside what it prints, and what is refuted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gaussveil.audit import audit_mechanism
from gaussveil.figure_style import INK, SERIES, drawing
from gaussveil.typing import Progress
from gaussveil_studies.gmm.label_parts import public_labels, real_labels
from gaussveil_studies.gmm.release_parts import composition, public_goals, real_goals, uses
from gaussveil_studies.gmm.releases import DELTA, EPSILONS, as_printed, by_record
from gaussveil_studies.gmm.settings import Setting, iris, mnist, profiles, synthetic
from gaussveil_studies.gmm.sweeps import OURS, RELEASES, columns_of, figure_of, marginals_figure, sweep
from gaussveil_studies.gmm.uses import accuracy
from gaussveil_studies.published.additive_wishart import additive_wishart, escape_probability, evidence, wishart_rate
from gaussveil_studies.published.gmm_kl import printed_design
from gaussveil_studies.real_data import PROFILES
from gaussveil_studies.study import Claim, Options, Paper, Part, Picture, Row, Step, Study, Table, judged, shown
from gaussveil_studies.summaries import SUMMARIES

PAPER = Paper(__file__)

MNIST_FILES = tuple(
    f"mnist/{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
DIVERGENCE = "median divergence from the fit without privacy."
SHOWN_EPSILON = 2.0  # of Figures 6 and 8


def synthetic_figures(options: Options, progress: Progress) -> Part:
    """Figures 1 to 4: epsilon, records, classes, columns."""
    repeats, sets = options.pick(1, 6, 1000), options.pick(1, 3, 50)

    def settings(**sizes: int) -> list[Setting]:
        return [synthetic(options.seed + number, **sizes) for number in range(sets)]

    plain = settings()
    knobs = {
        "epsilon": [(epsilon, plain, epsilon) for epsilon in options.pick((1.0,), EPSILONS, EPSILONS)],
        "N": [
            (float(n), settings(size=n), 1.0)
            for n in options.pick((500,), (500, 1000, 2000, 5000), (500, 1000, 2000, 5000))
        ],
        "K": [(float(k), settings(classes=k), 1.0) for k in options.pick((3,), (3, 5, 8), (3, 5, 7, 9))],
        "d": [(float(d), settings(d=d), 1.0) for d in options.pick((2,), (2, 3, 5), (2, 3, 4, 5, 6))],
    }
    found = {}
    for place, (knob, cases) in enumerate(knobs.items()):

        def tell(word: str, share: float, at: int = place) -> None:
            progress(word, (at + share) / len(knobs))

        found[knob] = sweep(knob, cases, repeats, options.seed, tell)
    claims = tuple(
        _beats(f"figure-{number + 1}", f"synthetic, over {knob}", knob, rows)
        for number, (knob, rows) in enumerate(found.items())
    )
    return Part(
        "Synthetic mixtures: Figures 1 to 4",
        (
            f"Five classes in three columns, 1000 records, epsilon 1 where it is not the knob; {repeats} noise draws "
            f"over {sets} data sets. Both directions of the divergence are given: noise that drops classes wins the "
            "first alone (G-h).",
        ),
        tuple(Table.of(f"over-{knob}", rows, columns_of(knob)) for knob, rows in found.items()),
        (
            Picture.of(
                "divergences",
                figure_of(found),
                "Figures 1 to 4: median divergence from the fit without "
                "privacy, against epsilon, records, classes and columns. Solid is private, dashed is not.",
            ),
        ),
        claims,
    )


def _beats(key: str, where: str, knob: str, rows: Sequence[Row]) -> Claim:
    """The paper's claim is that Algorithm 1 has the smallest divergence of all that are compared."""
    last = max(float(row[knob]) for row in rows)
    at = {str(row["release"]): row for row in rows if row[knob] == last}
    printed, label, record = (float(at[name]["median"]) for name in ("Algorithm 1", "ours, label", "ours, record"))
    best = label < printed  # label adjacency is the paper's; a whole record is more to hide
    return judged(
        key,
        f"Algorithm 1 has the least divergence: {where}, at {knob} = {last:g}",
        "least of all",
        f"medians: Algorithm 1 {shown(printed)}; ours, label {shown(label)}, record {shown(record)}",
        refuted=best,
        because="Algorithm 1 is not private; ours are" if best else "what is not private needs less noise",
    )


def iris_figures(options: Options, progress: Progress) -> Part:
    """Figures 5 and 6."""
    setting = iris()
    repeats = options.pick(1, 12, 1000)
    cases = [(epsilon, [setting], epsilon) for epsilon in options.pick((2.0,), EPSILONS, EPSILONS)]
    rows = sweep("epsilon", cases, repeats, options.seed, progress)
    return Part(
        "Iris: Figures 5 and 6",
        ("150 records in three classes of 50, four columns: with record adjacency there is little to hide among.",),
        (Table.of("over-epsilon", rows, columns_of("epsilon")),),
        (
            Picture.of("divergences", figure_of({"epsilon": rows}), f"Figure 5: {DIVERGENCE}"),
            Picture.of(
                "marginals",
                _marginals(setting, (0,), options.seed),
                "Figure 6: sepal length by class at "
                f"epsilon {SHOWN_EPSILON:g}: histogram, fit, ours under record adjacency and Algorithm 1.",
            ),
        ),
        (_beats("figure-5", "Iris", "epsilon", rows),),
    )


def _marginals(setting: Setting, columns: Sequence[int], seed: int) -> Figure:
    models = {
        "fitted": setting.fitted,
        "ours, record": by_record(setting, SHOWN_EPSILON, 7 + seed),
        "Algorithm 1 (not private)": as_printed(setting, SHOWN_EPSILON, 7 + seed),
    }
    return marginals_figure(setting, models, columns)


def load_profiles(options: Options, progress: Progress) -> Part:
    """Figures 7 and 8."""
    setting = profiles(options.folder())
    repeats = options.pick(1, 4, 1000)
    names = options.pick(("ours, record", "ours, label", "Algorithm 1"), tuple(RELEASES), tuple(RELEASES))
    cases = [(epsilon, [setting], epsilon) for epsilon in options.pick((2.0,), EPSILONS, EPSILONS)]
    rows = sweep("epsilon", cases, repeats, options.seed, progress, names)
    counts = np.bincount(setting.codes, minlength=setting.classes)
    return Part(
        "Half-day load profiles: Figures 7 and 8",
        (
            f"{len(setting.rows)} profiles of 12 hours, logarithms, six classes of {', '.join(map(str, counts))} (the "
            "paper's homes are not public; ours are Swiss). Classes and ball come from rows declared public.",
        ),
        (Table.of("over-epsilon", rows, columns_of("epsilon")),),
        (
            Picture.of("divergences", figure_of({"epsilon": rows}), f"Figure 7: {DIVERGENCE}"),
            Picture.of(
                "marginals",
                _marginals(setting, options.pick((0,), (0, 6, 11), (0, 4, 8, 11)), options.seed),
                "Figure 8: marginal densities by class (columns) and hour (rows).",
            ),
        ),
        (_beats("figure-7", "profiles", "epsilon", rows),),
    )


def digits(options: Options, progress: Progress) -> Part:
    """Figures 9 and 10."""
    setting = mnist(options.folder())
    repeats = options.pick(1, 3, 100)
    epsilons = options.pick((1.0,), EPSILONS, EPSILONS)
    names = ("ours, record", "ours, label", "Algorithm 1")
    rows = sweep("epsilon", [(e, [setting], e) for e in epsilons], repeats, options.seed, progress, names)
    scores: list[Row] = []
    plain = accuracy(setting.fitted, setting)
    for epsilon in epsilons:
        for name in names:
            found = [accuracy(RELEASES[name](setting, epsilon, 2000 + number), setting) for number in range(repeats)]
            error = float(np.std(found, ddof=1)) / math.sqrt(repeats) if repeats > 1 else None
            scores.append(
                {
                    "epsilon": epsilon,
                    "release": name,
                    "accuracy": float(np.mean(found)),
                    "error": error,
                    "fitted": plain,
                }
            )
    ours = next(row for row in scores if row["epsilon"] == 1.0 and row["release"] == "ours, record")
    lost = plain - float(ours["accuracy"])
    columns = "epsilon; release; accuracy; error: standard error; fitted: without privacy"
    return Part(
        "MNIST in five columns: Figures 9 and 10",
        (
            f"{len(setting.rows)} training images in the five main directions of other, public ones; test accuracy on "
            f"{len(setting.held_out)} images.",
        ),
        (Table.of("over-epsilon", rows, columns_of("epsilon")), Table.of("accuracy", scores, columns)),
        (
            Picture.of("divergences", figure_of({"epsilon": rows}), f"Figure 9: {DIVERGENCE}"),
            Picture.of("accuracy", _accuracy_figure(scores, plain), "Figure 10: test accuracy; dotted: not private."),
        ),
        (
            _beats("figure-9", "MNIST", "epsilon", rows),
            PAPER.judged(
                "figure-10",
                f"{shown(ours['accuracy'])} at epsilon 1, {shown(plain)} without privacy",
                agrees=lost < 0.02,
            ),
        ),
    )


def _accuracy_figure(rows: Sequence[Row], plain: float) -> Figure:
    with drawing(5.6, 3.0) as (figure, axes):
        axes.axhline(plain, color=INK, linewidth=1.0, linestyle=":")
        for index, name in enumerate(dict.fromkeys(str(row["release"]) for row in rows)):
            own = [row for row in rows if row["release"] == name]
            style = "o-" if name in OURS else "s--"
            axes.plot(
                [row["epsilon"] for row in own],
                [row["accuracy"] for row in own],
                style,
                color=SERIES[index],
                markersize=4,
                label=name,
            )
        axes.set_xscale("log")
        values = sorted({float(row["epsilon"]) for row in rows})
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
        scores = [plain, *(float(row["accuracy"]) for row in rows)]
        axes.set_ylim(max(0.0, min(scores) - 0.02), min(1.0, max(scores) + 0.02))
        axes.set(xlabel="epsilon", ylabel="test accuracy")
        axes.legend(loc="center right")
        return figure


def refutations(options: Options, progress: Progress) -> Part:
    """G-a, G-c and G-d with their numbers."""
    count, draws = 50, options.pick(2000, 4000, 40_000)
    rows: list[Row] = []
    generator = np.random.default_rng(options.seed)
    smaller = np.diag([0.5, 0.3, 0.2])
    larger = smaller + np.diag([1.0 / count, 0.0, 0.0])
    for place, epsilon in enumerate(EPSILONS):
        progress(f"additive Wishart at epsilon {epsilon:g}", place / len(EPSILONS))
        rate = wishart_rate(count, epsilon)
        found = audit_mechanism(
            partial(_wishart, rate, generator),
            smaller,
            larger,
            draws=draws,
            claim=(epsilon, 0.0),
            test=lambda outputs: evidence(outputs.reshape(-1, 3, 3), larger),
        )
        event = found.events[0]
        share = event.hits / event.trials
        rows.append(
            {
                "epsilon": epsilon,
                "claimed": 0.0,
                "escape": escape_probability(rate, 1.0 / count),
                "measured": share,
                "error": math.sqrt(share * (1 - share) / event.trials),
                "refuted": str(found.refuted).lower(),
            }
        )
    design = printed_design(*_five_classes(options.seed), 5, 1.0, DELTA)
    masses = [21 / (1 + 20 * math.exp(sign / 3)) for sign in (1, -1)]
    one = next(row for row in rows if row["epsilon"] == 1.0)
    flower = iris()
    moved = flower.rows.copy()
    moved[0] *= 10
    traces = [
        float(np.trace(printed_design(rows_, flower.codes, 3, 1.0, DELTA).mean_covariances[0]))
        for rows_ in (flower.rows, moved)
    ]
    claims = (
        PAPER.judged(
            "g-a-wishart",
            shown(one["escape"]),
            refuted=all(row["refuted"] == "true" for row in rows),
            because=f"outputs leave the neighbour's cone; measured {shown(one['measured'])} +- "
            f"{shown(one['error'], 1)} (G-a)",
        ),
        PAPER.judged(
            "g-d-mass",
            shown(design.printed_mass),
            refuted=abs(design.printed_mass - 1) > 1e-6
            and min(abs(design.printed_mass - mass) for mass in masses) < 1e-6,
        ),
        PAPER.judged(
            "g-c-noise", f"{shown(traces[1] / traces[0], 2)} times the noise", refuted=traces[1] > 2 * traces[0]
        ),
    )
    columns = (
        "epsilon; claimed: claimed delta; escape: delta at least; measured; error: standard error; refuted: auditor "
        "refutes"
    )
    return Part(
        "Refuted: Algorithm 1 is not private as printed",
        ("Unit rows, 50 of them, one more: an output outside the neighbour's cone convicts with certainty.",),
        (Table.of("wishart", rows, columns),),
        (),
        claims,
    )


def _wishart(rate: float, generator: np.random.Generator, matrix: Any, draws: int) -> NDArray[np.float64]:
    return additive_wishart(matrix, rate, generator, draws).reshape(draws, -1)


def _five_classes(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    setting = synthetic(seed + 1)
    return setting.rows, setting.codes


STUDY = Study(
    "gmm",
    "Private Gaussian mixtures, recomputed",
    SUMMARIES["gmm"],
    (
        Step("synthetic", "synthetic mixtures", synthetic_figures),
        Step("iris", "Iris", iris_figures),
        Step("profiles", "load profiles", load_profiles, files=(PROFILES,)),
        Step("mnist", "MNIST", digits, files=MNIST_FILES),
        Step("goals", "goals: synthetic, Iris", public_goals),
        Step("real-goals", "goals: profiles, MNIST", real_goals, files=(PROFILES, *MNIST_FILES)),
        Step("labels", "label adjacency: synthetic, Iris", public_labels),
        Step("real-labels", "label adjacency: profiles, MNIST", real_labels, files=(PROFILES, *MNIST_FILES)),
        Step("uses", "households, private directions, samples", uses, files=(PROFILES, *MNIST_FILES)),
        Step("refutations", "refutations", refutations),
        Step("composition", "composition of classes", composition),
    ),
)
