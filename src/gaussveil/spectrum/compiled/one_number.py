"""What the formulas ask of an array namespace, for one double at a time inside compiled code."""

from __future__ import annotations

import numpy as np

from gaussveil.spectrum.compiled.entry import compiled

abs = np.abs
asinh = np.arcsinh
atan2 = np.arctan2
cos = np.cos
exp = np.exp
expm1 = np.expm1
hypot = np.hypot
isfinite = np.isfinite
isinf = np.isinf
log = np.log
log1p = np.log1p
log2 = np.log2
minimum = np.minimum
round = np.rint
sign = np.sign
sin = np.sin
sinh = np.sinh
sqrt = np.sqrt


@compiled
def where(condition: bool, chosen: float, otherwise: float) -> float:
    """One of two numbers."""
    return chosen if condition else otherwise


@compiled
def clip(value: float, lowest: float, highest: float) -> float:
    """The value, moved into [lowest, highest]; NaN stays."""
    if value < lowest:
        return lowest
    return highest if value > highest else value
