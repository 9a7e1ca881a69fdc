"""NDIS Figure 5: what it adds, what that spends, what is needed (docs/corrections N2)."""

from __future__ import annotations

import math
from functools import partial

from gaussveil.audit import audit
from gaussveil.calibration.envelope import variance_for_pair
from gaussveil.mechanisms.gp_sensitivity import ProcessSensitivity
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil_studies.published.ndis_calibrated import (
    published_process_sensitivity,
    published_variance,
)
from gaussveil_studies.study import Row

CLAIMED = 1e-6
OBSERVATION_VARIANCE = 1e-4
LABEL_BOUND = 1e-6


def posterior_pair(added: float) -> PrivacyLoss:
    """The queried point observed once (narrow, with the record) against never (wide), both widened by `added`."""
    narrow = OBSERVATION_VARIANCE / (1.0 + OBSERVATION_VARIANCE)
    return GaussianPair([0.0], [[narrow + added]], [0.0], [[1.0 + added]])


def figure_5(epsilon: float) -> Row:
    """N2: one Gaussian-process record, claimed delta 1e-6. What Figure 5 adds, what that spends, what is needed."""
    sensitivity = partial(
        published_process_sensitivity,
        kernel_deviation=1.0,
        label_bound=LABEL_BOUND,
        observation_deviation=math.sqrt(OBSERVATION_VARIANCE),
        count=1,
    )
    process = ProcessSensitivity(
        point_variance=1.0,
        kernel_bound=1.0,
        observation_variance=OBSERVATION_VARIANCE,
        label_bound=LABEL_BOUND,
        n_max=1,
    )
    printed = published_variance(sensitivity, epsilon, CLAIMED, 1)
    found = audit(posterior_pair(printed), claim=(epsilon, CLAIMED))
    return {
        "epsilon": epsilon,
        "printed": printed,
        "claimed": CLAIMED,
        "exact": found.findings[0].lower,
        "other_direction": float(posterior_pair(printed).delta(epsilon)),
        "needed": variance_for_pair(process.pair, epsilon, CLAIMED)[0],
        "refuted": float(found.refuted),
    }
