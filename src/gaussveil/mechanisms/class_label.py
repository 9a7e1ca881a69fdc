"""A query released so that nobody can tell which label it belongs to.

Released: round_g(query + m_X) + noise on a public power-of-two grid g, where X is the secret label, m_X its public
noise mean and the noise a lattice Gaussian whose covariance depends on X; grid, tables, code and random bytes do not.

Adjacency: the label changes along an edge of a public graph. The query of label X is N(mean_X, covariance_X), a
constant where the covariance is zero; these models are public.

Theorem (derived: docs/math/noise.md, "Sampling on the lattice is post-processing"). With C_X the covariance drawn less
(2g)^2 I, the pairs N(c_X, S_X + C_X) against N(c_Y, S_Y + C_Y), one per ordered edge, dominate the release: c_X is the
rounded centre of a constant query; for a random one c_X = mean_X + m_X and the rounding's total variation is charged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil import checks
from gaussveil.accounting import Charge, Release
from gaussveil.accounting.directed import sampler_delta
from gaussveil.accounting.names import new_name
from gaussveil.calibration.class_gradient import Device, LabelModels
from gaussveil.calibration.class_noise import (
    ClassNoise,
    Graph,
    checked_models,
    design_class_noise,
    label_edges,
)
from gaussveil.containers import frame, library_of, like, real_array, unnamed
from gaussveil.errors import NumericalError, ParameterError
from gaussveil.mechanisms.class_label_plan import (
    ClassLabelPlan,
    names_of,
    rows_of,
    unit_of,
)
from gaussveil.mechanisms.class_label_words import (
    assumptions_of,
    neighbours_of,
    parameters_of,
)
from gaussveil.mechanisms.progress import shown_progress
from gaussveil.mechanisms.release_path import Mechanism, Plan, unaffordable_sampler
from gaussveil.mechanisms.source_rows import ordered_vector
from gaussveil.noise.lattice import to_lattice
from gaussveil.typing import Floats

# of the asked delta: the rest is what the lattice and the sampler may add
DESIGN_SHARE = 0.999


@dataclass(kw_only=True, eq=False, repr=False)
class ClassLabelNoise(Mechanism):
    """Noise under which the queries of neighbouring labels look alike.

    >>> from gaussveil.mechanisms import ClassLabelNoise
    >>> mechanism = ClassLabelNoise(epsilon=1.0, accuracy=0.5).design([[0.0, 0.0], [1.0, 0.5], [2.0, 1.0]])
    >>> mechanism.worst_delta_ < 0.26
    True
    >>> mechanism.release(1).certificate.adjacency.kind
    'label-graph'

    Args:
        epsilon: where delta is promised.
        accuracy: largest mean squared error per coordinate; the design then has the smallest worst delta.
        delta: instead of it, the delta to promise; the design then has the smallest error.
        graph: which labels must look alike: "complete", ("nearest", c), ("distance", r), or pairs of labels.
        noise_means: let the noise have label-dependent means, which draw the labels' outputs together.
        common_covariance: give all labels the same noise covariance.
        swap: every label is released once and two of them may have changed places (`release_all`).
        public_models: whether the means and covariances are public anyway. By default the certificate says that they
            are assumed to be.
        account: where a release is debited before it is drawn; without one the certificate says "not recorded".
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        device: for the search: a PyTorch device, for example "cuda", or an array namespace; NumPy by default.
        progress: show a progress bar during the design.
        people: whose rows these are, as an account that is kept for a population names them.

    After `design` read `worst_delta_`, `accuracy_` and, beside it, `retained_variance_`: near 0 all labels release
    nearly the same centre, however small the error looks. `plan_.pdp_delta(priors)` takes priors (Remark 1).
    """

    mechanism = "class-label noise"
    carrier: ClassVar[str] = (
        "record"  # what the label belongs to, in the certificate's words
    )
    accuracy: float | None = None
    delta: float | None = None
    graph: Graph = "complete"
    noise_means: bool = True
    common_covariance: bool = False
    swap: bool = False
    public_models: bool = False
    device: Device = None
    progress: bool = False
    plan_: ClassLabelPlan = field(init=False, repr=False)
    design_: ClassNoise = field(init=False, repr=False)

    def design(
        self,
        means: ArrayLike,
        covariances: ArrayLike | None = None,
        labels: Sequence[Any] | None = None,
    ) -> ClassLabelNoise:
        """Search the noise for public query models: one row of `means` and one matrix of `covariances` per label.

        Args:
            labels: names of the labels, in the order of `means`.

        Returns:
            The mechanism itself, with `plan_` and `design_`.

        Raises:
            ParameterError: a parameter is out of range, or models, labels and graph do not fit each other.
            NumericalError: no noise keeps delta once it is drawn on a grid.
        """
        epsilon = checks.epsilon(self.epsilon)
        delta = None if self.delta is None else checks.delta(self.delta)
        accuracy = self.accuracy
        if accuracy is not None:
            accuracy = checks.positive("accuracy", accuracy)
        models = checked_models(real_array("means", means), covariances)
        names = names_of(labels, len(models.means))
        edges = label_edges(self.graph, names, models.means)
        ordered = np.concatenate([edges, edges[:, ::-1]])
        share = 1.0
        for _ in range(4):
            aim = None if delta is None else share * DESIGN_SHARE * delta
            noise = self._searched(models, edges, epsilon, accuracy, aim)
            plan = self._drawn(names, ordered, models, noise)
            if delta is None or plan.delta <= delta:
                self.plan_ = plan
                self.design_ = noise
                return self
            sampler = sampler_delta(epsilon, plan.sampler_error)
            if sampler >= delta / 2:
                raise unaffordable_sampler(epsilon, delta, 2 * sampler)
            share *= 0.98
        raise NumericalError(
            "no noise was found that keeps the asked delta once drawn on a grid; ask for a larger one."
        )

    def _searched(
        self,
        models: LabelModels,
        edges: NDArray[np.intp],
        epsilon: float,
        accuracy: float | None,
        delta: float | None,
    ) -> ClassNoise:
        """The noise, searched in units in which queries are of ordinary size."""
        unit = unit_of(models)
        with shown_progress(self.progress, "class-label noise") as report:
            noise = design_class_noise(
                models.means / unit,
                models.covariances / unit**2,
                edges,
                epsilon=epsilon,
                accuracy=None if accuracy is None else accuracy / unit**2,
                delta=delta,
                noise_means=self.noise_means,
                common_covariance=self.common_covariance,
                swap=self.swap,
                device=self.device,
                report=report,
            )
        return dataclasses.replace(
            noise,
            noise_means=unit * noise.noise_means,
            noise_covariances=unit**2 * noise.noise_covariances,
            accuracy=unit**2 * noise.accuracy,
        )

    def release(
        self,
        label: Any,
        query: Any = None,
        *,
        order: Sequence[str] = (),
        draw: str | None = None,
    ) -> Release[Any]:
        """Debit, draw and certify the query of one label; a constant query may be left out.

        A random query protects itself in part, once: `draw` names where its randomness comes from, in public words (the
        day, the window), and a ledger pays for one release of that name. Without a name the noise alone is counted,
        which holds however often the query is released.
        Of a Source the one column is taken that stands beside the public columns `order`, sorted by these. Every
        refusal comes before the debit. The certificate names no label.

        Returns:
            The noisy query, in the form that the query had, and its certificate.

        Raises:
            ParameterError: the label is unknown, a query is missing, or the noise was not designed.
            BudgetExceededError: the account cannot pay.
        """
        read = query
        query = ordered_vector("query", query, order)
        plan = self._planned(swap=False)
        position = self._position(label)
        if query is None and not plan.models.constant:
            raise ParameterError(
                "query must be given where the models have covariances: it is random."
            )
        if query is None:
            given = plan.models.means[position]
        else:
            given = unnamed(query)
        centre = plan.centre_of(position, real_array("query", given))
        to_lattice(
            centre, plan.noises[position].shape, plan.grid
        )  # refuses here what could not be drawn later
        size = plan.shifts.shape[1]
        said = self._said(f"query of one label, {size} coordinates", centre, draw=draw)
        return self._publish(
            said,
            lambda: like(given, plan.noises[position].add(centre, self.generator)),
            read,
        )

    def release_all(
        self, labels: Sequence[Any], queries: Any = None, *, draw: str | None = None
    ) -> Release[Any]:
        """Debit, draw and certify one row per label, all labels once, in the secret order of `labels`.

        Random queries are of one `draw`, as in `release`.

        The rows carry no label, and a frame of queries comes back as one without its index. Neighbours are two orders
        in which two labels of an edge have changed places (K5).

        Returns:
            A row for each label, in the order of `labels`, and their certificate.

        Raises:
            ParameterError: the labels are not those of the design, each once.
            BudgetExceededError: the account cannot pay.
        """
        plan = self._planned(swap=True)
        positions = [self._position(label) for label in labels]
        if sorted(positions) != list(range(len(plan.labels))):
            raise ParameterError(
                f"labels must hold each of the {len(plan.labels)} labels of the design once."
            )
        rows = rows_of(queries, plan, positions)
        centres = list(map(plan.centre_of, positions, rows))
        for centre in centres:
            to_lattice(centre, plan.noises[0].shape, plan.grid)
        noises = [plan.noises[position] for position in positions]
        release = self._publish(
            self._said(f"queries of all {len(rows)} labels", *centres, draw=draw),
            lambda: np.stack(
                [own.add(row, self.generator) for own, row in zip(noises, centres)]
            ),
            queries,
        )
        rows = release.value
        library = library_of(queries)
        if library:  # a frame as the queries are, but never with their index, which may name the labels
            rows = frame(
                library,
                {str(name): column for name, column in zip(queries.columns, rows.T)},
            )
        return Release(rows, release.certificate)

    @property
    def noise_means_(self) -> Floats:
        """Means of the noise, one row per label."""
        return self._planned().shifts

    @property
    def noise_covariances_(self) -> Floats:
        """Covariances of the noise as drawn, one per label."""
        return self._planned().noise_covariances

    @property
    def worst_delta_(self) -> float:
        """Delta promised at epsilon: rigorous upper end over all ordered edges, sampler error included."""
        return self._planned().delta

    @property
    def accuracy_(self) -> float:
        """Largest mean squared error per coordinate over the labels."""
        return self._planned().accuracy

    @property
    def retained_variance_(self) -> float:
        """Share of the between-label variance that the outputs' means keep."""
        return self._planned().retained_variance

    def _planned(self, swap: bool | None = None) -> ClassLabelPlan:
        if not hasattr(self, "plan_"):
            raise ParameterError(
                "call design(means, covariances) first: the noise is searched there."
            )
        plan = self.plan_
        if swap is not None and swap != plan.swap:
            raise ParameterError(
                "release is for swap=False (one label), release_all for swap=True (every label once). "
                f"Got a design with swap={plan.swap}."
            )
        return plan

    def _position(self, label: Any) -> int:
        labels = self._planned().labels
        if label not in labels:
            raise ParameterError(
                "label must be one of the labels of the design. Got another one."
            )
        return labels.index(label)

    def _drawn(
        self,
        labels: tuple[Any, ...],
        edges: NDArray[np.intp],
        models: LabelModels,
        found: ClassNoise,
    ) -> ClassLabelPlan:
        """The design on its lattice; what the lattice adds is taken off again where an accuracy was asked."""
        shifts = found.noise_means
        spreads = found.noise_covariances
        for attempt in range(12):
            plan = ClassLabelPlan.of(
                labels,
                edges,
                models,
                shifts,
                spreads,
                found.epsilon,
                self.swap,
                found.duality_gap,
            )
            if self.accuracy is None or plan.accuracy <= self.accuracy:
                return plan
            factor = 1 - (plan.accuracy / self.accuracy - 1) - 1e-9 * 4**attempt
            shifts = math.sqrt(factor) * shifts
            spreads = factor * spreads
        raise NumericalError(
            "the noise could not be drawn within the asked accuracy; ask for a larger one."
        )

    def _said(self, released: str, *centres: Floats, draw: str | None = None) -> Plan:
        plan = self._planned()
        constant = plan.models.constant
        if draw is not None:
            draw = new_name(draw, (), "draw")
        charge, delta = self._counted(draw)
        # Two releases of one random query share its randomness: their noise alone is independent.
        drawn_from: tuple[Any, ...] = ()
        if not constant and draw is not None:
            drawn_from = (f"draw {draw.casefold()}", *centres)
        return Plan(
            charge=charge,
            released=released,
            adjacency=neighbours_of(plan, self.carrier),
            model=None if constant else "Gaussian queries of each label",
            delta=delta if self.delta is None else self.delta,
            drawn_from=drawn_from,
            assumptions=assumptions_of(plan, self.public_models, draw),
            parameters=parameters_of(plan, self.design_.kind),
        )

    def _counted(self, draw: str | None) -> tuple[Charge, float]:
        """Charge and delta: of a random query whose draw is not named the noise alone counts."""
        plan = self._planned()
        if plan.models.constant or draw is not None:
            return plan.charge, plan.delta
        delta = plan.delta_of_noise
        if self.delta is not None and delta > self.delta:
            raise ParameterError(
                f"draw must name where the random query comes from (draw='2026-11-18'), or delta must be at least "
                f"{delta:.4g}: without a name the noise alone is counted. Got delta {self.delta:g}."
            )
        return plan.charge_of_noise, delta
