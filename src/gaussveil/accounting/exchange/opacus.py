"""A drop-in for Opacus: its IAccountant on our exact curves, for `PrivacyEngine().accountant = ExactAccountant()`."""

from __future__ import annotations

from typing import Any

from gaussveil.accounting.accountant import DPSGD, Accountant
from gaussveil.errors import MissingDependencyError

try:
    from opacus.accountants.accountant import IAccountant
except ImportError as missing:
    raise MissingDependencyError(
        "this drop-in needs opacus: pip install opacus"
    ) from missing


class ExactAccountant(IAccountant):
    """Counts the steps that an optimiser reports, each with its own noise multiplier and sample rate."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step; equal steps in a row are kept as one entry."""
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, self.history[-1][2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta: float, *_: Any, **__: Any) -> float:
        """Smallest epsilon of all steps so far."""
        run = Accountant()
        for noise, rate, steps in self.history:
            run.add(
                DPSGD(
                    noise_multiplier=float(noise), sampling_rate=min(float(rate), 1.0)
                ),
                steps,
            )
        return run.epsilon(delta)

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name that Opacus stores with a checkpoint."""
        return "gaussveil"
