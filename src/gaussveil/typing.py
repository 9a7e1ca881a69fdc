"""The types of arrays, named once.

`Array` is an array of any library that follows the array API: NumPy, PyTorch, CuPy. The others are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.datetime64]
Progress = Callable[
    [str, float], None
]  # a stage's name and the share of it that is done
