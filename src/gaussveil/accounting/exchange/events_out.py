"""Events out: charges as one dp_accounting event, where every part of them has one."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from gaussveil.accounting.charge import Charge, Part
from gaussveil.accounting.exchange.peer_library import event_library
from gaussveil.errors import (
    AssumptionError,
    InputError,
)
from gaussveil.spectrum.profiles import (
    Laplace,
    PoissonSubsampled,
)


def event_from_charges(charges: list[tuple[Charge, int]]) -> Any:
    """Write charges as one dp_accounting event, where every part has one; sampler errors have none and are refused.

    A label graph or a pair with different variances has no event: export a privacy loss distribution instead.
    """
    library = event_library()
    events = []
    for charge, count in charges:
        if charge.sampler_error:
            what = f"a sampler error of {charge.sampler_error:.3g}"
            raise AssumptionError(
                f"{what} has no event; export a privacy loss distribution, which charges it"
            )
        for part in charge.parts:
            events.append(
                library.SelfComposedDpEvent(_event(library, part), part.count * count)
            )
    return library.ComposedDpEvent(events)


def _event(library: ModuleType, part: Part) -> Any:
    energy = Part(part.source, 1).mean_shift_energy
    if energy is not None:
        # Less noise costs more, so the noise multiplier is rounded down; of several edges the worst counts.
        worst = float(np.max(energy))
        if worst:
            return library.GaussianDpEvent(math.nextafter(1 / math.sqrt(worst), 0.0))
        return library.NoOpDpEvent()
    source = part.source
    if isinstance(source, Laplace):
        return library.LaplaceDpEvent(1 / source.shift_over_scale)
    if type(source) is PoissonSubsampled and source.base.stored_as:
        return library.PoissonSampledDpEvent(
            source.rate, _event(library, Part(source.base, 1))
        )
    name = Charge(source).describe()
    raise InputError(
        f"{name} has no event in dp_accounting; export a privacy loss distribution instead"
    )
