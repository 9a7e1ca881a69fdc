from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gaussveil.accounting import Ledger, verify
from gaussveil.cli.stream import stream_app
from gaussveil.errors import GaussveilError
from gaussveil.streaming import read_meters

PROMISE = ["--epsilon", "1", "--delta", "1e-5", "--event-kw", "0.5", "--event-duration", "1h"]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    times = np.datetime64("2024-01-01T00:00", "m") + np.arange(192) * np.timedelta64(15, "m")
    rows = "\n".join(f"{time},{0.5 + k % 7 / 10},{1 + k % 5 / 10}" for k, time in enumerate(times))
    path = tmp_path / "history.csv"
    path.write_text(f"time,m1,m2\n{rows}\n")
    return path


def run(*arguments: object) -> str:
    done = CliRunner().invoke(stream_app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_one_debit_per_meter(history: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l")
    for meter in ("m1", "m2"):
        ledger.open_account(meter, epsilon=2.0, delta=1e-4)
    out = tmp_path / "meters.json"
    told = run("design", history, "--out", out, *PROMISE, "--purpose", "billing", "--ledger", tmp_path / "l", "--json")
    answer = json.loads(told)
    assert answer["meters"] == 2
    assert [len(ledger.entries(meter)) for meter in ("m1", "m2")] == [1, 1]
    meters = read_meters(out)
    assert [meter.name for meter in meters] == ["m1", "m2"]
    assert all(verify(meter.certificate).private for meter in meters)
    assert meters[0].design.hidden.samples == 4
    with pytest.raises(GaussveilError, match="--force"):
        run("design", history, "--out", out, *PROMISE)


def test_the_table_of_purposes_has_its_lines(history: Path, tmp_path: Path) -> None:
    told = run("design", history, "--out", tmp_path / "meters.json", *PROMISE).splitlines()
    assert [line.split()[0] for line in told[1:]] == ["purpose", "shape", "energy", "billing", "registers", "wrote"]


def test_meters_that_are_paid_for_are_kept_when_a_later_one_is_refused(history: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l")
    ledger.open_account("m1", epsilon=2.0, delta=1e-4)
    out = tmp_path / "meters.json"
    with pytest.raises(GaussveilError, match=r"no account 'm2'.*1 of 2 meters are debited"):
        run("design", history, "--out", out, *PROMISE, "--ledger", tmp_path / "l")
    assert [meter.name for meter in read_meters(out)] == ["m1"]
    assert [entry.id for entry in ledger.entries("m1")] == [read_meters(out)[0].certificate.release_id]


def test_a_dry_run_spends_and_writes_nothing(history: Path, tmp_path: Path) -> None:
    text = run("design", history, "--out", tmp_path / "x", *PROMISE, "--dry-run")
    assert "nothing was spent" in text
    assert not (tmp_path / "x").exists()


def test_spectrum_pays_for_the_history_as_well(history: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l")
    for account in ("m1", "m2", "m1 spectrum", "m2 spectrum"):
        ledger.open_account(account, epsilon=2.0, delta=1e-4)
    run(
        "design",
        history,
        "--out",
        tmp_path / "m.json",
        *PROMISE,
        "--purpose",
        "spectrum",
        "--spectrum-epsilon",
        "1",
        "--spectrum-delta",
        "1e-5",
        "--spectrum-ball",
        "0.1",
        "--ledger",
        tmp_path / "l",
    )
    assert [len(ledger.entries(name)) for name in ("m1", "m1 spectrum")] == [1, 1]
    with pytest.raises(GaussveilError, match="--spectrum-epsilon"):
        run("design", history, "--out", tmp_path / "n.json", *PROMISE, "--purpose", "spectrum")
    with pytest.raises(GaussveilError, match="together"):
        run("design", history, "--out", tmp_path / "n.json", "--epsilon", "1", "--delta", "1e-5", "--event-kw", "1")


def test_a_name_that_no_topic_can_carry_is_refused_before_anything_is_spent(history: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l")
    history.write_text(history.read_text().replace("m2", "m/2", 1))
    for meter in ("m1", "m/2"):
        ledger.open_account(meter, epsilon=2.0, delta=1e-4)
    with pytest.raises(GaussveilError, match="a meter's name"):
        run("design", history, "--out", tmp_path / "m.json", *PROMISE, "--ledger", tmp_path / "l")
    assert [len(ledger.entries(meter)) for meter in ("m1", "m/2")] == [0, 0]


def test_readings_in_the_place_of_names_do_not_become_meters(history: Path, tmp_path: Path) -> None:
    history.write_text(history.read_text().partition("\n")[2])
    with pytest.raises(GaussveilError, match="must name the columns") as caught:
        run("design", history, "--out", tmp_path / "m.json", *PROMISE, "--dry-run")
    assert "0.5" not in str(caught.value)


def test_a_habits_epsilon_has_its_delta_beside_it(history: Path, tmp_path: Path) -> None:
    promise = [*PROMISE, "--purpose", "billing", "--out", tmp_path / "m.json", "--dry-run"]
    told = json.loads(run("design", history, *promise, "--json"))
    assert told["repeated_delta"] >= 1e-5
    text = " ".join(run("design", history, *promise).split())
    assert f"on 30 days has epsilon {told['repeated_epsilon']:.3g}, delta {told['repeated_delta']:.2g}" in text


@pytest.mark.parametrize("address", ["postgresql:/u:pa55@host/db.csv", "u:pa55@host/h.parquet", "postgres:u:pa55@h#t"])
def test_a_mistyped_address_is_not_repeated(address: str, tmp_path: Path) -> None:
    with pytest.raises(GaussveilError) as caught:
        run("design", address, "--out", tmp_path / "m.json", *PROMISE, "--dry-run")
    assert "pa55" not in str(caught.value)


@pytest.mark.parametrize("address", ["mqtt://u:pa55@host:1883", "u:pa55@host:1883", "host", "host:pa55@x", "h:99999"])
def test_a_mistyped_broker_is_not_repeated_and_nothing_is_begun(address: str, history: Path, tmp_path: Path) -> None:
    run("design", history, "--out", tmp_path / "m.json", *PROMISE)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(GaussveilError, match="--mqtt must be host:port") as caught:
        run("run", tmp_path / "m.json", "--mqtt", address)
    assert "pa55" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before
