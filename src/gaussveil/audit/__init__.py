"""Auditors: exact where the mechanism's output distribution is known, statistical where it can only be called."""

from gaussveil.audit.binomial import draws_needed
from gaussveil.audit.black_box import BlackBoxAudit, audit_mechanism, audit_samples, audit_scores
from gaussveil.audit.maps import FittedGaussian, GaussianSketch, LinearPosterior, NoisySum
from gaussveil.audit.white_box import Audit, Finding, audit

__all__ = [
    "Audit",
    "BlackBoxAudit",
    "Finding",
    "FittedGaussian",
    "GaussianSketch",
    "LinearPosterior",
    "NoisySum",
    "audit",
    "audit_mechanism",
    "audit_samples",
    "audit_scores",
    "draws_needed",
]
