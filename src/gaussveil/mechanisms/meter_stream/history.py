"""What a stream's filters may see of the past: the private spectrum, released under a promise of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gaussveil.accounting import Certificate, Release
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.spectral import PrivateSpectrum


def released_spectrum(history: Any, spectrum: PrivateSpectrum | None) -> Release[Any]:
    """The release that is given, or that of the readings that are."""
    if isinstance(history, Release):
        if history.certificate.mechanism != "spectral":
            raise ParameterError(
                "history must be a PrivateSpectrum's release, or readings with a spectrum to release."
            )
        return history
    if history is None or spectrum is None:
        raise ParameterError(
            'purpose "spectrum" needs history: a release of PrivateSpectrum, or readings and the PrivateSpectrum '
            "(spectrum=) that protects them. The filters may see the private spectrum only."
        )
    return spectrum.release(history)


def refuse_spectrum(
    purpose: str, history: Any, spectrum: PrivateSpectrum | None
) -> None:
    """Refuse a past, or a spectrum to release, for a purpose that looks at neither."""
    if history is not None or spectrum is not None:
        raise ParameterError(
            f'history and spectrum are for purpose "spectrum" only. Got purpose {purpose!r}.'
        )


def shift_of(certificate: Certificate) -> float:
    """The mean shift that the release of the spectrum cost."""
    energy = certificate.charge.mean_shift_energy
    if energy is None:
        raise ParameterError(
            "history must be a release of PrivateSpectrum; its certificate holds another loss."
        )
    return math.sqrt(float(np.max(energy)))
