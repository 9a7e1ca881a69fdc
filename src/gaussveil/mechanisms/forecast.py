"""A household's load forecast, released so that nobody can tell which household of its cluster it is.

Released: log-power forecast of the next steps plus noise that depends on the household (`ClassLabelNoise`), on a public
grid; then power in kW and a band, by moments of the whole cluster. Where hiding would leave less than `smallest_kept`
of the variance between the households, the cluster's centre instead, the same whoever asks: the average of its group.

Adjacency: the household is exchanged for another one of its cluster (complete graph). For a whole cluster: two
households change places, and the rows carry no names (docs/corrections, K5).

Models. "past known": the receiver may know every household's past, so a forecast is a constant and only the noise
protects. "random past": the past is random, so the forecast of a household is N(mu_f, S_fo S_o^-1 S_of); the guarantee
then rests on that model. Either way the clusters and the households' models are assumed public, and the certificate
says so: how they came from the readings is not protected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import checks
from gaussveil.accounting import Certificate, PrivateDiagnostics, Release
from gaussveil.accounting.certificates.values import digest_of
from gaussveil.containers import library_of
from gaussveil.errors import AssumptionError, ParameterError
from gaussveil.mechanisms.forecast_dial import (
    DIAL_PROMISES,
    DialPoint,
    forecast_dial,
)
from gaussveil.mechanisms.forecast_noise import (
    MODEL_IN_WORDS,
    PAST_KNOWN,
    ForecastWindow,
    Model,
    _ForecastNoise,
    noise_of_group,
)
from gaussveil.mechanisms.forecast_past import PastsUsed, days_drawn_on
from gaussveil.mechanisms.forecast_plan import SMALLEST_KEPT, ForecastPlan
from gaussveil.mechanisms.release_path import Mechanism, check_generator
from gaussveil.noise import SecureGenerator
from gaussveil.postprocessing.forecast import PrivateForecast
from gaussveil.timeseries import Readings, read_readings
from gaussveil.timeseries.gridding import Gaps
from gaussveil.timeseries.household_models import HouseholdModels, steps_ahead
from gaussveil.timeseries.readings import Unit
from gaussveil.typing import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateForecaster(Mechanism):
    """Forecasts of a household's load that could as well be another household's of its cluster.

    >>> from gaussveil import PrivateForecaster, simulate_households
    >>> readings = simulate_households(6, 15, step_minutes=60, seed=1)
    >>> forecaster = PrivateForecaster(horizon="2h", epsilon=1.0, delta=1e-5, clusters=1).fit(readings)
    >>> release = forecaster.release("home00003")
    >>> release.value.kw.shape, release.certificate.adjacency.edge_count
    ((2,), 30)

    Args:
        horizon: steps ahead, or text such as "3h".
        epsilon: where delta is promised, for one release.
        delta: the delta to promise; the noise then has the smallest error. Or:
        accuracy: largest mean squared error per step of log power; the noise then has the smallest delta.
        clusters: how many clusters of similar households to look for, or a public mapping from household to cluster.
        account: where a release is debited before it is drawn; one account per secret household.
        people: whose rows these are, as an account that is kept for a population names them.
        model: "past known" or "random past".
        smallest_cluster: fewest households that a cluster may have.
        smallest_kept: share of the variance between its households' forecasts that a forecast of one of them must keep;
            where it would keep less, the group's own is released. 1 always asks for the group's, 0 never.
        weekday_weight: how much a weekday's own profile counts against the mean day (`fit_weekly_season`); two weeks of
            readings do not support more than the default.
        floor: public power in kW that smaller readings are raised to before the logarithm.
        order: of the ARMA residual.
        noise_means, common_covariance: of the noise (`ClassLabelNoise`); per-household covariances gain little for
            constant queries and take much longer to search.
        coverage: of the band.
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        progress: show a progress bar while noise is searched.

    Fitted models and forecasts stay inside: copies and pickles carry the settings only.
    """

    mechanism = "private forecast"
    dial_promises: ClassVar[tuple[tuple[float, float], ...]] = DIAL_PROMISES
    horizon: int | str
    delta: float | None = None
    accuracy: float | None = None
    clusters: int | Mapping[str, object] = 6
    model: Model = "past known"
    smallest_cluster: int = 2
    smallest_kept: float = SMALLEST_KEPT
    weekday_weight: float = 0.25
    floor: float = 0.01
    order: tuple[int, int] = (6, 5)
    noise_means: bool = True
    common_covariance: bool = True
    coverage: float = 0.9
    progress: bool = False
    _models: HouseholdModels = field(init=False, repr=False)
    _library: str = field(init=False, repr=False, default="")
    _windows: dict[tuple[Any, ...], ForecastWindow] = field(
        init=False, repr=False, default_factory=dict
    )
    _pasts_used: PastsUsed = field(init=False, repr=False, default_factory=PastsUsed)

    def fit(
        self,
        readings: Any,
        *,
        household: str = "household",
        time: str = "time",
        power: str = "kw",
        measured_in: Unit = "kW",
        gaps: Gaps = "refuse",
        time_zone: str | None = None,
    ) -> PrivateForecaster:
        """Fit season, ARMA and clusters to `readings`, on the owner's side.

        Of a table `household`, `time`, `power`, `measured_in`, `gaps` and `time_zone` are those of `read_readings`.
        From a pandas or polars frame, the forecasts' `frame()` is one, too.

        Returns:
            The forecaster itself; nothing was released.

        Raises:
            ParameterError: a setting that no readings could fit.
            SchemaError: the table has no such columns.
        """
        self.check()
        self._library = library_of(readings)
        table = readings
        if not isinstance(table, Readings):
            named: dict[str, Any] = {
                "household": household,
                "time": time,
                "power": power,
                "time_zone": time_zone,
            }
            table = read_readings(readings, **named, measured_in=measured_in, gaps=gaps)
        steps_ahead(self.horizon, table.step_minutes)
        self._models = HouseholdModels.fit(
            table,
            clusters=self.clusters,
            smallest=self.smallest_cluster,
            floor=self.floor,
            weekday_weight=self.weekday_weight,
            order=self.order,
        )
        self._windows.clear()
        return self

    def plan(self, household: str, past: Readings | None = None) -> ForecastPlan:
        """One sentence: what a forecast of one household, after `past`, is worth beside its group's average; free.

        Returns:
            A `ForecastPlan`: the sentence, with `kept` and `group` as numbers.

        Raises:
            ParameterError: the household is unknown.
            AssumptionError: the household is alone in its cluster.
            SchemaError: `past` is not of the fitted households, at their step.
        """
        window = self._window(household, past, swap=False)
        known = window.noise.known
        kept = window.noise.retained_variance_
        alone = float(str(known.get("kept_alone", kept)))
        if alone < SMALLEST_KEPT:
            verdict = "the average of its group does as well"
        else:
            verdict = "it tells more than the average"
        return ForecastPlan(
            f"a forecast of one household keeps {alone:.2g} of the variance between the {len(window.names)} of its "
            f"group: {verdict}, and the {known['product']}'s is what would be released",
            kept=alone,
            group=len(window.names),
        )

    def dial(self, truth: Readings | None = None, **grid: Any) -> list[DialPoint]:
        """How much is kept for a range of promises and groups, and its error; for the owner, nothing is spent.

        `truth` holds the readings that followed; the `grid`'s `promises` and `clusters` are other settings to try.

        Returns:
            A point for each promise and number of clusters.

        Raises:
            ParameterError: the truth does not hold the steps that are forecast.
        """
        steps = steps_ahead(self.horizon, self._models.readings.step_minutes)
        return forecast_dial(self._models, steps, truth, **grid)

    def release(
        self, household: str, past: Readings | None = None
    ) -> Release[PrivateForecast]:
        """Debit, draw and certify the forecast of one household, for the steps after `past` (or after the fit).

        At strict settings it is that of its group: `certificate.parameters["product"]` says which. A later window needs
        the same clusters, so pass newer readings as `past` rather than fitting again: models and clusters stay, and the
        account composes the windows edge by edge.

        Returns:
            The forecast in kW, with its interval, and the certificate.

        Raises:
            ParameterError: the household is unknown.
            AssumptionError: the household is alone in its cluster.
            SchemaError: `past` is not of the fitted households, at their step.
            BudgetExceededError: the account cannot pay.
        """
        window = self._window(household, past, swap=False)
        query = window.queries.forecast[window.names.index(household)]
        with self._pasts_used.once(self.model, window.past):
            drawn = window.noise.release(household, query)
        return self._released(window, np.asarray(drawn.value), drawn.certificate)

    def release_cluster_of(
        self, household: str, past: Readings | None = None
    ) -> Release[PrivateForecast]:
        """Debit, draw and certify forecasts after `past` of a household's whole cluster: shuffled, without names.

        Returns:
            A forecast in each row, and the certificate; nothing tells whose a row is.

        Raises:
            ParameterError: the household is unknown.
            AssumptionError: the household is alone in its cluster.
            SchemaError: `past` is not of the fitted households, at their step.
            BudgetExceededError: the account cannot pay.
        """
        window = self._window(household, past, swap=True)
        with self._pasts_used.once(self.model, window.past):
            drawn = window.noise.release_all(window.names, window.queries.forecast)
        # The guarantee holds for every order of the rows; shuffled, the order itself is no clue either.
        generator = SecureGenerator() if self.generator is None else self.generator
        order = np.argsort(generator.uint64(len(window.names)), kind="stable")
        return self._released(window, drawn.value[order], drawn.certificate)

    def diagnostics(
        self,
        household: str,
        past: Readings | None = None,
        truth: ArrayLike | None = None,
        *,
        whole: bool = False,
    ) -> PrivateDiagnostics:
        """What only a household's owner may see: past day, plain forecast, expected errors in kW, the truth if given.

        `whole` looks at the noise of `release_cluster_of` instead of `release`.

        Returns:
            Values that no certificate covers: for the owner's eyes.

        Raises:
            ParameterError: the household is unknown.
            ShapeError: the truth has another length.
            AssumptionError: the household is alone in its cluster.
            SchemaError: `past` is not of the fitted households, at their step.
        """
        return self._window(household, past, swap=whole).seen_by_owner(household, truth)

    def _window(
        self, household: str, past: Readings | None, *, swap: bool
    ) -> ForecastWindow:
        self.check()
        if not hasattr(self, "_models"):
            raise ParameterError(
                "call fit(readings) first: models and clusters come from there."
            )
        models = self._models
        rows = models.members(household)
        if past is None:
            newer = models.readings
        else:
            newer = models.newer(past)
        content = sha256(newer.values.tobytes()).digest()
        key = (
            self.horizon,
            self.epsilon,
            self.delta,
            self.accuracy,
            self.model,
            self.smallest_kept,
            self.noise_means,
            self.common_covariance,
            rows[0],
            swap,
            newer.start,
            content,
        )
        if key not in self._windows:
            self._windows[key] = self._designed(models, rows, newer, swap)
        window = self._windows[key]
        window.noise.account, window.noise.generator = self.account, self.generator
        return window

    def _designed(
        self, models: HouseholdModels, rows: list[int], past: Readings, swap: bool
    ) -> ForecastWindow:
        steps = steps_ahead(self.horizon, past.step_minutes)
        queries = models.queries(past, rows, steps)
        names = tuple(past.households[row] for row in rows)
        if len(names) < 2:
            raise AssumptionError(
                "the household's cluster must hold at least 2 households, or there is nobody to hide among. Ask for "
                "fewer clusters."
            )
        times = past.times[-1] + np.timedelta64(past.step_minutes, "m") * np.arange(
            1, steps + 1
        )
        ahead = f"{steps} steps of {past.step_minutes} min from {times[0]}"
        if swap:
            whose = f"all {len(names)} households of a cluster"
        else:
            whose = f"one household of a cluster of {len(names)}"
        noise = _ForecastNoise(
            epsilon=self.epsilon,
            delta=self.delta,
            accuracy=self.accuracy,
            noise_means=self.noise_means,
            common_covariance=self.common_covariance,
            swap=swap,
            account=self.account,
            people=self.people,
            generator=self.generator,
            progress=self.progress,
            released=f"load forecast of {whose}: {ahead}",
            stated=(
                MODEL_IN_WORDS[self.model],
                "which household is in which cluster, and the moments of the cluster that scale the release to kW, are "
                "assumed public",
            ),
            known={
                "model": self.model,
                "product": "cluster" if swap else "household",
                "smallest_kept": self.smallest_kept,
                "cluster_size": len(names),
                "cluster_sizes": models.sizes,
                "step_minutes": past.step_minutes,
                "first_step": str(times[0]),
            },
            past=None if self.model == PAST_KNOWN else f"past until {past.times[-1]}",
            past_days=days_drawn_on(self.model, names, past),
            found_form=tuple(
                dict.fromkeys((*models.readings.found_form, *past.found_form))
            ),
        )
        if self.model == PAST_KNOWN:
            noise.design(queries.forecast, labels=names)
        else:
            noise.design(queries.mean, queries.covariance, labels=names)
        if not swap and noise.retained_variance_ < self.smallest_kept:
            group = f"{len(names)} households: {ahead}"
            noise = noise_of_group(noise, queries.forecast, group)
        return ForecastWindow.of(names, past, queries, times, noise)

    def _released(
        self, window: ForecastWindow, log_kw: Floats, certificate: Certificate
    ) -> Release[PrivateForecast]:
        forecast = window.scale.forecast(log_kw, window.times, self.coverage)
        self.certificate_ = certificate.of_values(digest_of(forecast.columns()))
        return Release(
            dataclasses.replace(forecast, frame_library=self._library),
            self.certificate_,
        )

    def check(self) -> None:
        """Refuse settings that no readings could fit; `fit` begins with it.

        Raises:
            ParameterError: a setting is out of range, or delta and accuracy are both given.
        """
        steps_ahead(self.horizon)
        checks.one_of("model", self.model, MODEL_IN_WORDS)
        if (self.delta is None) == (self.accuracy is None):
            raise ParameterError(
                "give exactly one of delta and accuracy: the other one is the answer."
            )
        checks.real("coverage", self.coverage, "(0, 1)")
        checks.real("smallest_kept", self.smallest_kept, "[0, 1]")
        check_generator(self.generator)

    def __getstate__(self) -> dict[str, Any]:
        return {
            each.name: getattr(self, each.name)
            for each in dataclasses.fields(self)
            if each.init
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, **state)
