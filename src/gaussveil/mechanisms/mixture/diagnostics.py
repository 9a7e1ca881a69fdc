"""How good a released mixture is, measured on the private data: for the owner's eyes only."""

from __future__ import annotations

import math

import numpy as np

from gaussveil.accounting import PrivateDiagnostics
from gaussveil.errors import InputError
from gaussveil.mechanisms.mixture.model import MixtureModel
from gaussveil.typing import Floats, Integers

MARGIN_POINTS, MARGIN_BINS = 101, 30


def diagnose(model: MixtureModel, rows: Floats, codes: Integers, held_out: Floats | None) -> PrivateDiagnostics:
    """Both divergences against the fit without privacy, held-out likelihood, weights, and the marginal densities."""
    counts = np.bincount(codes, minlength=len(model.classes))
    there = back = math.inf  # a class with fewer records than columns has no density to compare with
    fitted = None
    if counts.min() > rows.shape[1]:
        try:
            fitted = MixtureModel.fitted(rows, codes, model.classes)
        except InputError:  # some class lies in a subspace
            fitted = None
    if fitted is not None:
        there, back = model.joint_divergence(fitted), fitted.joint_divergence(model)
    return PrivateDiagnostics(
        released_fitted=there,
        fitted_released=back,
        weights_error=float(np.abs(model.weights - counts / max(len(rows), 1)).sum()),
        log_likelihood=float(model.log_density(rows).mean()) if len(rows) else math.nan,
        held_out_log_likelihood=None if held_out is None else float(model.log_density(held_out).mean()),
        held_out_log_likelihood_fitted=(
            None if held_out is None or fitted is None else float(fitted.log_density(held_out).mean())
        ),
        marginals=marginals(model, rows, codes, fitted),
    )


def marginals(model: MixtureModel, rows: Floats, codes: Integers, fitted: MixtureModel | None) -> dict[str, object]:
    """Per class and column: released and fitted density and the histogram (GMM paper, Figures 6 and 8)."""
    found: dict[str, object] = {}
    for k, name in enumerate(model.classes):
        part = rows[codes == k]
        columns: dict[str, object] = {}
        for j, column in enumerate(model.columns):
            middle, width = model.means[k, j], 4 * math.sqrt(model.covariances[k, j, j])
            low, high = middle - width, middle + width
            grid = np.linspace(low, high, MARGIN_POINTS)
            heights, edges = np.histogram(part[:, j], bins=MARGIN_BINS, range=(low, high))
            columns[column] = {
                "grid": grid,
                "released": _density(grid, model, k, j),
                "fitted": None if fitted is None else _density(grid, fitted, k, j),
                "edges": edges,
                "histogram": heights / max(len(part), 1) / np.diff(edges),
            }
        found[str(name)] = columns
    return found


def _density(grid: Floats, model: MixtureModel, k: int, j: int) -> Floats:
    variance = float(model.covariances[k, j, j])
    return np.asarray(np.exp(-np.square(grid - model.means[k, j]) / (2 * variance)) / math.sqrt(2 * math.pi * variance))
