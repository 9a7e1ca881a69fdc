from gaussveil.spectrum.enclosures.interval import Enclosure as Enclosure
from gaussveil.spectrum.envelope import GaussianEnvelope as GaussianEnvelope
from gaussveil.spectrum.loss import PrivacyLoss as PrivacyLoss
from gaussveil.spectrum.pair_composition import compose as compose
from gaussveil.spectrum.pair import GaussianPair as GaussianPair
from gaussveil.spectrum.privacy_curve import PrivacyCurve as PrivacyCurve
from gaussveil.spectrum.subsampled.composed import composed as composed
