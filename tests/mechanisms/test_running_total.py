"""Running totals: what is hidden, on the lattice as it runs, how large errors are, and that a state goes on once."""

from __future__ import annotations

import itertools
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import toeplitz

from gaussveil import Accountant, MatrixMechanism, RunningTotal, verify
from gaussveil.accounting.buffered_toeplitz import best_buffers, sensitivity
from gaussveil.accounting.strategies import BLT
from gaussveil.errors import AssumptionError, FormatError, ParameterError
from gaussveil.mechanisms.running_total.design import design_from_dict, design_to_dict, moved_by_one
from gaussveil.mechanisms.running_total.figures import tree_error
from gaussveil.noise import SeededGenerator

# jax_privacy 2.0.0, BufferedToeplitz optimised for "max" and "mean" error: root mean square, and that of the last sum
PEER = {256: (2.62211, 2.83183), 1024: (3.05867, 3.27760)}


def made(**changes: Any) -> RunningTotal:
    given = {"steps": 200, "epsilon": 1.0, "delta": 1e-5, "limits": (0.0, 2.0), **changes}
    return RunningTotal(**given)


def strategy(total: RunningTotal) -> np.ndarray:
    """C of one run, from the scales and decays that the certificate states."""
    design = total.design_
    powers = np.array(design.decays) ** np.arange(design.every - 1)[:, None]
    return np.tril(toeplitz(np.concatenate([[1.0], powers @ np.array(design.scales)])))


def life(total: RunningTotal) -> np.ndarray:
    """C of the whole life, run after run."""
    design, block = total.design_, strategy(total)
    whole = np.zeros((design.sample_limit, design.sample_limit))
    for first in range(0, design.sample_limit, design.every):
        size = min(design.every, design.sample_limit - first)
        whole[first : first + size, first : first + size] = block[:size, :size]
    return whole


def patterns(steps: int, takes: int, separation: int) -> list[tuple[int, ...]]:
    found = []
    for count in range(1, takes + 1):
        for places in itertools.combinations(range(steps), count):
            if all(later - earlier >= separation for earlier, later in itertools.pairwise(places)):
                found.append(places)
    return found


@pytest.mark.parametrize(("takes", "separation"), [(1, 1), (2, 3), (3, 1), (4, 3), (None, 2), (None, 1)])
@pytest.mark.parametrize("every", [None, 4])
def test_what_is_counted_is_the_worst_of_all_patterns_and_signs(
    takes: int | None, separation: int, every: int | None
) -> None:
    total = made(steps=12, takes=takes, separation=separation, every=every)
    design, matrix = total.design_, life(total)
    worst = 0.0
    for places in patterns(12, design.takes, separation):
        moved = np.linalg.norm(np.abs(matrix.T @ matrix)[np.ix_(places, places)].sum()) ** 0.5
        worst = max(worst, float(moved))
    counted = moved_by_one(design.buffers, 12, design.every, design.takes, separation)
    assert worst <= counted
    assert counted <= worst * (1 + 1e-9 if every is None else 1.2)
    assert design.size * counted / design.filter.white <= design.mean_shift


@pytest.mark.parametrize(("steps", "takes", "separation"), [(1, 1, 1), (2, 1, 1), (40, 1, 1), (40, 5, 7), (40, 40, 1)])
def test_the_accountant_says_the_same(steps: int, takes: int, separation: int) -> None:
    total = made(steps=steps, takes=takes, separation=separation)
    design = total.design_
    assert np.array_equal(design.accounted().strategy, strategy(total))
    dense = MatrixMechanism(strategy(total), noise_multiplier=design.filter.white / design.size, takes=takes)
    if separation == 1 and takes in (1, steps):  # where the accountant's bound of dense strategies is exact
        assert dense.sensitivity == pytest.approx(design.accounted().sensitivity, rel=1e-12)
    run = Accountant().add(design.accounted())
    delta = float(run.delta(1.0))
    assert delta <= 1e-5
    assert delta > 0.999e-5
    found = verify(total.open())
    assert found.private
    assert found.proven
    assert total.certificate.adjacency.describe().startswith("one meter's stream changes in at most")


