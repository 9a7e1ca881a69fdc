"""`PrivateLabelMixture` drawn by the thousand: the library's noise and rules, its searches for many starts at once.

Same seed, same noisy labels, tables and sums, and the same model up to rounding (tests/studies), several times faster:
what depends on public features alone is computed once per setting, EM follows all starts together (`many_starts`), and
sums are conditioned without the products that only their solution needs. Nothing is debited or certified here: for
studies only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

from gaussveil.mechanisms.label_mixture import estimator, methods
from gaussveil.mechanisms.label_mixture.methods import SecretLabels
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.records import read_records
from gaussveil.mechanisms.mixture.stages import Surroundings, allowed_shift, staged
from gaussveil.mechanisms.release_path import Promise
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing import feature_sums, label_search
from gaussveil.postprocessing.intervals import adding_up_to
from gaussveil.postprocessing.label_search import Answers, NoisyTable, believed
from gaussveil.postprocessing.maximisation import PRIOR_RECORDS, from_cells
from gaussveil.postprocessing.mixture_model import MixtureModel, Parameters
from gaussveil.postprocessing.public_features import FeatureUnits, hardened, well_shaped
from gaussveil.typing import Floats
from gaussveil_studies.gmm.many_starts import Rows
from gaussveil_studies.gmm.settings import Setting

NEGLIGIBLE = 1e-7  # share of a record in a class below which it adds nothing to the variance of sums


def drawn_by_label(
    setting: Setting, epsilon: float, delta: float, seed: int
) -> MixtureModel:
    """What `PrivateLabelMixture` with this seed releases, up to rounding."""
    public, (size, dimension) = _public(setting), setting.rows.shape
    shift = allowed_shift(Promise(epsilon, delta), setting.classes, dimension)
    method = methods.choose_method(size, setting.classes, dimension, epsilon, shift)
    labels = SecretLabels(setting.codes, setting.classes, SeededGenerator(seed))
    if method == "sums":
        found = public.common.restored(_from_sums(public, labels, shift))
    elif method == "clusters":
        found = public.units.restored(
            methods.from_clusters(public.scaled, labels, epsilon)
        )
    else:
        found = public.units.restored(
            _from_answers(public, labels, epsilon, helped=method == "both")
        )
    return MixtureModel(*found, tuple(range(setting.classes)), setting.fitted.columns)


class _Public:
    """What every draw from a setting shares: its features in the library's units, their products, their components."""

    def __init__(self, setting: Setting) -> None:
        rows = np.asfortranarray(setting.rows)  # as the library reads columns
        self.classes = setting.classes
        self.units = FeatureUnits.of(rows)
        self.common = self.units.common
        self.scaled, self.in_common = self.units.scaled(rows), self.common.scaled(rows)

    @cached_property
    def products(self) -> Rows:
        """Of the features in units of their own."""
        return Rows.of(self.scaled)

    @cached_property
    def common_products(self) -> Rows:
        """Of the features in one unit."""
        return Rows.of(self.in_common)

    @cached_property
    def guides(self) -> list[Floats]:
        """Components of the features."""
        return methods._guides(self.scaled, self.classes)


@lru_cache(maxsize=64)
def _public(setting: Setting) -> _Public:
    return _Public(setting)


def _from_answers(
    public: _Public, labels: SecretLabels, epsilon: float, *, helped: bool
) -> Parameters:
    """`from_response`, and `from_both` where a table helps."""
    rows = public.scaled
    guides = public.guides
    if not helped:
        answers = labels.answers(epsilon)
        return _likely_classes(
            public, answers, label_search.starting_points(rows, answers, guides)
        )
    for_table, for_answers = methods.split_epsilon(epsilon)
    cells = hardened(guides[0])
    table = labels.table(cells, for_table)
    answers = labels.answers(for_answers)
    counts = believed(
        table.noisy,
        adding_up_to(table.noisy.T, np.bincount(cells)).T,
        methods.SURE * 2 / for_table,
    )
    named = label_search.named_each(table.noisy.T).T
    starts = [from_cells(rows, cells, counts), from_cells(rows, cells, named)]
    return _likely_classes(
        public,
        answers,
        [*label_search.starting_points(rows, answers, guides), *starts],
        table,
    )


