"""EM from many starts at once on the same rows, for label releases that a study draws by the thousand.

A Gaussian's log density is linear in (1, x, xx'), and so are the moments that records shared out have: one product of
matrices serves every class of every start, where the library goes class by class to keep its bits in any units. Rules
of stopping and what classes borrow are the library's, so that the ends agree up to rounding (tests/studies).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaussveil.postprocessing.maximisation import DEPENDENT, PRIOR_RECORDS
from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.typing import Floats

STANDS_STILL = 1e-3  # of a log-likelihood


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows about their middle, with their products."""

    middle: Floats
    products: Floats
    """(1, x, x_i x_j for i <= j) of every row: m x N."""

    @classmethod
    def of(cls, rows: Floats) -> Rows:
        """The products of rows as they are."""
        middle = rows.mean(axis=0)
        x = (rows - middle).T
        above, below = np.triu_indices(len(x))
        return cls(
            middle,
            np.ascontiguousarray(
                np.concatenate([np.ones((1, x.shape[1])), x, x[above] * x[below]])
            ),
        )

    def log_joint(self, parameters: Parameters) -> Floats:
        """Log density of every row with each class, up to a constant, along leading axes: ... x K x N."""
        weights, means, covariances = parameters
        precisions = np.linalg.inv(covariances)
        precisions = (precisions + np.swapaxes(precisions, -1, -2)) / 2
        gaps = means - self.middle
        linear = (precisions @ gaps[..., None])[..., 0]
        constant = (
            np.log(np.maximum(weights, 1e-300)) - np.linalg.slogdet(covariances)[1] / 2
        )
        above, below = np.triu_indices(gaps.shape[-1])
        squares = -precisions[..., above, below] * np.where(above == below, 0.5, 1.0)
        constant = constant - np.sum(linear * gaps, axis=-1) / 2
        return np.asarray(
            np.concatenate([constant[..., None], linear, squares], axis=-1)
            @ self.products
        )

    def moments(self, shares: Floats, borrowed: float = PRIOR_RECORDS) -> Parameters:
        """The library's `moments` of shares ... x K x N."""
        sums = shares @ self.products.T
        d = len(self.middle)
        above, below = np.triu_indices(d)
        counts = sums[..., 0] + 1e-9
        means = sums[..., 1 : 1 + d] / counts[..., None]
        scatter = np.empty((*counts.shape, d, d))
        about_means = (
            sums[..., 1 + d :]
            - counts[..., None] * means[..., above] * means[..., below]
        )
        scatter[..., above, below] = scatter[..., below, above] = about_means
        pool = scatter.sum(axis=-3) / self.products.shape[1]
        trace = np.trace(pool, axis1=-2, axis2=-1)[..., None, None]
        pool = pool + 1e-9 * (trace / d + 1e-12) * np.eye(d)
        covariances = (scatter + borrowed * pool[..., None, :, :]) / (
            counts + borrowed
        )[..., None, None]
        covariances *= 1 + DEPENDENT * np.eye(d)
        return (
            counts / counts.sum(axis=-1, keepdims=True),
            means + self.middle,
            covariances,
        )

    def shares(self, parameters: Parameters, offsets: Floats) -> tuple[Floats, Floats]:
        """Every row shared out among the classes (... x K x N), and the log-likelihoods; `offsets` is K x N."""
        joint = self.log_joint(parameters)
        joint += offsets
        top = joint.max(axis=-2, keepdims=True)
        joint -= top
        np.exp(joint, out=joint)
        total = joint.sum(axis=-2, keepdims=True)
        joint /= total
        return joint, np.sum(np.log(total) + top, axis=(-2, -1))

    def followed(
        self, offsets: Floats, starts: Sequence[Parameters], rounds: int
    ) -> tuple[Floats, list[Parameters]]:
        """EM of each start until its likelihood stands still: the likelihoods, and the ends."""
        found = tuple(np.stack(part) for part in zip(*starts))
        reached = np.full(len(starts), -np.inf)
        going = np.arange(len(starts))
        for _ in range(rounds):
            shares, likelihood = self.shares(
                (found[0][going], found[1][going], found[2][going]), offsets
            )
            moved = np.abs(likelihood - reached[going]) >= STANDS_STILL
            going = going[moved]
            if going.size == 0:
                break
            reached[going] = likelihood[moved]
            for old, new in zip(
                found, self.moments(shares if moved.all() else shares[moved])
            ):
                old[going] = new
        return reached, [
            (found[0][k], found[1][k], found[2][k]) for k in range(len(starts))
        ]