@pytest.mark.parametrize(
    ("changes", "places", "reset"),
    [
        ({}, (17,), None),
        ({"takes": 3, "separation": 40}, (5, 60, 110), None),
        ({"takes": 200}, tuple(range(200)), None),
        ({"takes": 3, "separation": 40, "every": 50}, (5, 60, 110), None),
        ({"takes": 3, "separation": 40}, (5, 60, 110), 70),
        ({"takes": 200}, tuple(range(200)), 100),
    ],
)
def test_on_the_lattice_two_neighbours_are_no_further_apart(
    changes: dict[str, Any], places: tuple[int, ...], reset: int | None
) -> None:
    """The draws that two neighbours need for the very same totals: their distance is what an attacker can use."""
    total = made(**changes, generator=SeededGenerator(1), keep=None)
    design, grid = total.design_, total.design_.filter.grid
    readings = np.random.default_rng(2).uniform(0.0, 1.0, 200)
    first = total.push_many(readings[:reset])
    if reset is not None:
        total.reset()
        first = np.concatenate([first, total.push_many(readings[reset:])])
    begins = sorted({*range(0, 200, design.every), 0 if reset is None else reset})
    outputs = np.rint(first / grid).astype(np.int64)

    def needed(values: np.ndarray) -> np.ndarray:
        steps = np.rint(values / grid).astype(np.int64)
        draws = []
        for begin, end in zip(begins, [*begins[1:], 200]):
            noise = np.diff(outputs[begin:end], prepend=0) - steps[begin:end]
            buffers = [0] * len(design.scales)
            for value in noise.tolist():  # the rule of the page, in whole numbers of its own
                carried = sum(int(scale * 2**53) * buffer for scale, buffer in zip(design.scales, buffers))
                draws.append(value + ((carried + (1 << 116)) >> 117))
                buffers = [
                    ((int(decay * 2**53) * buffer + (1 << 52)) >> 53) + (value << 64)
                    for decay, buffer in zip(design.decays, buffers)
                ]
        return np.array(draws, dtype=np.float64)

    moved = readings.copy()
    moved[list(places)] += design.size
    apart = np.linalg.norm(needed(readings) - needed(moved)) * grid
    assert apart <= design.mean_shift * design.filter.white
    if reset is None and "every" not in changes:
        assert apart > 0.9 * design.mean_shift * design.filter.white


def test_noise_is_the_inverse_of_the_strategy_from_the_first_reading_on() -> None:
    seeds, steps = 400, 24
    totals = [made(steps=steps, generator=SeededGenerator(seed)) for seed in range(seeds)]
    noise = np.array([total.push_many(np.zeros(steps)) for total in totals])
    white = np.diff(noise, axis=1, prepend=0.0) @ strategy(totals[0]).T / totals[0].design_.filter.white
    assert abs(np.mean(white**2) - 1.0) < 6 * math.sqrt(2 / white.size)
    correlations = white.T @ white / seeds - np.eye(steps)
    assert np.abs(correlations).max() < 6 * math.sqrt(2 / seeds)
    measured = np.sqrt(np.mean(noise**2, axis=0))
    stated = [totals[0].design_.sd(0, last) for last in range(1, steps + 1)]
    assert np.abs(measured / stated - 1.0).max() < 5 / math.sqrt(2 * seeds)


def test_errors_of_windows_are_those_of_the_matrix() -> None:
    total = made()
    design = total.design_
    inverse = np.tril(np.ones((200, 200))) @ np.linalg.inv(strategy(total)) * design.filter.white
    for first, last in ((0, 1), (0, 200), (37, 38), (30, 198)):
        row = inverse[last - 1] - (inverse[first - 1] if first else 0.0)
        assert design.sd(first, last) == pytest.approx(float(np.linalg.norm(row)), rel=1e-9)
    errors = np.linalg.norm(inverse, axis=1)
    assert design.root_mean_square() == pytest.approx(math.sqrt(float(np.mean(errors**2))), rel=1e-9)


