"""C^-1 z as it is drawn: whole numbers, a number of state for each buffer, nothing of the readings.

With e_d the buffers of the noise w itself, w_t = z_t - round(sum of scale_d e_d), e_d <- decay_d e_d + w_t. Given w
before it, a change of the readings moves what z must have been by C d and a rounding, so the lattice Gaussian z decides
(docs/mechanisms/running_total.md, "On the lattice"). Buffers are fixed-point numbers of any size: a rule, no rounding
mode, decides every digit.
"""

from __future__ import annotations

from operator import mul

import numpy as np

from gaussveil.accounting.buffered_toeplitz import BITS
from gaussveil.errors import FormatError
from gaussveil.mechanisms.running_total.design import TotalDesign
from gaussveil.noise import Generator
from gaussveil.noise.filter_bank import FilterBank

FRACTION = 64  # bits of a buffer below the lattice: for a million readings its error is 2^-44 of a step
HALF_DECAY = 1 << (BITS - 1)
HALF_SUM = 1 << (BITS + FRACTION - 1)


class TotalNoise:
    """The noise of one running total; `state` holds its buffers."""

    def __init__(self, design: TotalDesign) -> None:
        self._bank = FilterBank([design.filter])
        self._scales = [int(scale * 2.0**BITS) for scale in design.scales]
        self._decays = [int(decay * 2.0**BITS) for decay in design.decays]
        self.forget()

    def forget(self) -> None:
        """Begin with independent noise."""
        self.state = [0] * len(self._scales)

    def go_on(self, state: list[int]) -> None:
        """Continue from buffers that were kept."""
        if len(state) != len(self._scales):
            raise FormatError("the state of a running total does not fit its design")
        self.state = state

    def draw(self, count: int, generator: Generator) -> list[int]:
        """Noise of the next readings, in steps of the lattice."""
        drawn = self._bank.push(np.zeros((count, 1), dtype=np.int64), generator)[0][
            :, 0
        ]
        return [self._next(fresh) for fresh in drawn.tolist()]

    def _next(self, fresh: int) -> int:
        carried: int = sum(map(mul, self._scales, self.state))
        noise: int = fresh - ((carried + HALF_SUM) >> (BITS + FRACTION))
        arriving = noise << FRACTION
        self.state = [
            ((decay * buffer + HALF_DECAY) >> BITS) + arriving
            for decay, buffer in zip(self._decays, self.state)
        ]
        return noise
