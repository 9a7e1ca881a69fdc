"""Delta of DP-SGD runs to 30 digits and more, with mpmath and exact integer products (no package code).

    python tests/reference/generate_training.py --cases 300 --out tests/reference/training.json

X = (1-q) N(0, s^2) + q N(1, s^2) against Y = N(0, s^2), T times: delta = (1/pi) Re int F over the upper half of a path
from a real c > 0, F = M(t)^T e^(-t eps) / (t (t+1)), M(t) = E[exp((1+t) A(z))]. One step has a closed form. Where the
integrand falls on a straight line, that is taken, with trapezoid sums over z and t. Elsewhere two rays: losses
A = log(1-q) + e^(v + i psi), orders t = c + e^(u + i angle), whose product depends on u + v. Every case is computed
with two sets of parameters, and kept if both agree to 30 digits of delta.

Run again, it keeps what the file holds and adds what is missing.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from flint import fmpz_poly

SEED = 20
AGREE = 1e-30
DIGITS = 100.0  # e-foldings aimed at
LITTLE = ((0.3, 0.5), (1e-5, 1e-2), (1e2, 1e7))  # ranges of noise multipliers, rates and steps there
PRODUCTS = 1.5e6  # of one straight line
FIRST_AT_AN_EDGE = 1000  # index of the first setting that is
FIRST_OF_LITTLE_NOISE = 3000  # and of rare records, over many steps


def draw(index: int, seed: int = SEED) -> tuple[float, float, int, float]:
    """Noise multiplier, rate, steps and log of the delta aimed at; all of them log-uniform, later ones at an edge."""
    rng = random.Random(f"{seed}/{index}")
    noise = float(f"{math.exp(rng.uniform(math.log(0.3), math.log(100.0))):.5g}")
    rate = float(f"{math.exp(rng.uniform(math.log(1e-5), 0.0)):.5g}")
    steps, goal = round(math.exp(rng.uniform(0.0, math.log(1e7)))), -rng.uniform(math.log(10), math.log(1e30))
    if index < FIRST_AT_AN_EDGE:
        return noise, rate, steps, goal
    if index >= FIRST_OF_LITTLE_NOISE:
        noise, rate, steps = (math.exp(rng.uniform(*map(math.log, ends))) for ends in LITTLE)
        return float(f"{noise:.5g}"), float(f"{rate:.5g}"), round(steps), goal
    small = math.exp(rng.uniform(math.log(1e-7), math.log(0.1)))
    edges: list[tuple[float, float, int, float]] = [
        (float(f"{0.3 + 0.3 * rng.random():.5g}"), float(f"{1e-5 + 1e-3 * small:.5g}"), steps, goal),
        (0.3, 1e-5, steps, goal),
        (0.3, rate, steps, goal),
        (100.0, rate, steps, goal),
        (noise, 1e-5, steps, goal),
        (noise, float(f"{1.0 - small:.9g}"), steps, goal),
        (noise, 1.0, steps, goal),
        (noise, rate, 1, goal),
        (noise, rate, rng.randint(2, 5), goal),
        (noise, rate, 10**7, goal),
        (noise, rate, steps, -math.log(1e30)),
    ]
    return edges[index % len(edges)]


# --- choices, in doubles


def loss(noise: float, rate: float, z: np.ndarray) -> np.ndarray:
    return np.logaddexp(np.log1p(-rate), math.log(rate) + z / noise - 0.5 / noise**2)


def tilted(noise: float, rate: float, steps: int, order: float, cap: float = math.inf) -> tuple[float, float, float]:
    """K, K', K'' at a real order, of outputs up to the cap."""
    z = np.arange(-12.0, min(12.0 + (1 + order) / noise, cap), 0.4 * min(noise, 1.0))
    a = loss(noise, rate, z)
    size = (1 + order) * a - 0.5 * z * z
    terms = np.exp(size - size.max())
    mass = terms.sum()
    mean = terms @ a / mass
    value = size.max() + math.log(mass * (z[1] - z[0]) / math.sqrt(2 * math.pi))
    return steps * value, steps * mean, steps * (terms @ (a - mean) ** 2) / mass


def level(noise: float, rate: float, steps: int, goal: float) -> float:
    """About the epsilon at which log delta is the goal, by the saddlepoint approximation."""
    low, high = -14.0, 30.0
    cap = 1 / noise + math.sqrt(2 * (5 - goal + math.log(steps)))
    for _ in range(60):
        order = math.exp(0.5 * (low + high))
        value, mean, bend = tilted(noise, rate, steps, order, cap)
        found = value - order * mean - math.log(order * (1 + order) * math.sqrt(2 * math.pi * bend) + 1)
        low, high = (0.5 * (low + high), high) if found > goal else (low, 0.5 * (low + high))
    return mean


