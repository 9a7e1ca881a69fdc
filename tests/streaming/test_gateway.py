from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaussveil.errors import FormatError, ParameterError, SourceError
from gaussveil.noise import SeededGenerator
from gaussveil.streaming import Gateway, Message, Meter, StreamState, read_meters, write_meters
from gaussveil.streaming.meters import LARGEST_FILE
from gaussveil.streaming.mqtt import Broker
from gaussveil.streaming.state import _ARRAYS, CHECKPOINT_RECORDS, KEPT

Meters = tuple[Meter, ...]


@pytest.fixture
def gateway(meters: Meters, tmp_path: Path) -> Iterator[Gateway]:
    state = StreamState.open(tmp_path / "state", meters)
    yield Gateway(meters, state)
    os.close(state._lock)


def say(meter: str, sequence: int, *values: float) -> Message:
    return Message(meter, sequence, np.array(values))


def outputs(gateway: Gateway, *messages: Message) -> list[list[tuple[int, list[float]]]]:
    return [[(first, values.tolist()) for first, values in answer.runs] for answer in gateway.answer(messages)]


def reopened(gateway: Gateway) -> Gateway:
    """As after kill -9: nothing was closed, only the lock went with the process."""
    os.close(gateway.state._lock)
    return Gateway(gateway.meters, StreamState.open(gateway.state.folder, gateway.meters))


def test_a_repeated_reading_gets_the_identical_output_and_a_changed_one_none(gateway: Gateway) -> None:
    first = outputs(gateway, *(say(meter.name, 0, 1.25) for meter in gateway.meters))
    assert all(len(runs) == 1 for runs in first)
    again = outputs(gateway, *(say(meter.name, 0, 1.25) for meter in gateway.meters))
    assert again == first
    assert outputs(gateway, *(say(meter.name, 0, 1.5) for meter in gateway.meters)) == [[], [], []]
    assert gateway.health()["repeated"] == 3
    assert gateway.health()["conflicts"] == 3


def test_fresh_noise_for_the_same_reading_would_leak(meters: Meters, tmp_path: Path) -> None:
    """What the refusal prevents: averaging 100 fresh outputs of one reading finds it to a tenth of the noise."""
    design = meters[0].design
    answers = []
    for attempt in range(100):
        state = StreamState.open(tmp_path / f"{attempt}", meters[:1])
        answers.append(Gateway(meters[:1], state).answer([say("white", 0, 3.0)])[0].runs[0][1][0])
        os.close(state._lock)
    assert abs(np.mean(answers) - 3.0) < 6 * design.noise_sd / 10
    gateway = Gateway(meters[:1], StreamState.open(tmp_path / "one", meters[:1]))
    seen = {outputs(gateway, say("white", 0, 3.0))[0][0][1][0] for _ in range(100)}
    assert len(seen) == 1


def test_after_a_crash_the_log_gives_the_same_outputs_and_the_same_state(gateway: Gateway) -> None:
    rng = np.random.default_rng(1)
    sent = []
    for first in range(0, 60, 5):
        for meter in gateway.meters:
            sent.append(say(meter.name, first, *rng.random(5)))
    first_answers = [outputs(gateway, message)[0] for message in sent]
    energies = [gateway.answer([message])[0].energies for message in sent]
    live = {name: getattr(gateway.state, name).copy() for name in _ARRAYS}
    states = gateway.state.bank.states.copy(), gateway.state.bank.past.copy()
    after = reopened(gateway)
    for name in _ARRAYS:
        assert np.array_equal(getattr(after.state, name), live[name]), name
    assert np.array_equal(after.state.bank.states, states[0])
    assert np.array_equal(after.state.bank.past, states[1])
    assert [outputs(after, message)[0] for message in sent] == first_answers
    assert [after.answer([message])[0].energies for message in sent] == energies
    assert sum(map(len, energies)) == 2
    gateway.state._lock = after.state._lock


def test_missing_readings_are_substituted_and_still_emitted(gateway: Gateway) -> None:
    outputs(gateway, say("white", 0, 1.0))
    runs = outputs(gateway, say("white", 4, 1.0))[0]
    assert [(first, len(values)) for first, values in runs] == [(1, 4)]
    assert gateway.health()["substituted"] == 3
    # late, whatever the value: also the substitute's own
    for value in (0.5, 7.0):
        assert outputs(gateway, say("white", 2, value)) == [[]]
    assert gateway.health()["late"] == 2
    assert gateway.health()["conflicts"] == 0


