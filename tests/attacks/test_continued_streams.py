"""Whoever continues one saved stream twice, or from a state of his own making, and so draws without a debit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gaussveil import GaussianRelease
from gaussveil.accounting import Account, Ledger
from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import MeterStream
from gaussveil.noise import SeededGenerator


@pytest.fixture(params=[True, False], ids=["account", "no account"])
def account(request: pytest.FixtureRequest, tmp_path: Path) -> Account | None:
    if not request.param:
        return None
    return Ledger.create(tmp_path / "spent.ledger").open_account("meter", epsilon=3.0, delta=1e-4)


@pytest.fixture
def stream(account: Account | None) -> MeterStream:
    made = MeterStream.design(
        sample_period="1h", epsilon=1.0, delta=1e-5, event=(1.0, "1h"), purpose="energy", account=account
    )
    made.push_many([1.0, 2.0, 3.0])
    return made


def in_place(path: Path) -> Callable[[], Path]:
    kept = path.read_bytes()

    def restore() -> Path:
        path.write_bytes(kept)
        return path

    return restore


def replaced(path: Path) -> Callable[[], Path]:
    kept = shutil.copyfile(path, path.with_name("backup.json"))
    return lambda: Path(shutil.copyfile(kept, path.with_name("new.json"))).rename(path)


def elsewhere(path: Path) -> Callable[[], Path]:
    return lambda: Path(shutil.copyfile(path, path.with_name("copy.json")))


def again(path: Path) -> Callable[[], Path]:
    return lambda: path


@pytest.mark.parametrize("way", [again, in_place, replaced, elsewhere])
def test_a_saved_stream_goes_on_once(
    stream: MeterStream, tmp_path: Path, way: Callable[[Path], Callable[[], Path]]
) -> None:
    path = stream.save(tmp_path / "meter.json")
    second = way(path)
    first = MeterStream.load(path)
    first.push(4.0)
    with pytest.raises(GaussveilError):
        MeterStream.load(second()).push(4.0)
    with pytest.raises(GaussveilError):
        MeterStream.load(second()).restart()
    first.push(5.0)
    assert MeterStream.load(first.save(tmp_path / "later.json")).push_many([6.0, 7.0]).shape == (2,)


def test_two_loaded_before_either_goes_on(stream: MeterStream, tmp_path: Path) -> None:
    path = stream.save(tmp_path / "meter.json")
    streams = [MeterStream.load(path), MeterStream.load(path), stream]
    streams[1].push(4.0)
    for other in (streams[0], streams[2]):
        with pytest.raises(GaussveilError):
            other.push(4.0)


def test_what_was_saved_before_the_stream_went_on_is_old(stream: MeterStream, tmp_path: Path) -> None:
    old = stream.save(tmp_path / "old.json")
    stream.push(4.0)
    with pytest.raises(GaussveilError):
        MeterStream.load(old).push(4.0)
    new = stream.save(tmp_path / "new.json")
    assert MeterStream.load(new).index == 4


@pytest.mark.parametrize("name", ["index", "outputs", "states", "certificate"])
def test_an_edited_state_is_refused(stream: MeterStream, tmp_path: Path, name: str) -> None:
    path = stream.save(tmp_path / "meter.json")
    record = json.loads(path.read_text())
    if name == "index":
        record["index"] = 0
    elif name == "outputs":
        record["outputs"] = [0.0]
    elif name == "states":
        record["open"]["states"] = [0.0 for _ in record["open"]["states"]]
    else:
        record["open"]["certificate"]["released"] = "another stream"
    path.write_text(json.dumps(record))
    with pytest.raises(GaussveilError):
        MeterStream.load(path).push(4.0)


def test_a_seeded_generator_gives_no_guarantee_whatever_is_written_to_it() -> None:
    generator = SeededGenerator(1)
    generator.is_secure = True
    vars(generator)["is_trusted"] = True
    certificate = (
        GaussianRelease(epsilon=1.0, delta=1e-5, l2_sensitivity=1.0, generator=generator)
        .release([1.0, 2.0])
        .certificate
    )
    assert certificate.guarantee.kind == "none"

    class Disguised(SeededGenerator):
        is_secure = True

    disguised = GaussianRelease(epsilon=1.0, delta=1e-5, l2_sensitivity=1.0, generator=Disguised(1))
    assert disguised.release([1.0]).certificate.guarantee.kind == "none"
