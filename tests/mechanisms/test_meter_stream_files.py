"""Saved meter streams: what a file may not change."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaussveil.accounting import Release
from gaussveil.errors import AssumptionError, FormatError
from gaussveil.mechanisms import MeterStream, PrivateSpectrum
from gaussveil.mechanisms.meter_stream.design import check_hides
from gaussveil.mechanisms.meter_stream.request import PURPOSES
from gaussveil.noise import SeededGenerator


@pytest.fixture(scope="module")
def private_psd() -> Release[Any]:
    series = 1 + np.random.default_rng(3).normal(size=64 * 8)
    return PrivateSpectrum(epsilon=1.0, delta=1e-5, l2_ball=0.05, points=32, sample_period=1 / 12).release(series)


def made(purpose: str, private_psd: Release[Any] | None = None) -> MeterStream:
    history = {"history": private_psd} if purpose == "spectrum" else {}
    return MeterStream.design(
        sample_period="5min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"), purpose=purpose, **history
    )


@pytest.mark.parametrize("purpose", PURPOSES)
def test_every_design_of_ours_hides_what_it_says(purpose: str, private_psd: Release[Any]) -> None:
    check_hides(made(purpose, private_psd).design_)


def test_a_ball_hides_what_it_says(private_psd: Release[Any]) -> None:
    for purpose, history in (("shape", None), ("spectrum", private_psd)):
        ball = MeterStream.design(
            sample_period="5min", epsilon=1.0, delta=1e-5, l2_ball=3.0, purpose=purpose, history=history
        )
        check_hides(ball.design_)


def less_white(design: dict[str, Any]) -> None:
    design["filter"]["white"] *= 0.999


def less_on_registers(design: dict[str, Any]) -> None:
    design["registers"][2]["noise_sd"] *= 0.99


def larger_event(design: dict[str, Any]) -> None:
    design["promise"]["size"] *= 1.001


def longer_event(design: dict[str, Any]) -> None:
    design["promise"]["samples"] += 1


def better_sampler(design: dict[str, Any]) -> None:
    design["sampler_error"] /= 2


def smaller_claim(design: dict[str, Any]) -> None:
    design["mean_shift"] *= 0.999


@pytest.mark.parametrize(
    "change", [less_white, less_on_registers, larger_event, longer_event, better_sampler, smaller_claim]
)
def test_a_file_cannot_promise_more_than_its_filters_hide(
    change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    """Not opened yet, so no certificate speaks against the file; opening it would certify the lie."""
    path = made("billing").save(tmp_path / "meter.json")
    MeterStream.load(path)
    record = json.loads(path.read_text())
    change(record["design"])
    path.write_text(json.dumps(record))
    with pytest.raises(FormatError, match="hide"):
        MeterStream.load(path)


def test_a_securely_certified_stream_does_not_go_on_with_seeded_noise(tmp_path: Path) -> None:
    stream = made("energy")
    stream.push(1.0)
    path = stream.save(tmp_path / "meter.json")
    seeded = MeterStream.load(path, generator=SeededGenerator(1))
    with pytest.raises(AssumptionError, match="seeded"):
        seeded.push(1.0)
    assert seeded.index == 1
    MeterStream.load(path).push(1.0)


def test_whoever_is_about_to_mark_a_state_is_waited_for(tmp_path: Path) -> None:
    """One that holds the marks is not overtaken: what it writes there is seen by the next."""
    stream = made("billing")
    stream.push(0.1)
    path = stream.save(tmp_path / "home.json")
    token = json.loads(path.read_text())["token"]
    mark = tmp_path / "home.json.continued"
    second = MeterStream.load(path)
    refused: list[Exception] = []

    def go_on() -> None:
        try:
            second.push(0.2)
        except AssumptionError as error:
            refused.append(error)

    with mark.open("a") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        asking = threading.Thread(target=go_on)
        asking.start()
        asking.join(0.2)
        first.write(f"{token}\n")
        first.flush()
        fcntl.flock(first, fcntl.LOCK_UN)
    asking.join()
    assert "was continued from this state already" in str(refused[0])
