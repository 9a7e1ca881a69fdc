"""Trials of long studies: the same rows whatever the pool, finished pieces are not computed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gaussveil_studies.gmm.sweeps import trial as divergences
from gaussveil_studies.trials import Rows, Task, piece_name, run_trials, time_left

TASKS: list[Task] = [("a", [1, 2]), ("b", [3]), ("c", [4, 5, 6])]
CALLS: list[str] = []


def trial(task: Task) -> Rows:
    CALLS.append(task[0])
    return [[float(value), value / 7] for value in task[1]]


def silent(_word: str, _share: float) -> None:
    return None


def test_a_pool_gives_the_same_rows_in_the_same_order(full: bool) -> None:
    alone = run_trials(trial, TASKS, silent)
    assert alone == [[[1.0, 1 / 7], [2.0, 2 / 7]], [[3.0, 3 / 7]], [[4.0, 4 / 7], [5.0, 5 / 7], [6.0, 6 / 7]]]
    real: list[Task] = [(("iris",), "iid Gaussian", 1.0, [seed, seed + 1]) for seed in (0, 2)]
    rows = [np.array(run_trials(divergences, real, silent, workers=workers)) for workers in (1, 2)[: 1 + full]]
    assert rows[0].shape == (2, 2, 3)
    np.testing.assert_array_equal(rows[0], rows[-1])


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    CALLS.clear()

    def stop(_word: str, share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trials(trial, TASKS, stop, kept=tmp_path)
    assert CALLS == ["a", "b"]
    told: list[str] = []
    found = run_trials(trial, TASKS, lambda word, _share: told.append(word), kept=tmp_path)
    assert CALLS == ["a", "b", "c"]
    assert found == run_trials(trial, TASKS, silent)
    assert told == ["3 of 3 pieces, 0 seconds left"]


def test_pieces_of_other_tasks_have_other_names() -> None:
    names = {piece_name(trial, task) for task in (*TASKS, ("a", [1, 3]))}
    assert len(names) == 4
    assert piece_name(trial, TASKS[0]) != piece_name(silent, TASKS[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "text"), [(12.3, "12 seconds"), (600.0, "10 minutes"), (9000.0, "2.5 hours")])
def test_time_left_for_people(seconds: float, text: str) -> None:
    assert time_left(seconds) == text