@pytest.mark.parametrize("steps", [256, 1024])
def test_errors_are_those_of_the_best_known_buffers_and_far_below_a_trees(steps: int) -> None:
    """Root mean square and last at once; in jax_privacy each is the goal of an optimisation of its own."""
    design = made(steps=steps, limits=(0.0, 1.0)).design_
    unit = design.size / design.mean_shift
    mean, last = PEER[steps]
    assert design.root_mean_square() <= 1.02 * mean * unit
    assert design.sd(0, steps) <= 1.02 * last * unit
    assert design.root_mean_square() < 0.5 * tree_error(steps) * unit
    mean_alone = made(steps=steps, minimise="mean").design_
    last_alone = made(steps=steps, minimise="last").design_
    assert mean_alone.root_mean_square() < made(steps=steps).design_.root_mean_square()
    assert last_alone.sd(0, steps) < made(steps=steps).design_.sd(0, steps)


def test_buffers_are_the_best_nearby_and_more_of_them_gain_little() -> None:
    def error(scales: Any, decays: Any) -> float:
        column = np.concatenate([[1.0], (np.array(decays) ** np.arange(127)[:, None]) @ np.array(scales)])
        inverse = np.cumsum(np.linalg.solve(np.tril(toeplitz(column)), np.eye(128)[0]))
        return float(np.linalg.norm(column)) * math.sqrt(float(np.mean(np.cumsum(inverse**2))))

    found = best_buffers(128, 3)
    best = error(found.scales, found.decays)
    generator = np.random.default_rng(0)
    for _ in range(50):
        moved = np.exp(0.02 * generator.normal(size=(2, 3)))
        gaps = (1.0 - np.array(found.decays)) * moved[1]
        assert error(np.array(found.scales) * moved[0], 1.0 - gaps) > best * (1 - 1e-7)
    more = best_buffers(128, 6)
    assert 0.99 * best < error(more.scales, more.decays) <= best * (1 + 1e-6)


def test_all_readings_of_a_record_are_best_hidden_by_independent_noise() -> None:
    design = made(steps=64, takes=None).design_
    assert sensitivity(design.buffers.coefficients(64), 64, 1) == pytest.approx(8.0, rel=1e-3)


def test_blocks_single_readings_and_saved_totals_agree_to_the_bit(tmp_path: Path) -> None:
    readings = np.random.default_rng(5).uniform(-1.0, 3.0, 150)
    readings[7] = np.nan
    whole, part = (made(every=40, generator=SeededGenerator(1)) for _ in range(2))
    expected = whole.push_many(readings)
    first = [part.push(reading) for reading in readings[:57].tolist()]
    again = RunningTotal.load(part.save(tmp_path / "total.json"), generator=part.generator)
    assert np.array_equal([*first, *again.push_many(readings[57:])], expected)
    assert again.mean(20) == whole.mean(20)
    assert again.current() == whole.current()
    with pytest.raises(AssumptionError, match="continued"):
        part.push(0.0)
    with pytest.raises(AssumptionError, match="continued"):
        RunningTotal.load(tmp_path / "total.json").push(0.0)


def test_copies_and_altered_files_are_refused(tmp_path: Path) -> None:
    total = made()
    total.push(0.3)
    path = total.save(tmp_path / "total.json")
    copied = shutil.copy(path, tmp_path / "copy.json")
    with pytest.raises(AssumptionError, match="copy"):
        RunningTotal.load(copied)
    record = design_to_dict(total.design_)
    assert design_from_dict(record) == total.design_
    weaker = {**record, "filter": {**record["filter"], "white": 0.99 * record["filter"]["white"]}}
    for wrong in (weaker, {**record, "takes": 2}, {**record, "size": 3.0}, {**record, "sampler_error": 0.0}):
        with pytest.raises(FormatError, match="running total"):
            design_from_dict(wrong)
    path.write_text(path.read_text().replace('"index": 1', '"index": 2'))
    with pytest.raises(FormatError, match="changed"):
        RunningTotal.load(path)