def test_malformed_readings_count_as_missing_and_repeat_identically(gateway: Gateway) -> None:
    first = outputs(gateway, say("coloured", 0, math.nan, 1.0))
    assert outputs(gateway, say("coloured", 0, math.nan, 1.0)) == first
    assert gateway.health()["substituted"] == 1
    assert gateway.health()["repeated"] == 2


def test_unknown_meters_and_impossible_numbers_are_refused(gateway: Gateway) -> None:
    bad = [
        say("stranger", 0, 1.0),
        say("stranger", 1, 1.0),
        say("white", -1, 1.0),
        say("white", 2**61, 1.0),
        say("white", 0),
    ]
    assert outputs(gateway, *bad) == [[]] * 5
    health = gateway.health()
    assert (health["unknown"], health["malformed"], health["late"], health["accepted"]) == (2, 2, 1, 0)


def test_a_long_gap_starts_filters_and_noise_anew_together(gateway: Gateway) -> None:
    outputs(gateway, say("coloured", 0, 1.0))
    before = gateway.state.bank.states.copy()
    runs = outputs(gateway, say("coloured", 5000, 1.0))[0]
    assert [(first, len(values)) for first, values in runs] == [(5000, 1)]
    assert gateway.health()["restarts"] == 2
    assert not np.array_equal(before, gateway.state.bank.states)


def test_what_is_no_longer_kept_is_late(gateway: Gateway) -> None:
    outputs(gateway, say("white", 0, *np.zeros(KEPT + 10)))
    assert outputs(gateway, say("white", 3, 0.0)) == [[]]
    assert outputs(gateway, say("white", 10, 0.0))[0]
    assert gateway.health()["late"] == 1


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(
        st.tuples(st.sampled_from(["white", "coloured", "billing"]), st.integers(0, 40), st.integers(1, 6)),
        min_size=1,
        max_size=25,
    ),
    crash=st.integers(0, 24),
)
def test_however_readings_arrive_one_number_has_one_output(
    meters: Meters, tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, int, int]], crash: int
) -> None:
    """In any order, repeated, overlapping, with gaps and a crash: an answered sequence number never changes."""
    state = StreamState.open(tmp_path_factory.mktemp("state") / "s", meters)
    gateway = Gateway(meters, state)
    seen: dict[tuple[str, int], float] = {}
    for step, (meter, first, count) in enumerate(script):
        if step == crash:
            gateway = reopened(gateway)
        message = Message(meter, first, np.sin(first + np.arange(count)))
        for start, values in gateway.answer([message, message])[0].runs:
            for offset, value in enumerate(values.tolist()):
                assert seen.setdefault((meter, start + offset), value) == value
    os.close(gateway.state._lock)


def test_group_and_single_messages_have_the_same_law(meters: Meters, tmp_path: Path) -> None:
    """One group of many meters against one message at a time: the noise has the design's variance either way."""
    crowd = tuple(Meter(f"m{k}", meters[1].design, meters[1].certificate) for k in range(400))
    state = StreamState.open(tmp_path / "crowd", crowd)
    gateway = Gateway(crowd, state, generator=SeededGenerator(1))
    together = gateway.answer([say(meter.name, 0, *np.zeros(20)) for meter in crowd])
    single = [gateway.answer([say(meter.name, 20, *np.zeros(20))])[0] for meter in crowd]
    for answers in (together, single):
        noise = np.array([answer.runs[0][1] for answer in answers])
        assert noise.std() == pytest.approx(meters[1].design.noise_sd, rel=0.05)
    assert state.bytes_per_meter <= 16 * 1024


def test_registers_of_whole_windows_only(gateway: Gateway) -> None:
    outputs(gateway, say("billing", 10, *np.ones(14)))
    answer = gateway.answer([say("billing", 24, *np.ones(24))])[0]
    assert [(energy.name, energy.first) for energy in answer.energies] == [("day", 24)]
    noise = gateway.meters[2].design.registers[0].noise_sd
    assert abs(answer.energies[0].kwh - 24) < 8 * noise


