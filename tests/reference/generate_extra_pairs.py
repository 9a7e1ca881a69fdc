"""Writes extra_pairs.json: hard Gaussian pairs whose divergence is known from the definition.

Run ``python tests/reference/generate_extra_pairs.py`` (half a minute). Every value is computed at two precisions and
kept only if they agree to 32 digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from definitions import equal_ratios, mean_shift, one_dimension, paired, two_dimensions
from mpmath import log, mp, mpf, nstr, sqrt

TABLE = Path(__file__).with_name("extra_pairs.json")
Matrix = list[list[float]]


def agreed(value: Callable[[], mpf], digits: int) -> mpf:
    """The value at `digits`, checked against half as many again."""
    with mp.workdps(digits):
        first = value()
    with mp.workdps(digits + digits // 2):
        second = value()
        if first != second and abs(first - second) > abs(second) * mpf(10) ** -32:
            raise ArithmeticError(f"precisions disagree: {nstr(first, 40)} and {nstr(second, 40)}")
        return +second


def mixed(tau: Sequence[float], b: Sequence[float]) -> dict[str, object]:
    """Matrices A diag(tau) A', A A', A b, A a unit lower-triangular integer matrix: exact for dyadic tau and b."""
    d = len(tau)
    a = [[1 if i == j else (i * 7 + j * 3) % 5 - 2 if j < i else 0 for j in range(d)] for i in range(d)]

    def product(diagonal: Sequence[float]) -> Matrix:
        return [[float(sum(a[i][k] * diagonal[k] * a[j][k] for k in range(d))) for j in range(d)] for i in range(d)]

    centre = [float(i % 3) for i in range(d)]
    shift = [float(sum(a[i][k] * b[k] for k in range(d))) for i in range(d)]
    return {
        "mu1": [c + v for c, v in zip(centre, shift)],
        "S1": product(tau),
        "mu2": centre,
        "S2": product([1.0] * d),
    }


def case(
    name: str,
    family: str,
    eps: float,
    nu: Sequence[float],
    b: Sequence[float],
    value: Callable[[], mpf],
    *,
    note: str = "",
    digits: int = 60,
    matrices: bool = False,
) -> dict[str, object]:
    """One row of the table."""
    delta = agreed(value, digits)
    print(name, nstr(delta, 12), flush=True)
    row: dict[str, object] = {
        "id": name,
        "d": len(nu),
        "family": family,
        "eps": eps,
        "note": note,
        "delta_ref": nstr(delta, 30, min_fixed=0, max_fixed=0) if delta else "0.0",
        "nu": [repr(n) for n in nu],
        "b": [repr(x) for x in b],
    }
    if delta:
        with mp.workdps(80):
            row["log_delta_ref"] = nstr(log(delta), 30)
    if delta > 0.5:
        with mp.workdps(digits):
            row["one_minus_delta_ref"] = nstr(1 - delta, 30, min_fixed=0, max_fixed=0)
    if matrices:
        row |= mixed([1.0 - n for n in nu], b)
    return row


def mean_cases() -> list[dict[str, object]]:
    rows = []
    for name, t, eps, digits in [
        ("mean_tiny", 1e-6, 0.0, 60),
        ("mean_tiny_off_zero", 1e-6, 1e-5, 120),
        ("mean_tiny_deep", 1e-3, 0.25, 60),
        ("mean_mu100", 100.0, 4000.0, 900),
        ("mean_mu100_eps1000", 100.0, 1000.0, 1500),
        ("mean_below_1e-50000", 2.0625, 1000.0, 80),
        ("mean_eps1000_balanced", 40.0, 1000.0, 80),
    ]:
        rows.append(case(name, "mean", eps, [0.0], [t], lambda t=t, eps=eps: mean_shift(t, eps), digits=digits))
    spread = [0.125 * (i % 7) - 0.25 for i in range(12)]
    rows.append(
        case(
            "mean_d12_matrices",
            "mean",
            2.0,
            [0.0] * 12,
            spread,
            lambda: mean_shift(sqrt(sum(mpf(x) ** 2 for x in spread)), 2.0),
            matrices=True,
        )
    )
    wide = [0.01 * ((i * 37) % 11) for i in range(200)]
    rows.append(
        case(
            "mean_d200",
            "mean",
            5.0,
            [0.0] * 200,
            wide,
            lambda: mean_shift(sqrt(sum(mpf(x) ** 2 for x in wide)), 5.0),
        )
    )
    return rows


def one_dimension_cases() -> list[dict[str, object]]:
    rows = []
    for name, nu, b, eps, digits, note in [
        ("d1_tau_1e-10", 1 - 1e-10, 0.0, 1.0, 60, ""),
        ("d1_tau_1e-10_mean", 1 - 1e-10, 0.5, 11.0, 60, ""),
        ("d1_tau_1e10", -1e10, 0.0, 1.0, 60, ""),
        ("d1_tau_1e10_mean", -1e10, 1000.0, 30.0, 60, ""),
        ("d1_near_equal", 1e-12, 0.25, 1.0, 120, "variances differ by 1e-12"),
        ("d1_near_equal_no_mean", -1e-9, 0.0, 1e-9, 120, "delta about 1e-10 from the variances alone"),
        ("d1_wide_eps1000", -0.01, 0.0, 1000.0, 80, "delta about 10^-43431"),
        ("d1_narrow_far_edge", 0.5, 1.0, 1.34657359, 60, "eps just below sup L"),
        ("d1_past_edge", 0.5, 1.0, 1.5, 60, "eps above sup L: exactly zero"),
        ("d1_near_one", -99.0, 80.0, 5.0, 60, ""),
        ("d1_narrow_mean_near_one", 0.9375, 6.0, 3.0, 60, ""),
        ("d1_both_eps1000", -0.25, 12.0, 1000.0, 80, ""),
        ("d1_subnormal_scale", -0.5, 1e-8, 700.0, 80, "delta about 1e-609"),
    ]:
        matrices = nu in (0.5, -0.5, -0.25)
        rows.append(
            case(
                name,
                "both" if b else "cov",
                eps,
                [nu],
                [b],
                lambda nu=nu, b=b, eps=eps: one_dimension(nu, b, eps),
                digits=digits,
                note=note,
                matrices=matrices,
            )
        )
    return rows


def equal_ratio_cases() -> list[dict[str, object]]:
    rows = []
    for name, nu, degrees, eps, b, digits, note in [
        ("equal_d12_wide", -0.5, 12, 1.0, 0.0, 60, "one eigenvalue repeated 12 times"),
        ("equal_d12_narrow", 0.25, 12, 1.0, 0.0, 60, ""),
        ("equal_d12_wide_mean", -0.5, 12, 2.0, 0.25, 60, "repeated eigenvalue with a mean gap"),
        ("equal_d12_narrow_mean", 0.25, 12, 3.0, 0.5, 60, ""),
        ("equal_d200_wide", -0.01, 200, 1.0, 0.0, 80, ""),
        ("equal_d200_narrow_mean", 0.02, 200, 2.0, 0.05, 80, ""),
        ("equal_d200_near", 1e-9, 200, 1e-8, 0.0, 160, "200 variances that differ by 1e-9"),
        ("equal_d40_huge", -1e10, 40, 400.0, 0.0, 500, ""),
        ("equal_d40_tiny_tau", 1 - 1e-10, 40, 440.0, 0.0, 100, "sup L is 460.5"),
        ("equal_d100_eps1000", -0.03125, 100, 1000.0, 0.0, 100, "delta about 10^-13900"),
    ]:
        rows.append(
            case(
                name,
                "both" if b else "cov",
                eps,
                [nu] * degrees,
                [b] * degrees,
                lambda nu=nu, r=degrees, eps=eps, b=b: equal_ratios(nu, r, eps, r * mpf(b) ** 2),
                digits=digits,
                note=note,
                matrices=degrees == 12,
            )
        )
    return rows


def paired_cases() -> list[dict[str, object]]:
    rows = []
    for name, distinct, eps, digits, note in [
        ("paired_d12", [-2.0, -0.5, -0.25, 0.25, 0.5, 0.75], 1.0, 60, "each eigenvalue twice"),
        ("paired_edge_no_decay", [-1.0, 0.5], 0.0, 60, "L_inf = eps exactly"),
        ("paired_edge_close", [-1.0, 0.5], 1e-9, 60, "L_inf - eps = -1e-9"),
        ("paired_d12_close", [-3.0, -1.0, -0.25, 0.5, 0.625, 0.75], 0.7576857, 60, "eps next to L_inf"),
        ("paired_d12_spread", [-1e10, -1e4, -1.0, 0.5, 1 - 1e-6, 1 - 1e-10], 20.0, 100, "tau from 1e-10 to 1e10"),
        ("paired_d200", [-0.001 * (i + 1) if i % 2 else 0.0008 * (i + 1) for i in range(100)], 3.0, 400, ""),
    ]:
        nu = [n for n in distinct for _ in range(2)]
        rows.append(
            case(
                name,
                "cov",
                eps,
                nu,
                [0.0] * len(nu),
                lambda distinct=distinct, eps=eps: paired(distinct, eps),
                digits=digits,
                note=note,
                matrices=all(n * 64 == round(n * 64) and abs(n) < 64 for n in distinct),
            )
        )
    return rows


def two_dimension_cases() -> list[dict[str, object]]:
    rows = []
    for name, nu, b, eps, note in [
        ("d2_mixed_mean", [-1.0, 0.5], [0.5, -0.25], 1.0, ""),
        ("d2_rank_one_mean", [-3.0, 0.0], [0.5, 1.0], 2.0, "rank-one covariance difference, mean outside it"),
        ("d2_rank_one_narrow_mean", [0.75, 0.0], [0.25, 0.5], 2.0, ""),
        ("d2_both_narrow", [0.5, 0.25], [0.5, 0.25], 0.75, "two different narrow directions"),
        ("d2_near_and_far", [1e-7, -1.0], [0.25, 0.0], 1.0, "one direction nearly equal"),
    ]:
        rows.append(
            case(
                name,
                "both",
                eps,
                nu,
                b,
                lambda nu=nu, b=b, eps=eps: two_dimensions(nu, b, eps),
                digits=40,
                note=note,
                matrices=nu[0] != 1e-7,
            )
        )
    # A rank-one difference in 12 dimensions: eleven equal directions act through the length of their mean gap alone.
    rest = [0.125 * (i % 4) for i in range(11)]
    rows.append(
        case(
            "d12_rank_one",
            "both",
            1.5,
            [-0.75, *[0.0] * 11],
            [0.5, *rest],
            lambda: two_dimensions([-0.75, 0.0], [0.5, sqrt(sum(mpf(x) ** 2 for x in rest))], 1.5),
            digits=40,
            note="rank-one covariance difference",
            matrices=True,
        )
    )
    return rows


def main() -> None:
    cases = [*mean_cases(), *one_dimension_cases(), *equal_ratio_cases(), *paired_cases(), *two_dimension_cases()]
    text = (
        "X~N(mu1,S1), Y~N(mu2,S2); reduced form: X_i~N(b_i,1-nu_i), Y_i~N(0,1), nu and b read as doubles; "
        "the matrices, where given, have exactly that reduced form; delta_ref = delta_{X,Y}(eps) to 30 digits, "
        "log_delta_ref its natural logarithm"
    )
    TABLE.write_text(json.dumps({"format": text, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
