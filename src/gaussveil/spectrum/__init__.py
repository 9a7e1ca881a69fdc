"""Exact divergence of Gaussians: pair -> reduced terms -> privacy loss -> delta, with closed forms, bounds and
enclosures.
"""

from gaussveil.spectrum.enclosures.interval import Enclosure
from gaussveil.spectrum.envelope import GaussianEnvelope
from gaussveil.spectrum.loss import PrivacyLoss, compose
from gaussveil.spectrum.pair import GaussianPair

__all__ = ["Enclosure", "GaussianEnvelope", "GaussianPair", "PrivacyLoss", "compose"]