def test_totals_over_meters_are_exact_but_for_the_noise_and_windows_and_means_say_their_error() -> None:
    readings = np.random.default_rng(3).uniform(-1.0, 3.0, (300, 40))
    readings[5, 3] = np.nan
    kept = np.nan_to_num(np.clip(readings, 0.0, 2.0)).sum(axis=1)
    loud, quiet = (made(steps=300, keep=100, generator=SeededGenerator(4)) for _ in range(2))
    outputs, noise = loud.push_many(readings), quiet.push_many(np.zeros(300))
    assert np.abs(outputs - noise - np.cumsum(kept)).max() < 1e-3
    window = loud.window(220, 260)
    assert window.total == pytest.approx(outputs[259] - outputs[219], rel=1e-12)
    assert abs(window.total - kept[220:260].sum()) < 5 * window.sd
    mean = loud.mean(40)
    assert (mean.first, mean.last) == (260, 300)
    assert abs(mean.mean - kept[260:].mean()) < 5 * mean.sd
    assert mean.sd == pytest.approx(loud.design_.sd(260, 300) / 40)
    assert len(loud.outputs) == 101
    with pytest.raises(ParameterError, match="first"):
        loud.window(10, 60)


def test_resets_and_runs_begin_at_zero_and_windows_go_across_them() -> None:
    total = made(steps=200, every=50, keep=None, sample_period="1h", generator=SeededGenerator(2))
    outputs = total.push_many(np.ones(120))
    assert total.current().first == 100
    assert total.window(40, 110).total == pytest.approx(outputs[49] - outputs[39] + outputs[99] + outputs[109])
    parts = [total.design_.sd(40, 50), total.design_.sd(0, 50), total.design_.sd(0, 10)]
    assert total.window(40, 110).sd == pytest.approx(float(np.linalg.norm(parts)))
    assert total.mean("2d").first == 72
    total.reset()
    after = total.push(1.0)
    assert total.current().first == 120
    assert total.current().total == pytest.approx(after)
    total.restart()
    more = total.push(1.0)
    assert total.current().first == 120
    assert total.current().sd == pytest.approx(math.sqrt(2) * total.design_.sd(0, 1))
    assert total.window(121, 122).total == pytest.approx(more - after)
    total.push_many(np.ones(30))
    assert total.current().first == 150


def test_memory_does_not_grow(tmp_path: Path) -> None:
    total = made(steps=5000, keep=50)
    sizes = []
    for _ in range(2):
        total.push_many(np.zeros(2000))
        sizes.append(total.save(tmp_path / "total.json").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 200


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, "steps"),
        ({"limits": (1.0, 0.0)}, "limits"),
        ({"substitute": 5.0}, "substitute"),
        ({"takes": 0}, "takes"),
        ({"separation": 0}, "separation"),
        ({"every": 300}, "every"),
        ({"every": "90min"}, "every"),
        ({"buffers": 11}, "buffers"),
        ({"minimise": "all"}, "minimise"),
        ({"size": -1.0}, "size"),
        ({"keep": -1}, "keep"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        made(**changes).plan()


def test_nothing_is_pushed_beyond_what_was_paid_and_nothing_is_read_before() -> None:
    total = made(steps=3)
    with pytest.raises(AssumptionError, match="no reading"):
        total.current()
    total.push_many([1.0, 1.0])
    with pytest.raises(AssumptionError, match="covers 3"):
        total.push_many([1.0, 1.0])
    assert total.index == 2
    with pytest.raises(ParameterError, match="so far"):
        total.mean(3)
    assert isinstance(total.push(None), float)


def test_named_strategies_of_a_hundred_thousand_steps_are_accounted_without_a_matrix() -> None:
    mechanism = MatrixMechanism(BLT(100_000), noise_multiplier=2.0)
    column = BLT(100_000).coefficients()
    assert mechanism.sensitivity == pytest.approx(float(np.linalg.norm(column)), rel=1e-9)
    assert mechanism.exact
    with pytest.raises(ParameterError, match="8192"):
        MatrixMechanism(BLT(100_000), noise_multiplier=2.0, sampling_rate=0.1).parts_for("add-remove")