def test_torn_last_frame_is_dropped_and_damage_elsewhere_refused(gateway: Gateway) -> None:
    first = outputs(gateway, say("white", 0, 1.0))
    log = gateway.state._log_path(gateway.state.generation)
    size = log.stat().st_size
    outputs(gateway, say("white", 1, 1.0))
    with log.open("r+b") as stream:
        stream.truncate(log.stat().st_size - 7)
    after = reopened(gateway)
    assert log.stat().st_size == size
    assert int(after.state.next[0]) == 1
    assert outputs(after, say("white", 0, 1.0)) == first
    outputs(after, say("white", 1, 1.0))
    body = bytearray(log.read_bytes())
    body[20] ^= 1
    log.write_bytes(body)
    with pytest.raises(FormatError, match="damaged"):
        reopened(after)
    gateway.state._lock = os.open("/dev/null", os.O_RDONLY)


def test_when_the_log_cannot_be_written_nothing_more_is_answered(gateway: Gateway) -> None:
    outputs(gateway, say("white", 0, 1.0))
    os.close(gateway.state._log)
    gateway.state._log = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError):
        outputs(gateway, say("white", 1, 1.0))
    with pytest.raises(SourceError, match="Restart"):
        outputs(gateway, say("white", 1, 1.0))
    after = reopened(gateway)
    assert int(after.state.next[0]) == 1
    gateway.state._lock = after.state._lock


def test_checkpoints_keep_everything(gateway: Gateway) -> None:
    first = outputs(gateway, *(say(meter.name, 0, 1.0, 2.0) for meter in gateway.meters))
    gateway.state.checkpoint()
    assert CHECKPOINT_RECORDS > 10**6
    after = reopened(gateway)
    assert outputs(after, *(say(meter.name, 0, 1.0, 2.0) for meter in gateway.meters)) == first
    assert sorted(path.name for path in after.state.folder.iterdir()) == ["arrays-2.npz", "lock", "log-2", "state.json"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in after.state.folder.iterdir())
    gateway.state._lock = after.state._lock


def test_state_belongs_to_its_meters_and_to_one_process(gateway: Gateway, meters: Meters) -> None:
    with pytest.raises(SourceError, match="another gateway"):
        StreamState.open(gateway.state.folder, meters)
    os.close(gateway.state._lock)
    with pytest.raises(FormatError, match="other meters"):
        StreamState.open(gateway.state.folder, meters[:2])
    gateway.state._lock = os.open("/dev/null", os.O_RDONLY)


def test_meters_file_round_trip_and_bad_files(meters: Meters, tmp_path: Path) -> None:
    path = write_meters(meters, tmp_path / "m.json")
    again = read_meters(path)
    assert [meter.name for meter in again] == ["white", "coloured", "billing"]
    assert [meter.design for meter in again] == [meter.design for meter in meters]
    write_meters([meters[0], meters[0]], path)
    with pytest.raises(FormatError, match="each name once"):
        read_meters(path)
    for body, said in (
        ("{}", "lacks the field 'format'"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ("[" * 40 + "]" * 40, "nested"),
        ('{"format": 1' + "0" * 5000 + "}", "must be JSON"),
        ('{"a": 1e999}', "finite"),
        ('{"a": NaN}', "finite"),
        ('{"a": 1' + "0" * 400 + "}", "whole number"),
        ('{"a": 1, "a": 2}', "repeat a key"),
        ("\ud800", "JSON"),
        ('{"format": "gaussveil meters", "version": 1, "meters": {}}', "not a file of meters"),
        ('{"format": "gaussveil meters", "version": 1, "meters": []}', "at least one"),
        ('{"format": "gaussveil meters", "version": 1, "meters": [3]}', "must be a JSON object"),
    ):
        path.write_bytes(body.encode("utf-8", "replace"))
        with pytest.raises(FormatError, match=said):
            read_meters(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="UnicodeDecodeError"):
        read_meters(path)
    with path.open("wb") as stream:
        stream.truncate(LARGEST_FILE + 1)
    with pytest.raises(FormatError, match="must not be larger"):
        read_meters(path)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("design", "filter", "white"), 1e-6),
        (("design", "filter", "white"), "6"),
        (("design", "filter", "pole"), 0.5),
        (("design", "filter", "signal"), [1.5]),
        (("design", "filter", "signal"), []),
        (("design", "filter"), None),
        (("design", "filter", "signal"), [2**60]),
        (("design", "filter", "taps"), [0.0] * 5000),
        (("design", "filter", "width"), 28.0),
        (("design", "filter", "signal_bits"), -1),
        (("design", "sample_limit"), 10**15),
        (("design", "sample_limit"), True),
        (("design", "sample_limit"), 1.5),
        (("design", "registers", 0, "noise_sd"), 1e-9),
        (("design", "registers", 0, "noise_sd"), -1.0),
        (("design", "registers", 0, "samples"), 0),
        (("design", "registers"), []),
        (("design", "registers"), [{}] * 9),
        (("design", "limits"), [0.0]),
        (("design", "limits"), [-1e6, 1e6]),
        (("design", "substitute"), 1.0),
        (("design", "promise", "samples"), 200),
        (("design", "promise"), []),
        (("design", "purpose"), 7),
        (("design", "mean_shift"), 0.0),
        (("name",), 5),
        (("name",), "a/b"),
        (("name",), ""),
        (("certificate",), {}),
        (("certificate",), None),
        (("design",), "x"),
    ],
    ids=str,
)
def test_designs_other_than_those_paid_for_and_odd_fields_are_refused(
    meters: Meters, tmp_path: Path, where: tuple[str | int, ...], value: object
) -> None:
    """A file that asks for less noise than its certificate covers is refused, like one that is only malformed."""
    path = write_meters(meters, tmp_path / "m.json")
    record = json.loads(path.read_text())
    part = record["meters"][2]
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = value
    path.write_text(json.dumps(record))
    with pytest.raises(FormatError, match="meter 2 of"):
        read_meters(path)


