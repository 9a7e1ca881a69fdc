"""How good a released mixture is, measured on the private data: for the owner's eyes only."""

from __future__ import annotations

import math

import numpy as np

from gaussveil.accounting import PrivateDiagnostics
from gaussveil.errors import InputError
from gaussveil.postprocessing.mixture_model import MixtureModel
from gaussveil.typing import Floats, Integers


def diagnose(model: MixtureModel, rows: Floats, codes: Integers, held_out: Floats | None) -> PrivateDiagnostics:
    """Both divergences against the fit without privacy, held-out likelihood, weights."""
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
    )
