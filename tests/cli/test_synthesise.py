"""`gaussveil synthesise` as a user types it: what it writes, says, and refuses before anything is spent."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gaussveil.accounting import Certificate, Ledger, verify

Run = Callable[..., tuple[int, str, str]]
PROMISE = ("--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    generator = np.random.default_rng(3)
    ward = generator.choice(["A", "B"], 1200)
    table = pd.DataFrame(
        {
            "age": generator.normal(57, 18, 1200).clip(0, 105).round().astype(int),
            "ward": ward,
            "admitted": (pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 365, 1200), "D")).strftime(
                "%Y-%m-%d"
            ),
            "cost": generator.lognormal(8 + 0.3 * (ward == "B"), 1).round(2),
        }
    )
    path = tmp_path / "patients.csv"
    table.to_csv(path, index=False)
    return path


def test_defaults_give_no_garbage(run: Run, patients: Path, tmp_path: Path) -> None:
    """No radius and no range is given: ages are ages, days days, costs of the right size; and it is said how good."""
    out, summary, picture = (tmp_path / name for name in ("rows.csv", "summary.csv", "both.png"))
    more = ("--summary", summary, "--picture", picture, "--out", out, "--json")
    code, said, errors = run("synthesise", patients, *PROMISE, "--bounds", "auto", "--label", "ward", *more)
    assert code == 0, errors
    told = json.loads(said)
    real, rows = pd.read_csv(patients), pd.read_csv(out)
    assert list(rows.columns) == list(real.columns)
    assert rows.dtypes.equals(real.dtypes)
    assert abs(rows["age"].mean() - real["age"].mean()) < 6
    assert rows["age"].min() >= 0
    assert 0.6 < rows["cost"].mean() / real["cost"].mean() < 1.7
    assert rows["cost"].min() >= 0
    assert rows["admitted"].str.fullmatch(r"20(23|24|25)-\d\d-\d\d").all()
    assert set(rows["ward"]) <= {"A", "B"}
    assert 0 < told["expected_distance"] < 0.2
    bands = pd.read_csv(summary)
    (mean,) = bands[(bands["column"] == "age") & (bands["statistic"] == "mean")].itertuples()
    assert mean.low < real["age"].mean() < mean.high
    assert picture.stat().st_size > 10_000
    assert stat.S_IMODE(picture.stat().st_mode) == 0o600
    assert verify(Certificate.read(f"{out}.certificate.json")).private


def test_a_table_too_small_is_refused_before_the_debit(run: Run, patients: Path, tmp_path: Path) -> None:
    ledger, out = tmp_path / "home.ledger", tmp_path / "rows.csv"
    Ledger.create(ledger).open_account("patients", epsilon=3, delta=1e-5, dataset="patients")
    paid = ("--ledger", ledger, "--account", "patients", "--bounds", "auto", "--out", out)
    code, _, errors = run("synthesise", patients, *PROMISE, *paid, "--rows", 60)
    assert code != 0
    assert "60 rows are too few" in errors
    assert "fewer columns" in errors
    assert Ledger(ledger).entries("patients") == []
    assert not out.exists()


@pytest.mark.parametrize(
    ("option", "ranges"), [("--values", ("ward:A", "ward:B")), ("--between", ("age:0,9", "age:0,99"))]
)
def test_a_column_is_described_once(
    run: Run, patients: Path, tmp_path: Path, option: str, ranges: tuple[str, str]
) -> None:
    asked = (option, ranges[0], option, ranges[1], "--bounds", "auto", "--out", tmp_path / "rows.csv")
    code, told, errors = run("synthesise", patients, *PROMISE, *asked)
    assert (code, told) == (2, "")
    assert f"{option} must be given once for a column. Got another one, '{ranges[1]}'." in errors
    assert not (tmp_path / "rows.csv").exists()


def test_rows_are_held_back_where_noise_drowns_them(run: Run, patients: Path, tmp_path: Path) -> None:
    """Nobody said how many rows there are: the release says it, and writes the heading alone."""
    few, out = tmp_path / "few.csv", tmp_path / "rows.csv"
    few.write_text("\n".join(patients.read_text(encoding="utf-8").splitlines()[:40]) + "\n", encoding="utf-8")
    shown = (tmp_path / "bands.csv", tmp_path / "seen.png")
    asked = ("--bounds", "auto", "--out", out, "--summary", shown[0], "--picture", shown[1])
    code, said, errors = run("synthesise", few, *PROMISE, *asked)
    assert code == 0, errors
    assert said.splitlines()[0].startswith("UNUSABLE: ")
    assert "4 columns" in said.splitlines()[0]
    assert "the cost is spent" in said
    assert not any(file.exists() for file in shown)
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1


def test_what_was_learnt_or_left_out_is_said(run: Run, patients: Path, tmp_path: Path) -> None:
    given = ("--bounds", "auto", "--between", "age:0,110", "--columns", "age,cost")
    code, said, errors = run("synthesise", patients, *PROMISE, *given, "--out", tmp_path / "rows.csv")
    assert code == 0, errors
    (missing,) = [line for line in said.splitlines() if "missing cells are drawn" in line]
    assert "%" in missing
    (reach,) = [line for line in said.splitlines() if line.startswith("numbers reach")]
    assert "cost" in reach
    assert "age" not in reach


def test_a_dry_run_says_how_good_the_rows_would_be(run: Run, patients: Path, tmp_path: Path) -> None:
    given = ("--bounds", "auto", "--between", "age:0,110", "--dry-run", "--out", tmp_path / "rows.csv")
    code, said, errors = run("synthesise", patients, *PROMISE, *given)
    assert code == 0, errors
    for size in (1000, 10_000, 100_000):
        (line,) = [line for line in said.splitlines() if line.startswith(f"of {size} rows columns would be off")]
        assert all(f"{name} " in line for name in ("age", "ward", "admitted", "cost"))
        assert "shortened" in line
    assert "of ward, whose values are not listed" in said
    assert said.splitlines()[-1] == "nothing was spent or written"
    code, said, errors = run("synthesise", patients, *PROMISE, *given, "--rows", 5000, "--json")
    assert code == 0, errors
    assert json.loads(said)["expectations"][0].startswith("of 5000 rows columns would be off by about ")
    assert not (tmp_path / "rows.csv").exists()