def _likely_classes(
    public: _Public,
    answers: Answers,
    starts: list[Parameters],
    table: NoisyTable | None = None,
) -> Parameters:
    """`likely_classes`: some rounds for all, under their own names and the best ones; the best to their ends."""
    rows, offsets = public.products, np.ascontiguousarray(answers.log_label.T)
    if table is None:
        inside = None
    else:
        inside = np.equal.outer(table.cells, np.arange(table.noisy.shape[1])).astype(
            np.float64
        )

    def gaps(shares: Floats) -> Floats:
        """Log-likelihood of the table's row of a class (last axis), were it that of some shares."""
        assert table is not None
        assert inside is not None
        counts = (shares @ inside)[..., :, None, :]
        return np.asarray(
            -np.abs(counts - table.noisy).sum(axis=-1) * table.epsilon / 2
        )

    def followed(
        begun: Sequence[Parameters], rounds: int
    ) -> list[tuple[float, Parameters]]:
        likelihoods, ends = rows.followed(offsets, begun, rounds)
        if table is not None:
            likelihoods = likelihoods + [
                np.trace(gaps(rows.shares(end, offsets)[0])) for end in ends
            ]
        return sorted(zip(likelihoods.tolist(), ends), key=lambda pair: -pair[0])

    def renamed(found: Parameters) -> Parameters:
        shares, _ = rows.shares(found, np.zeros((public.classes, 1)))
        evidence = shares @ answers.log_label
        order = linear_sum_assignment(
            -(evidence if table is None else evidence + gaps(shares)).T
        )[1]
        return found[0][order], found[1][order], found[2][order]

    if len(starts) == 1:
        return followed(starts, label_search.EM_ROUNDS)[0][1]
    tried = [end for _, end in followed(starts, label_search.TRIAL_ROUNDS)]
    most = label_search.FOLLOWED
    best = followed([*tried[:most], *map(renamed, tried)], label_search.TRIAL_ROUNDS)[
        :most
    ]
    ends = label_search._distinct(
        followed([end for _, end in best], label_search.EM_ROUNDS)
    )
    shares = np.stack([rows.shares(end, offsets)[0] for _, end in ends])
    chances = softmax(np.array([likelihood for likelihood, _ in ends]))
    shaped = well_shaped(len(public.scaled), public.classes, public.scaled.shape[1])
    return rows.moments(
        np.tensordot(chances, shares, 1),
        label_search.LAST_RECORDS if shaped else PRIOR_RECORDS,
    )


def _from_sums(public: _Public, labels: SecretLabels, mean_shift: float) -> Parameters:
    """The library's noisy class sums, and what the features add to them."""
    rows = public.in_common
    classes = labels.classes
    size, dimension = rows.shape
    table = read_records(rows, labels.codes, classes=range(classes), columns=None)
    one = estimator._one_class(mean_shift)
    passes = PrivatePasses(
        table.source, table.columns, table.group, classes, 1, 2, one, labels.generator
    )
    guess = staged(passes, classes, Surroundings(*estimator._ball(rows), size), one)
    if guess.seen is None or not feature_sums.features_are_used(
        size, classes, dimension
    ):
        return guess.parameters
    even = np.zeros((classes, 1))
    distance = math.inf
    count = guess.seen.count.size * feature_sums._moment_count(dimension)
    allowed = count + feature_sums.DEVIATIONS * math.sqrt(2 * count)
    try:
        view = _QuickSums.of(rows, guess.seen)
        _, (found,) = public.common_products.followed(
            even, [guess.parameters], feature_sums.FEATURE_ROUNDS
        )
        for left in reversed(range(feature_sums.JOINT_ROUNDS)):
            before = distance
            distance, moments = view.conditioned(
                public.common_products.shares(found, even)[0].T
            )
            if before < math.inf and distance - left * (before - distance) > allowed:
                return (
                    guess.parameters
                )  # each round gains less than the last: the features stay refuted
            found = view.classes_of(moments)
    except np.linalg.LinAlgError:
        return guess.parameters
    if distance <= allowed:
        return found
    return guess.parameters


class _QuickSums(feature_sums._Sums):
    """Sums whose variance leaves out what records hardly have a share in."""

    def conditioned(self, shares: Floats) -> tuple[float, Floats]:
        """Squared distance of the released sums from the expected ones, and the classes' moments given both."""
        parts, (classes, size) = shares.T, (len(self.added), self.moments.shape[1])
        doubted = parts.max(axis=0) < 1 - feature_sums.CERTAIN
        present = doubted & (parts > NEGLIGIBLE)
        variance = np.empty((classes, size, classes, size))
        for k, own in enumerate(self.added):
            for other in range(k + 1):
                both = np.flatnonzero(present[k] & present[other])
                weights = parts[k, both] * ((k == other) - parts[other, both])
                block = (own[both] * weights[:, None]).T @ self.added[other][both]
                variance[k, :, other], variance[other, :, k] = block, block.T
            variance[k, :, k] += self.noise
        gap = self.observed.ravel() - np.concatenate(
            [part @ own for part, own in zip(parts, self.added)]
        )
        solved = np.linalg.solve(variance.reshape(classes * size, -1), gap)
        told = np.stack(
            [own @ part for own, part in zip(self.added, solved.reshape(classes, size))]
        )
        moved = np.where(doubted, parts * (told - np.sum(parts * told, axis=0)), 0.0)
        return float(gap @ solved), (parts + moved) @ self.moments
