"""Example 3 of the GMM paper: few labelled records, and more drawn from a released model of many.

A classifier (logistic regression on squares and products) is trained on a few digits, alone and with records drawn from
a model of all 5000 images: the fit without privacy, ours, Algorithm 1 and its baselines.
Total variation, which bounds the loss of generalisation, is at most the square root of half the divergence (Pinsker).
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from gaussveil.typing import Floats, Integers, Progress
from gaussveil_studies.gmm.settings import setting_of
from gaussveil_studies.gmm.sweeps import RELEASES
from gaussveil_studies.study import Options, Paper, Part, Row, Table, shown, spread
from gaussveil_studies.trials import Rows, Task, run_trials

PAPER = Paper("GMM")

# records of one's own, and drawn from the model
OWN = 100
DRAWN = 5000
ALONE = "own records alone"
PLAIN = "drawn from the fit"


def trial(task: Task) -> Rows:
    """Test accuracy with records from one release, and Pinsker's bound."""
    folder, release, epsilon, seeds = task
    setting = setting_of(("mnist", folder))
    assert setting.held_out_codes is not None
    rows = []
    for seed in seeds:
        chosen = np.random.default_rng(seed).choice(
            len(setting.rows), OWN, replace=False
        )
        features = setting.rows[chosen]
        labels = setting.codes[chosen]
        bound = 0.0
        if release != ALONE:
            if release == PLAIN:
                model = setting.fitted
            else:
                model = RELEASES[release](setting, epsilon, 3000 + seed)
            more, classes = model.sample(DRAWN, seed)
            features = np.concatenate([features, more])
            labels = np.concatenate([labels, np.asarray(classes, dtype=np.int64)])
            bound = min(
                1.0, math.sqrt(max(model.joint_divergence(setting.fitted), 0.0) / 2)
            )
        rows.append(
            [
                _accuracy(features, labels, setting.held_out, setting.held_out_codes),
                bound,
            ]
        )
    return rows


def _accuracy(
    features: Floats, labels: Integers, tested: Floats, truth: Integers
) -> float:
    model = make_pipeline(
        StandardScaler(), PolynomialFeatures(2), LogisticRegression(max_iter=200)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return float(np.mean(model.fit(features, labels).predict(tested) == truth))


def augmentation(options: Options, progress: Progress) -> Part:
    """Accuracy alone, with the fit's records, and with those of every release, at epsilon 1."""
    epsilon = 1.0
    folder = str(options.folder())
    seeds = list(range(options.pick(1, 3, 50)))
    names = options.pick(
        (ALONE, PLAIN, "ours, record", "Algorithm 1"),
        (ALONE, PLAIN, *RELEASES),
        (ALONE, PLAIN, *RELEASES),
    )
    tasks = [(folder, name, epsilon, seeds) for name in names]
    found = run_trials(
        trial, tasks, progress, workers=options.workers, kept=options.kept
    )
    rows: list[Row] = []
    for name, piece in zip(names, found):
        score = spread([row[0] for row in piece])
        rows.append(
            {
                "trained": name,
                "accuracy": score["mean"],
                "error": score["error"],
                "variation": None
                if name in (ALONE, PLAIN)
                else float(np.mean([row[1] for row in piece])),
            }
        )
    at = {str(row["trained"]): float(row["accuracy"]) for row in rows}
    return Part(
        "Augmentation: Example 3",
        (
            f"{OWN} labelled digits of one's own in five columns, and {DRAWN} drawn from a model of 5000 at epsilon "
            f"{epsilon:g}; logistic regression on squares and products.",
        ),
        (
            Table.of(
                "accuracy",
                rows,
                "trained: trained on own and; accuracy; error: standard error; variation: Pinsker's bound",
            ),
        ),
        (),
        (
            PAPER.judged(
                "example-3",
                f"{shown(at[ALONE])} alone; {shown(at['Algorithm 1'])} with Algorithm 1's, "
                f"{shown(at['ours, record'])} with ours",
                borne_out=at["ours, record"] > at[ALONE],
                because="ours hide whole records; Algorithm 1 is not private",
            ),
        ),
    )
