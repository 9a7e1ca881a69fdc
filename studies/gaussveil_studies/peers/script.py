"""Runs inside a peer's environment, by path: a JSON task on stdin, a JSON answer on the last line of stdout.

It imports the peer and the standard library only, never this package.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from importlib.metadata import version
from typing import Any

QUICK_SECONDS = 10.0
ANSWER_SECONDS = 60  # of CPU time
ANSWER_BYTES = (
    4 << 30
)  # of address space: some grids would take all memory of the machine


def diffprivlib_sigma(case: dict[str, Any]) -> dict[str, Any]:
    """Calibrate by diffprivlib's GaussianAnalytic at sensitivity 1."""
    from diffprivlib.mechanisms import GaussianAnalytic  # type: ignore[import-not-found, unused-ignore]

    mechanism = GaussianAnalytic(
        epsilon=case["epsilon"], delta=case["delta"], sensitivity=1
    )
    return {"sigma": float(mechanism._scale), "version": version("diffprivlib")}


def autodp_sigma(case: dict[str, Any]) -> dict[str, Any]:
    """Calibrate by autodp's analytic Gaussian calibrator."""
    # mechanism_zoo first: starting with a calibrator is a circular import.
    from autodp.mechanism_zoo import GaussianMechanism  # type: ignore[import-not-found, unused-ignore]

    from autodp.calibrator_zoo import ana_gaussian_calibrator  # type: ignore[import-not-found, unused-ignore] # isort: skip

    mechanism = ana_gaussian_calibrator()(
        GaussianMechanism, case["epsilon"], case["delta"]
    )
    return {"sigma": float(mechanism.params["sigma"]), "version": version("autodp")}


def dp_accounting_sigma(case: dict[str, Any]) -> dict[str, Any]:
    """Calibrate by dp_accounting's smallest Gaussian noise."""
    from dp_accounting.pld import accountant, common

    goal = common.DifferentialPrivacyParameters(case["epsilon"], case["delta"])
    return {
        "sigma": float(accountant.get_smallest_gaussian_noise(goal, 1, 1)),
        "version": version("dp-accounting"),
    }


def opendp_sigma(case: dict[str, Any]) -> dict[str, Any]:
    """Calibrate by OpenDP's search over its own Gaussian measurement, through zCDP."""
    import opendp.prelude as dp  # type: ignore[import-not-found, unused-ignore]

    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=1),
        dp.l2_distance(T=float),
    )

    def measurement(scale: float) -> Any:
        return dp.c.make_fix_delta(
            dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)),
            case["delta"],
        )

    goal = (float(case["epsilon"]), case["delta"])
    return {
        "sigma": float(dp.binary_search_param(measurement, 1.0, goal, T=float)),
        "version": version("opendp"),
    }


def dp_accounting_delta(case: dict[str, Any]) -> dict[str, Any]:
    """Compose by dp_accounting's privacy loss distribution."""
    from dp_accounting.pld import privacy_loss_distribution

    one = privacy_loss_distribution.from_gaussian_mechanism(case["sigma"])
    if case["count"] > 1:
        composed = one.self_compose(case["count"])
    else:
        composed = one
    return {
        "delta": float(composed.get_delta_for_epsilon(case["epsilon"])),
        "version": version("dp-accounting"),
    }


def autodp_delta(case: dict[str, Any]) -> dict[str, Any]:
    """Compose by autodp's characteristic functions."""
    from autodp.mechanism_zoo import GaussianMechanism

    from autodp.transformer_zoo import ComposeAFA  # type: ignore[import-not-found, unused-ignore] # isort: skip

    composed = ComposeAFA()(
        [GaussianMechanism(case["sigma"], phi_off=False)], [case["count"]]
    )
    return {
        "delta": float(composed.approx_delta(case["epsilon"])),
        "version": version("autodp"),
    }


def prv_accountant_delta(case: dict[str, Any]) -> dict[str, Any]:
    """Upper end of the PRV accountant."""
    from prv_accountant import PRVAccountant  # type: ignore[import-not-found, unused-ignore]
    from prv_accountant.privacy_random_variables import GaussianMechanism  # type: ignore[import-not-found, unused-ignore]

    counts = [case["count"]]
    accountant = PRVAccountant(
        [GaussianMechanism(case["sigma"])],
        eps_error=0.01,
        delta_error=1e-12,
        max_self_compositions=counts,
    )
    return {
        "delta": float(accountant.compute_delta(case["epsilon"], counts)[2]),
        "version": version("prv-accountant"),
    }


def gx2_tails(case: dict[str, Any]) -> dict[str, Any]:
    """Upper tails of generalised chi-squares, method left at its default; null where it fails."""
    from gx2 import cdf  # type: ignore[import-not-found, unused-ignore]

    tails: list[float | None] = []
    for form in case["forms"]:
        try:
            tails.append(
                float(
                    cdf(
                        form["at"],
                        form["w"],
                        form["k"],
                        form["l"],
                        form["s"],
                        form["m"],
                        side="upper",
                    )
                )
            )
        except (ValueError, ArithmeticError, IndexError):
            tails.append(None)
    return {"tails": tails, "version": version("gx2")}


TASKS = {
    task.__name__: task
    for task in (
        diffprivlib_sigma,
        autodp_sigma,
        dp_accounting_sigma,
        opendp_sigma,
        dp_accounting_delta,
        autodp_delta,
        prv_accountant_delta,
        gx2_tails,
    )
}


def timed(task: str, case: dict[str, Any]) -> dict[str, Any]:
    """A task's answer with its CPU seconds: those of a second call where the first, which imports, was quick."""
    start = time.process_time()
    answer = TASKS[task](case)
    spent = time.process_time() - start
    if spent < QUICK_SECONDS:
        start = time.process_time()
        TASKS[task](case)
        spent = time.process_time() - start
    return {**answer, "seconds": spent}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CPU, (ANSWER_SECONDS, ANSWER_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (ANSWER_BYTES, ANSWER_BYTES))
    question = json.load(sys.stdin)
    sys.stdout.write(
        "\n" + json.dumps(timed(question["task"], question["case"])) + "\n"
    )
