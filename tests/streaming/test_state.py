"""The durable state: crashes, damage of any file, meters that come and go, resets, and the format before."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gaussveil.errors import FormatError, ParameterError, SourceError
from gaussveil.streaming import Gateway, Meter, StreamState
from gaussveil.streaming.meter_arrays import BY_COLUMN, BY_METER

from .test_gateway import opened, outputs, say

Meters = tuple[Meter, ...]


def log_of(folder: Path) -> Path:
    (log,) = folder.glob("log-*")
    return log


@contextmanager
def no_file_may_grow(limit: int) -> Iterator[None]:
    """The kernel refuses writes beyond so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_after_a_crash_the_log_gives_the_same_outputs_and_the_same_state(meters: Meters, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    folder = tmp_path / "state"
    sent = [say(meter.name, first, *rng.random(5)) for first in range(0, 600, 5) for meter in meters]
    sent.append(say("coloured", 2000, 1.0))  # after a gap that starts the filters anew
    with opened(folder, meters) as gateway:
        first = [outputs(gateway, message)[0] for message in sent]
        energies = [gateway.answer([message])[0].energies for message in sent]
        live = gateway.state.arrays
    with opened(folder, meters) as after:
        for name in (*BY_METER, *BY_COLUMN):
            assert np.array_equal(getattr(after.state.arrays, name), getattr(live, name)), name
        assert [outputs(after, message)[0] for message in sent] == first
        assert [after.answer([message])[0].energies for message in sent] == energies
        after.state.checkpoint()
    with opened(folder, meters) as last:
        assert [outputs(last, message)[0] for message in sent] == first
        assert [last.answer([message])[0].energies for message in sent] == energies
        assert last.health()["late"] == 0
    assert sum(map(len, energies)) == 600 // 24 + 3
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["arrays-2.npz", "committed-2", "lock", "log-2", "state.json"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_a_torn_last_frame_was_never_published_and_is_dropped(meters: Meters, tmp_path: Path) -> None:
    """The process ended while it wrote: what it had noted as written ends before."""
    folder = tmp_path / "state"
    with opened(folder, meters) as gateway:
        first = outputs(gateway, say("white", 0, 1.0))
        log = log_of(folder)
        size = log.stat().st_size
        with no_file_may_grow(size + 50), pytest.raises(OSError):
            outputs(gateway, say("white", 1, 1.0))
        assert log.stat().st_size == size + 50
        with pytest.raises(SourceError, match="Restart"):
            outputs(gateway, say("white", 1, 1.0))
    with opened(folder, meters) as after:
        assert log.stat().st_size == size
        assert outputs(after, say("white", 0, 1.0)) == first
        assert after.health()["repeated"] == 1
        assert [runs[0][0] for runs in outputs(after, say("white", 1, 1.0))] == [1]


def test_a_truncated_log_is_told(meters: Meters, tmp_path: Path) -> None:
    """At any length, a whole number of frames too: its answers were given, and would be given anew with other noise."""
    folder = tmp_path / "state"
    ends = [0]
    with opened(folder, meters) as gateway:
        for k in range(4):
            outputs(gateway, say("white", k, 1.0))
            ends.append(log_of(folder).stat().st_size)
    whole = log_of(folder).read_bytes()
    for length in (*ends[:-1], ends[2] + 7, ends[-1] - 1):
        log_of(folder).write_bytes(whole[:length])
        with pytest.raises(FormatError, match="damaged"):
            StreamState.open(folder, meters)
    log_of(folder).write_bytes(whole)
    StreamState.open(folder, meters).abandon()


def test_every_flipped_bit_is_told_or_changes_nothing(meters: Meters, tmp_path: Path) -> None:
    folder, rng = tmp_path / "state", np.random.default_rng(5)
    sent = [say(meter.name, 0, *np.ones(30)) for meter in meters]
    with opened(folder, meters) as gateway:
        outputs(gateway, *sent)
        gateway.state.checkpoint()
        sent += [say(meter.name, 30, 1.0) for meter in meters]
        first = outputs(gateway, *sent)
    told = 0
    for name in ("log-2", "committed-2", "arrays-2.npz"):
        body = (folder / name).read_bytes()
        for place in rng.integers(0, len(body), 60).tolist():
            harmed = bytearray(body)
            harmed[place] ^= 1 << int(rng.integers(8))
            (folder / name).write_bytes(harmed)
            try:
                state = StreamState.open(folder, meters)
            except FormatError:
                told += 1
            else:  # of the archive's own index some bytes mean nothing
                assert outputs(Gateway(meters, state), *sent) == first
                state.abandon()
        (folder / name).write_bytes(body)
    assert told > 120


def test_a_damaged_checkpoint_is_told(meters: Meters, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with opened(folder, meters) as gateway:
        outputs(gateway, say("white", 0, 1.0))
    arrays = folder / "arrays-1.npz"
    for harm in (arrays.read_bytes()[:-40], b"", b"PK\x03\x04" + bytes(200)):
        arrays.write_bytes(harm)
        with pytest.raises(FormatError, match="damaged"):
            StreamState.open(folder, meters)
    arrays.unlink()
    with pytest.raises(FormatError, match="damaged"):
        StreamState.open(folder, meters)


def test_one_process_holds_a_folder(meters: Meters, tmp_path: Path) -> None:
    with opened(tmp_path / "state", meters), pytest.raises(SourceError, match="another gateway"):
        StreamState.open(tmp_path / "state", meters)


def test_meters_come_and_go_without_a_reset(meters: Meters, tmp_path: Path) -> None:
    """Whoever stays goes on; whoever comes back is not answered again where it was answered before."""
    folder, (white, coloured, billing) = tmp_path / "state", meters
    with opened(folder, (coloured, white)) as gateway:
        first = outputs(gateway, say("white", 0, *np.ones(300)), say("coloured", 0, 1.0, 2.0))
        filters = gateway.state.arrays.states[:, 0].copy()
    with opened(folder, (billing, coloured)) as gateway:
        assert outputs(gateway, say("coloured", 0, 1.0, 2.0)) == first[1:]
        assert np.array_equal(gateway.state.arrays.states[: len(filters), 1], filters)
        assert outputs(gateway, say("billing", 0, 1.0), say("white", 0, 1.0))[1] == []
    with opened(folder, meters) as gateway:
        assert outputs(gateway, say("coloured", 0, 1.0, 2.0)) == first[1:]
        assert outputs(gateway, say("white", 299, 1.0)) == [[]]
        assert gateway.health()["late"] == 1
        assert outputs(gateway, say("white", 300, 1.0))[0]
    renewed = Meter("white", coloured.design, coloured.certificate)  # another debit: another stream
    with opened(folder, (renewed, billing)) as gateway:
        assert outputs(gateway, say("white", 0, 1.0))[0]


def test_a_reset_of_one_meter_leaves_the_others(meters: Meters, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with opened(folder, meters) as gateway:
        first = outputs(gateway, say("white", 0, *np.ones(300)), say("billing", 0, *np.ones(30)))
    for wrong, said in (({"billing": 29}, "30 or later"), ({"other": 5}, "name meters"), ({"white": -1}, "0 or later")):
        with pytest.raises(ParameterError, match=said):
            StreamState.open(folder, meters, reset_from=wrong)
    state = StreamState.open(folder, meters, reset_from={"billing": 40})
    gateway = Gateway(meters, state)
    assert outputs(gateway, say("white", 0, *np.ones(300)), say("billing", 0, *np.ones(30))) == [first[0], []]
    assert [run[0] for run in outputs(gateway, say("billing", 40, 1.0))[0]] == [40]
    state.abandon()


def test_a_reset_never_answers_again_what_is_known_to_be_answered(meters: Meters, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with opened(folder, meters) as gateway:
        outputs(gateway, say("white", 0, 1.0, 2.0), say("billing", 0, *np.ones(30)))
    with pytest.raises(ParameterError, match="30 or later"):
        StreamState.open(folder, meters, reset_from=29)
    StreamState.open(folder, meters, reset_from=30).abandon()
    with pytest.raises(ParameterError, match="30 or later"):
        StreamState.open(folder, meters, reset_from=0)
    (folder / "state.json").write_text("{}")  # what it answered is not known any more
    with pytest.raises(FormatError, match="damaged"):
        StreamState.open(folder, meters, reset_from={"white": 5})
    last = StreamState.open(folder, meters, reset_from=5)
    assert last.arrays.next.tolist() == [5, 5, 5]
    last.abandon()
    assert sorted(path.name for path in folder.iterdir() if "3" in path.name) == [
        "arrays-3.npz",
        "committed-3",
        "log-3",
    ]


def test_a_crash_during_a_reset_leaves_the_old_state(meters: Meters, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with opened(folder, meters) as gateway:
        first = outputs(gateway, say("white", 0, 1.0))
    power = {"on": False}

    def cut(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename" and not power["on"]:  # arrays and log are written, the head is about to be
            raise InterruptedError("the power is cut")

    sys.addaudithook(cut)
    with pytest.raises(InterruptedError):
        StreamState.open(folder, meters, reset_from=1)
    power["on"] = True
    with opened(folder, meters) as after:
        assert outputs(after, say("white", 0, 1.0)) == first


def test_state_of_another_format_is_refused_and_left_alone(meters: Meters, tmp_path: Path) -> None:
    StreamState.open(tmp_path / "state", meters).close()
    head = tmp_path / "state" / "state.json"
    head.write_text(json.dumps({**json.loads(head.read_text()), "format": 1}))
    before = {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()}
    with pytest.raises(FormatError, match="is of format 1, not 2"):
        StreamState.open(tmp_path / "state", meters)
    assert {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()} == before


def test_a_full_disk_at_the_first_start_leaves_nothing_that_hinders_the_second(meters: Meters, tmp_path: Path) -> None:
    with no_file_may_grow(10), pytest.raises(OSError):
        StreamState.open(tmp_path / "state", meters)
    assert os.listdir(tmp_path / "state")
    with opened(tmp_path / "state", meters) as gateway:
        assert outputs(gateway, say("white", 0, 1.0))[0]


def test_frames_are_on_the_disk_before_anything_is_said(
    meters: Meters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a crash of the machine may lose was never published: all of the log was synchronised before an answer."""
    safe: dict[int, int] = {}  # bytes on the disk, by inode

    def synchronised(file: int, really: Callable[[int], None]) -> None:
        really(file)
        status = os.fstat(file)
        safe[status.st_ino] = status.st_size

    monkeypatch.setattr(os, "fdatasync", partial(synchronised, really=os.fdatasync))
    monkeypatch.setattr(os, "fsync", partial(synchronised, really=os.fsync))
    with opened(tmp_path / "state", meters) as gateway:
        written = 0
        for first in range(0, 30, 5):
            assert outputs(gateway, say(meters[0].name, first, *[0.5] * 5))
            status = log_of(tmp_path / "state").stat()
            assert status.st_size > written
            assert safe[status.st_ino] == status.st_size
            written = status.st_size
