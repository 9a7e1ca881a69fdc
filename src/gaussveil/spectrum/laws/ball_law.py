"""The law of a privacy loss by atoms and pieces, in ball arithmetic: from it all else is computed.

Under X a loss has some probability of being infinite; else it lies on one of the atoms, or on an interval where its
density is an exponential, w e^{t l}. With sinhc(y) = sinh(y)/y the moment of the finite part is

    M(s) = E_X[e^{s L}; L finite] = sum m_i e^{s l_i} + sum w_j e^{s a_j} sinhc((s + t_j) h_j),

where piece j is centred at a_j, reaches h_j to either side, and w_j sinhc(t_j h_j) is its probability. Randomised
response is two atoms; Laplace noise two atoms and the piece between them; the exponential mechanism one piece (derived:
docs/math/profiles).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flint import acb, acb_poly, arb


class BallPiece(NamedTuple):
    """An interval with an exponential density of losses."""

    middle: arb
    half: arb
    tilt: arb
    weight: arb


class BallLaw(NamedTuple):
    """Losses and probabilities of atoms, pieces, and the probability of an infinite loss.

    Of many atoms at equal distances the `spacing` may be given: then moments are polynomials.
    """

    losses: tuple[arb, ...]
    masses: tuple[arb, ...]
    pieces: tuple[BallPiece, ...] = ()
    infinity: arb = arb(0)
    spacing: arb | None = None

    def moment(self, s: acb) -> acb:
        """M(s): of the finite losses."""
        total = acb(0)
        if self.spacing is not None:
            total += (s * self.losses[0]).exp() * acb_poly(list(self.masses))(
                (s * self.spacing).exp()
            )
        else:
            for loss, mass in zip(self.losses, self.masses):
                total += mass * (s * loss).exp()
        for middle, half, tilt, weight in self.pieces:
            turned = (s + tilt) * half * acb(0, 1)
            total += weight * (s * middle).exp() * turned.sinc()
        return total

    def finite(self) -> BallLaw:
        """The finite losses, as if these had probability 1."""
        kept = 1 - self.infinity
        pieces = tuple(
            piece._replace(weight=piece.weight / kept) for piece in self.pieces
        )
        return BallLaw(
            self.losses,
            tuple(mass / kept for mass in self.masses),
            pieces,
            arb(0),
            self.spacing,
        )


def law(
    losses: Sequence[arb],
    masses: Sequence[arb],
    pieces: Sequence[tuple[arb, arb, arb, arb]] = (),
    infinity: arb | None = None,
    spacing: arb | None = None,
) -> BallLaw:
    """A law of its columns."""
    if infinity is None:
        rest = arb(0)
    else:
        rest = infinity
    return BallLaw(
        tuple(losses),
        tuple(masses),
        tuple(BallPiece(*piece) for piece in pieces),
        rest,
        spacing,
    )
