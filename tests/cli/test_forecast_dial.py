"""`forecast --dial` draws for the owner and releases nothing."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pandas as pd

from gaussveil import simulate_households

from .conftest import Run


def test_the_dial_is_drawn_for_the_owner_and_nothing_is_released(run: Run, tmp_path: Path) -> None:
    homes = simulate_households(8, 15, step_minutes=60, seed=1)
    columns = {"household": np.repeat(homes.households, homes.count), "time": np.tile(homes.times, len(homes))}
    table = tmp_path / "readings.parquet"
    pd.DataFrame({**columns, "kw": homes.values.ravel()}).to_parquet(table)
    words = ("forecast", table, "--epsilon", "1", "--horizon", "2h", "--order", "1", "0")
    code, out, _ = run(*words, "--dial", tmp_path / "dial.svg", "--json")
    assert code == 0
    answer = json.loads(out)
    assert {point["clusters"] for point in answer["dial"]} == {1, 3, 6}
    assert all(point["private"] is None for point in answer["dial"])
    assert stat.S_IMODE((tmp_path / "dial.svg").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dial.svg", "readings.parquet"]
    code, out, _ = run(*words, "--dial", tmp_path / "again.svg")
    assert code == 0
    assert "nan" not in out
    code, _, err = run(*words, "--clusters", "9", "--home", "home00001", "--delta", "1e-5", "--out", tmp_path / "f.csv")
    assert code == 2
    assert "clusters must be a whole number in [1, 8]. Got 9." in err
    code, _, err = run(*words, "--home", "home00001")
    assert code == 2
    assert "--out must name" in err
