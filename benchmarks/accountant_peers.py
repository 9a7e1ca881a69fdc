"""Accountants of DP-SGD, run in their own environment: JSON task on stdin, JSON answers on stdout.

A task is {"peer": ..., "cases": [...], "limit": CPU seconds a case}. Each case runs in a process of its own, after the
imports; a case without an answer is null. Nothing here imports gaussveil.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any


def dp_accounting_pld(interval: float) -> Callable[..., float]:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        accountant = PLDAccountant(value_discretization_interval=interval)
        return accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps).get_epsilon(delta)

    return epsilon


def dp_accounting_rdp() -> Callable[..., float]:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        return RdpAccountant().compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps).get_epsilon(delta)

    return epsilon


def dp_accounting_mixed(interval: float) -> Callable[..., float]:
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    grid = {"value_discretization_interval": interval}
    kinds: dict[str, Callable[..., Any]] = {
        "dpsgd": lambda noise, rate: pld.from_gaussian_mechanism(noise, sampling_prob=rate, **grid),
        "gaussian": lambda noise: pld.from_gaussian_mechanism(noise, **grid),
        "laplace": lambda shift: pld.from_laplace_mechanism(1.0 / shift, **grid),
        "geometric": lambda shift, scale: pld.from_discrete_laplace_mechanism(1.0 / scale, sensitivity=shift, **grid),
        "discrete gaussian": lambda noise, shift: pld.from_discrete_gaussian_mechanism(
            noise, sensitivity=shift, **grid
        ),
        "response": lambda epsilon, classes: pld.from_randomized_response(
            classes / (math.exp(epsilon) + classes - 1.0), classes, **grid
        ),
        "exponential": lambda epsilon: pld.from_privacy_parameters(DifferentialPrivacyParameters(epsilon, 0.0), **grid),
        "point": lambda epsilon, delta: pld.from_privacy_parameters(
            DifferentialPrivacyParameters(epsilon, delta), **grid
        ),
    }

    def epsilon(parts: list[Any], delta: float) -> float:
        whole = None
        for kind, *numbers, count in parts:
            found = kinds[kind](*numbers)
            found = found.self_compose(count) if count > 1 else found
            whole = found if whole is None else whole.compose(found)
        return whole.get_epsilon_for_delta(delta)

    return epsilon


def dp_accounting_curve() -> Callable[..., float]:
    from dp_accounting.pld import privacy_loss_distribution as pld

    def mean_delta(noise: float, rate: float, steps: int, points: int) -> float:
        run = pld.from_gaussian_mechanism(noise, sampling_prob=rate).self_compose(steps)
        levels = [4.0 * k / points for k in range(points)]
        return float(sum(run.get_delta_for_epsilon(levels))) / points

    return mean_delta


def opacus(kind: str) -> Callable[..., float]:
    from opacus.accountants import create_accountant

    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        accountant = create_accountant(mechanism=kind)
        accountant.history = [(noise, rate, steps)]
        return accountant.get_epsilon(delta=delta)

    return epsilon


def prv_accountant() -> Callable[..., float]:
    from prv_accountant import Accountant

    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        accountant = Accountant(
            noise_multiplier=noise, sampling_probability=rate, delta=delta, max_compositions=steps, eps_error=0.1
        )
        return accountant.compute_epsilon(num_compositions=steps)[2]  # its upper end

    return epsilon


def autodp() -> Callable[..., float]:
    from autodp import mechanism_zoo, transformer_zoo

    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        sampled = transformer_zoo.AmplificationBySampling(PoissonSampling=True)(
            mechanism_zoo.GaussianMechanism(sigma=noise), rate, improved_bound_flag=True
        )
        return transformer_zoo.Composition()([sampled], [steps]).get_approxDP(delta)

    return epsilon


def saddle_point(kind: str, *, order: int | None) -> Callable[..., float]:
    from saddlepoint_accountant import GaussianMechanism, LaplaceMechanism, SaddlePointAccountant

    def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
        if kind == "Laplace":
            mechanism = LaplaceMechanism(sens=1.0 / noise)
        else:
            mechanism = GaussianMechanism(sampling_probability=rate, noise_multiplier=noise)
        accountant = SaddlePointAccountant(mechanism)
        if order is not None:
            return accountant.compute_epsilon_msd(delta, steps, order)
        return accountant.compute_epsilon_clt(delta, steps)[2]  # its upper end

    return epsilon


PEERS: dict[str, Callable[[], Callable[..., float]]] = {
    "dp_accounting PLD, default": lambda: dp_accounting_pld(1e-4),
    "dp_accounting PLD, fine": lambda: dp_accounting_pld(1e-5),
    "dp_accounting PLD, mixed": lambda: dp_accounting_mixed(1e-5),
    "dp_accounting PLD, curve": dp_accounting_curve,
    "dp_accounting RDP": dp_accounting_rdp,
    "Opacus prv": lambda: opacus("prv"),
    "Opacus gdp": lambda: opacus("gdp"),
    "Opacus rdp": lambda: opacus("rdp"),
    "prv_accountant": prv_accountant,
    "autodp": autodp,
    "saddle point, upper end, DP-SGD": lambda: saddle_point("DP-SGD", order=None),
    "saddle point, order 3, DP-SGD": lambda: saddle_point("DP-SGD", order=3),
    "saddle point, upper end, Laplace": lambda: saddle_point("Laplace", order=None),
    "saddle point, order 3, Laplace": lambda: saddle_point("Laplace", order=3),
}


def answer(epsilon: Callable[..., float], case: list[Any], limit: int, pipe: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    start = time.process_time()
    try:
        found = float(epsilon(*case))
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError):
        found = math.nan
    pipe.send([found if math.isfinite(found) else None, time.process_time() - start])


def main() -> None:
    warnings.simplefilter("ignore")
    task = json.load(sys.stdin)
    epsilon = PEERS[task["peer"]]()
    fork, found = multiprocessing.get_context("fork"), []
    for case in task["cases"]:
        ours, theirs = fork.Pipe(duplex=False)
        worker = fork.Process(target=answer, args=(epsilon, case, task["limit"], theirs))
        worker.start()
        theirs.close()
        try:
            found.append(ours.recv())
        except EOFError:
            found.append([None, float(task["limit"])])
        worker.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