def test_damage_in_the_length_of_a_frame_is_not_taken_for_a_torn_end(gateway: Gateway) -> None:
    log = gateway.state._log_path(gateway.state.generation)
    ends = []
    for k in range(3):
        outputs(gateway, say("white", k, 1.0))
        ends.append(log.stat().st_size)
    body = bytearray(log.read_bytes())
    body[ends[0] + 6] ^= 0xFF  # of the second frame: it now seems to end beyond the log
    log.write_bytes(body)
    with pytest.raises(FormatError, match="damaged in the middle"):
        reopened(gateway)
    gateway.state._lock = os.open("/dev/null", os.O_RDONLY)


def test_a_damaged_checkpoint_is_told(gateway: Gateway) -> None:
    outputs(gateway, say("white", 0, 1.0))
    gateway.state.checkpoint()
    arrays = gateway.state.folder / f"arrays-{gateway.state.generation}.npz"
    for harm in (arrays.read_bytes()[:-40], b"", b"PK\x03\x04" + os.urandom(200)):
        arrays.write_bytes(harm)
        with pytest.raises(FormatError, match="damaged"):
            reopened(gateway)
        gateway.state._lock = os.open("/dev/null", os.O_RDONLY)


def test_a_reset_never_answers_again_what_is_known_to_be_answered(gateway: Gateway, meters: Meters) -> None:
    outputs(gateway, say("white", 0, 1.0, 2.0), say("billing", 0, *np.ones(30)))
    os.close(gateway.state._lock)
    folder = gateway.state.folder
    with pytest.raises(ParameterError, match="before 30 may have been answered"):
        StreamState.open(folder, meters, reset_from=29)
    anew = StreamState.open(folder, meters, reset_from=30)
    os.close(anew._lock)
    with pytest.raises(ParameterError, match="before 30 may have been answered"):
        StreamState.open(folder, meters, reset_from=0)
    (folder / "state.json").write_text("{}")  # what it answered is not known any more
    last = StreamState.open(folder, meters, reset_from=5)
    gateway.state._lock = last._lock
    assert last.first_sequence == 5
    assert sorted(path.name for path in folder.iterdir()) == ["arrays-3.npz", "lock", "log-3", "state.json"]


def test_a_crash_during_a_reset_leaves_the_old_state(gateway: Gateway, meters: Meters) -> None:
    first = outputs(gateway, say("white", 0, 1.0))
    os.close(gateway.state._lock)
    folder = gateway.state.folder
    power = {"on": False}

    def cut(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename" and not power["on"]:  # arrays and log are written, the head is about to be
            raise InterruptedError("the power is cut")

    sys.addaudithook(cut)
    with pytest.raises(InterruptedError):
        StreamState.open(folder, meters, reset_from=1)
    power["on"] = True
    after = Gateway(meters, StreamState.open(folder, meters))
    assert outputs(after, say("white", 0, 1.0)) == first
    assert after.health()["repeated"] == 1
    gateway.state._lock = after.state._lock


def test_what_holds_readings_or_passwords_does_not_show_them() -> None:
    assert "0.625" not in repr(say("white", 0, 0.625))
    assert "pa55" not in repr(Broker(user="gateway", password="pa55"))