def cut(noise: float, rate: float, steps: int, c: float, goal: float) -> float:
    """A z beyond which outputs have no share in delta = e^goal and terms of M(c) none in it; nan if there is none.

    Moments may be carried by outputs that never occur: they are left out.
    """
    least = 1 / noise + math.sqrt(2 * (1.1 * DIGITS - goal + math.log(steps)))
    z = np.arange(-25.0, least + 80.0, 0.05)
    size = (1 + c) * loss(noise, rate, z) - 0.5 * z * z
    top = size[z <= least].max()
    low = np.flatnonzero((z >= least) & (size <= top - 1.15 * DIGITS - math.log(steps)))
    return float(z[low[0]]) if low.size else math.nan


def centre(noise: float, rate: float, steps: int, epsilon: float, goal: float | None = None) -> float:
    """c next to the saddle: of outputs up to the cut, or such that terms grow little on the ray of losses."""
    low, high = -14.0, 30.0
    for _ in range(60):
        c, cap = math.exp(0.5 * (low + high)), math.inf
        rises = c > 1e7 * noise
        if not rises:
            if goal is None:
                rises = grown(noise, rate, c, steepness(noise, rate, c)) > 30.0
            else:
                cap = cut(noise, rate, steps, c, goal)
                rises = not cap < math.inf
        rises = rises or tilted(noise, rate, steps, c, cap)[1] - epsilon - 1 / c - 1 / (1 + c) > 0
        low, high = (low, 0.5 * (low + high)) if rises else (0.5 * (low + high), high)
    return math.exp(low)


def steepness(noise: float, rate: float, c: float) -> float:
    mean = max(tilted(noise, rate, 1, c)[1] - math.log1p(-rate), 1e-12)
    return min(0.5, 3.0 / (noise * mean / -math.expm1(-mean)))


def ray_size(noise: float, rate: float, order: float, v: np.ndarray, angle: float) -> np.ndarray:
    """log |e^((1+c) l) phi(z)| on the ray of losses above the floor."""
    above = np.exp(v + 1j * angle)
    root = np.where(above.real > 0.5, above + np.log(-np.expm1(-above)), v + 1j * angle + np.log(_mean_exp(above)))
    z = noise * (root + math.log1p(-rate) - math.log(rate)) + 0.5 / noise
    return ((1 + order) * above - 0.5 * z * z).real


def _mean_exp(x: np.ndarray) -> np.ndarray:
    small = np.where(x.real > 0.5, 1.0, x)
    return np.expm1(small) / small


def grown(noise: float, rate: float, c: float, angle: float) -> float:
    far = math.log(3 * (1 + c) / noise**2 / math.cos(2.7 * angle) + 3)
    v = np.linspace(far - 40, far, 1500)
    return float(ray_size(noise, rate, c, v, 1.3 * angle).max() - ray_size(noise, rate, c, v, 0.0).max())


# --- the integrals


def one_step(noise: float, rate: float, epsilon: float) -> mp.mpf:
    s, q, e = mp.mpf(noise), mp.mpf(rate), mp.mpf(epsilon)
    edge = s * mp.log((mp.expm1(e) + q) / q) + 1 / (2 * s)

    def tail(shift: mp.mpf) -> mp.mpf:
        return mp.erfc((edge - shift) / mp.sqrt(2)) / 2

    return mp.log((1 - q) * tail(mp.mpf(0)) + q * tail(1 / s) - mp.e**e * tail(mp.mpf(0)))


def gaussian(noise: float, steps: int, epsilon: float) -> mp.mpf:
    """log delta without sampling."""
    shift, e = mp.sqrt(steps) / mp.mpf(noise), mp.mpf(epsilon)
    near, far = ((e / shift + sign * shift / 2) / mp.sqrt(2) for sign in (-1, 1))
    return mp.log((mp.erfc(near) - mp.e**e * mp.erfc(far)) / 2)


