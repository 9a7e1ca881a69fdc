"""Time series of meter readings: seasonal split, ARMA, forecasts, spectra and a household simulator.

Domain code only. Nothing here is private and nothing here draws noise for a release: the simulator takes a seed,
and every other function is deterministic.
"""

from __future__ import annotations

from gaussveil.timeseries.arma import ArmaModels, fit_arma
from gaussveil.timeseries.arma_process import autocovariance, impulse_response
from gaussveil.timeseries.clusters import Clusters, cluster_households, day_profiles
from gaussveil.timeseries.forecast import Forecast, band_kw, conditional_forecast, mmse_forecast, to_kw
from gaussveil.timeseries.likelihood import log_likelihood
from gaussveil.timeseries.psd import ar1_covariance, ar1_spectrum, psd_variance, smooth_both_ways, welch_psd
from gaussveil.timeseries.readings import Readings, read_readings
from gaussveil.timeseries.seasonal import WeeklySeason, fit_weekly_season, log_power
from gaussveil.timeseries.simulate import simulate_households
from gaussveil.timeseries.spectral_factor import (
    Filter,
    all_pole_factor,
    impulse_energy,
    minimum_phase_factor,
    one_pole_one_zero,
)
from gaussveil.timeseries.wiener import smooth
from gaussveil.timeseries.window_sums import NoisySum, window_covariance

__all__ = [
    "ArmaModels",
    "Clusters",
    "Filter",
    "Forecast",
    "NoisySum",
    "Readings",
    "WeeklySeason",
    "all_pole_factor",
    "ar1_covariance",
    "ar1_spectrum",
    "autocovariance",
    "band_kw",
    "cluster_households",
    "conditional_forecast",
    "day_profiles",
    "fit_arma",
    "fit_weekly_season",
    "impulse_energy",
    "impulse_response",
    "log_likelihood",
    "log_power",
    "minimum_phase_factor",
    "mmse_forecast",
    "one_pole_one_zero",
    "psd_variance",
    "read_readings",
    "simulate_households",
    "smooth",
    "smooth_both_ways",
    "to_kw",
    "welch_psd",
    "window_covariance",
]