def line(
    noise: float, rate: float, steps: int, epsilon: float, goal: float, finer: float, shift: float
) -> mp.mpf | None:
    """log delta along Re t = c, None where the integrand falls too slowly; sums in fixed point."""
    c = centre(noise, rate, steps, epsilon, goal) * shift
    cap = cut(noise, rate, steps, c, goal)
    value, _, bend = tilted(noise, rate, steps, c, cap)
    if not value - c * epsilon - 2 * math.log(c) < goal + 60.0 or c * math.sqrt(bend) > 30.0:
        return None
    h = finer * 2 * math.pi / math.sqrt(2 * DIGITS * bend + (2 * DIGITS / (2 * math.pi)) ** 2 * 8 / c**2)
    strip = min(0.9 * math.pi * noise, 10.0)
    spacing = finer * 2 * math.pi * strip / (2.2 * DIGITS + math.log(steps) + strip**2 / 2)
    far = np.arange(-20.0, cap, 0.05)
    size = (1 + c) * loss(noise, rate, far) - 0.5 * far * far
    inside = far[size > size.max() - 1.7 * DIGITS]
    s, q = mp.mpf(noise), mp.mpf(rate)
    z = [mp.mpf(spacing) * k for k in range(math.floor(inside[0] / spacing), math.ceil(inside[-1] / spacing) + 1)]
    if len(z) * 60 > PRODUCTS:
        return None
    a = [mp.log1p(q * mp.expm1(x / s - 1 / (2 * s * s))) for x in z]
    weights = [mp.exp((1 + mp.mpf(c)) * y - x * x / 2) for x, y in zip(z, a)]
    total = mp.fsum(weights)
    bits = mp.mp.prec
    one = mp.mpf(2) ** bits
    level_ = mp.fsum(x * y for x, y in zip(weights, a)) / total  # phases about the mean turn slowly
    turns = [mp.expj(mp.mpf(h) * (y - level_)) for y in a]
    real, imag = [int(x / total * one) for x in weights], [0] * len(z)
    turn_real, turn_imag = [int(x.real * one) for x in turns], [int(x.imag * one) for x in turns]
    floor = mp.log(total * spacing / mp.sqrt(2 * mp.pi))
    top = steps * floor - mp.mpf(c) * epsilon
    found, fallen, n = mp.mpf(0), 0, 0
    while fallen < 12:
        t = mp.mpc(c, n * mp.mpf(h))
        m = mp.mpc(sum(real), sum(imag)) / one
        term = m**steps * mp.expj(n * mp.mpf(h) * (steps * level_ - epsilon)) / (t * (t + 1))
        found += term.real * (mp.mpf("0.5") if n == 0 else 1)
        fallen = fallen + 1 if abs(term) < mp.mpf(10) ** -46 * abs(found) else 0
        real, imag = (
            [(x * u - y * v) >> bits for x, y, u, v in zip(real, imag, turn_real, turn_imag)],
            [(x * v + y * u) >> bits for x, y, u, v in zip(real, imag, turn_real, turn_imag)],
        )
        n += 1
        if n * len(z) > PRODUCTS:
            return None
    return top + mp.log(found * h / mp.pi)


def rays(noise: float, rate: float, steps: int, epsilon: float, _: float, finer: float, shift: float) -> mp.mpf:
    """log delta along the two rays; the product of polynomials is exact."""
    lost = 0.0
    c = centre(noise, rate, steps, epsilon) * shift
    angle = steepness(noise, rate, c) * (0.9 + 0.1 * shift)
    bend, turn = 0.4 * angle, 0.29 * angle
    lift = grown(noise, rate, c, angle)
    value, _, curve = tilted(noise, rate, steps, c)
    width = 1 / math.hypot(math.sqrt(curve), 1 / c)
    while True:
        digits = DIGITS + lift + lost + math.log(steps)
        mp.mp.dps = int(digits / 2.3) + 30
        h = finer * 2 * math.pi * turn / digits
        far = math.log(3 * (1 + c) / noise**2 / math.cos(2.7 * angle) + 3 + 40 / noise)
        least = (-math.sqrt(2 * digits) - 6 - 0.5 / noise) / noise + math.log(rate) - math.log1p(-rate)
        v = np.arange(min(least, -3.0), far, h)
        size = ray_size(noise, rate, c, v, angle)
        inside = np.flatnonzero(size > -digits * 1.05)
        low, high = math.floor(v[inside[0]] / h), math.ceil(v[inside[-1]] / h)
        s, q, order, step = mp.mpf(noise), mp.mpf(rate), mp.mpf(c), mp.mpf(h)
        floor = mp.log1p(-q)
        weights = []
        for k in range(low, high + 1):
            x = mp.mpc(step * k, angle)
            above = mp.exp(x)
            z = s * (mp.log(mp.expm1(above) / above) + x + floor - mp.log(q)) + 1 / (2 * s)
            if above.real > 20:  # log(e^l - 1) on the branch that follows the ray
                z = s * (above + mp.log1p(-mp.exp(-above)) + floor - mp.log(q)) + 1 / (2 * s)
            elif abs(above) > 1:
                z = s * (above + mp.log(-mp.expm1(-above)) + floor - mp.log(q)) + 1 / (2 * s)
            weights.append(mp.exp((1 + order) * above - z * z / 2) * s * above / -mp.expm1(-above))
        outer = mp.pi / 2 - mp.mpf(bend)
        direction = mp.expj(outer)
        first, count = math.floor((math.log(width) - digits) / h), 0
        steep = -math.cos(float(outer) + angle)
        end = math.floor(math.log(mp.mp.prec * math.log(2.0) / steep) / h)
        last = math.ceil((math.log(width) + 40.0) / h)
        table = [mp.exp(mp.exp(mp.mpc(step * k, outer + angle))) for k in range(first + low, min(end, last + high) + 1)]
        table += [mp.mpc(0)] * (last + high + 1 - first - low - len(table))
        one = mp.mpf(2) ** mp.mp.prec
        whole = [fmpz_poly([int(getattr(x, part) * one) for x in weights[::-1]]) for part in ("real", "imag")]
        other = [fmpz_poly([int(getattr(x, part) * one) for x in table]) for part in ("real", "imag")]
        products = whole[0] * other[0] - whole[1] * other[1], whole[0] * other[1] + whole[1] * other[0]
        scale = mp.mpf(2) ** (-2 * mp.mp.prec) * step / mp.sqrt(2 * mp.pi)
        total, fallen, top = mp.mpc(0), 0, mp.mpf(value) - order * epsilon
        while fallen < 12 and count < last - first:
            place = count + len(weights) - 1
            m = mp.mpc(int(products[0][place]), int(products[1][place])) * scale
            radius = mp.exp(step * (first + count))
            t = order + radius * direction
            log_term = steps * (mp.log(m) + (1 + t) * floor) - t * epsilon - top
            term = mp.exp(log_term) / (t * (t + 1)) * radius * direction
            total += term
            small = abs(term) < mp.mpf(10) ** -46 * abs(total.imag) and radius > width
            fallen, count = fallen + 1 if small else 0, count + 1
        seen = abs(total.imag * step / mp.pi)
        peak = 1 / (c * (1 + c)) * width
        if seen > 0 and float(mp.log(peak) - mp.log(seen)) < lost + 5:
            return top + mp.log(total.imag * step / mp.pi)
        lost = lost + 40 if seen == 0 else max(float(mp.log(peak) - mp.log(seen)) + 5, lost + 10)
        if lost > 1500:
            raise ArithmeticError("too many digits are lost")


def reference(index: int, only_lines: bool, seed: int = SEED) -> dict[str, Any]:
    """One case, with its epsilon rounded to six digits."""
    noise, rate, steps, goal = draw(index, seed)
    at = level(noise, min(rate, 1 - 1e-15), steps, goal)
    epsilon = float(f"{max(at, 1e-9):.6g}")
    mp.mp.dps = 75
    way, found = "closed form", []
    if rate == 1.0:
        found = [gaussian(noise, steps, epsilon)] * 2
    elif steps == 1:
        found = [one_step(noise, rate, epsilon)] * 2
    else:
        ways = [("line", line, 1.0), ("line", line, 0.5), ("line", line, 0.25), ("rays", rays, 1.1)]
        for name, method, finer in ways[: 3 if only_lines else 4]:
            if method is line and None in found:
                continue
            way = name
            found = [method(noise, rate, steps, epsilon, goal, finer * a, b) for a, b in ((1.0, 1.0), (0.83, 0.93))]
            if None not in found and abs(found[0] - found[1]) < AGREE:
                break
    if None in found:
        raise ArithmeticError("no line")
    apart = abs(found[0] - found[1])
    case = {"index": index, "noise_multiplier": noise, "sampling_rate": rate, "steps": steps, "epsilon": epsilon}
    return case | {"log_delta": mp.nstr(found[1], 40), "way": way, "agreement": float(apart)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help=f"index; those at an edge begin with {FIRST_AT_AN_EDGE}")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "training.json")
    parser.add_argument("--only-lines", action="store_true", help="leave out what takes minutes")
    parser.add_argument("--seed", type=int, default=SEED, help="of the settings drawn")
    chosen = parser.parse_args()
    what: dict[str, Any] = {"what": __doc__.splitlines()[0], "cases": []}
    stored = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.exists() else what
    known = {case["index"] for case in stored["cases"]}
    for index in range(chosen.first, chosen.cases):
        if index in known:
            continue
        start = time.process_time()
        try:
            case = reference(index, chosen.only_lines, chosen.seed)
        except (ArithmeticError, ValueError, MemoryError) as error:
            print(index, draw(index, chosen.seed), "not found:", error, flush=True)
            continue
        print(f"{case} in {time.process_time() - start:.1f} s", file=sys.stderr, flush=True)
        if case.pop("agreement") < AGREE:
            case.pop("way")
            stored["cases"].append(case)
            lines = ",\n".join("  " + json.dumps(one) for one in stored["cases"])
            text = f'{{\n "what": {json.dumps(stored["what"])},\n "cases": [\n{lines}\n ]\n}}\n'
            chosen.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
