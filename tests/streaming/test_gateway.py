from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaussveil.errors import FormatError
from gaussveil.mechanisms import MeterStream
from gaussveil.noise import SeededGenerator
from gaussveil.streaming import Gateway, Message, Meter, StreamState, read_meters, write_meters
from gaussveil.streaming.gateway import LONGEST_JUMP
from gaussveil.streaming.meter_arrays import KEPT, KEPT_WINDOWS
from gaussveil.streaming.meters import LARGEST_FILE
from gaussveil.streaming.mqtt_client import Broker

Meters = tuple[Meter, ...]


@pytest.fixture
def gateway(meters: Meters, tmp_path: Path) -> Iterator[Gateway]:
    with opened(tmp_path / "state", meters) as made:
        yield made


@contextmanager
def opened(folder: Path, meters: Meters, **options: Any) -> Iterator[Gateway]:
    """A gateway that ends as by a crash."""
    state = StreamState.open(folder, meters)
    yield Gateway(meters, state, **{"missing": "substitute", **options})
    state.abandon()


def bytes_per_meter(state: StreamState) -> float:
    """Memory of the arrays."""
    filters = sum(value.nbytes for value in vars(state.bank).values() if isinstance(value, np.ndarray))
    return (filters + state.arrays.nbytes) / len(state.arrays)


def say(meter: str, sequence: int, *values: float) -> Message:
    return Message(meter, sequence, np.array(values))


def outputs(gateway: Gateway, *messages: Message) -> list[list[tuple[int, list[float]]]]:
    return [[(first, values.tolist()) for first, values in answer.runs] for answer in gateway.answer(messages)]


def test_a_repeated_reading_gets_the_identical_output_whatever_its_value(gateway: Gateway) -> None:
    """Neither the answer nor a counter may tell whether a value equals the one that was answered."""
    first = outputs(gateway, *(say(meter.name, 0, 1.25) for meter in gateway.meters))
    assert all(len(runs) == 1 for runs in first)
    told = []
    for value in (1.25, 1.5, -3.0, math.nan, math.inf):
        assert outputs(gateway, *(say(meter.name, 0, value) for meter in gateway.meters)) == first
        told.append({**gateway.health(), "repeated": 0})
    assert gateway.health()["repeated"] == 15
    assert all(health == told[0] for health in told)


def test_fresh_noise_for_the_same_reading_would_leak(meters: Meters, tmp_path: Path) -> None:
    """What the refusal prevents: averaging 100 fresh outputs of one reading finds it to a tenth of the noise."""
    design = meters[0].design
    answers = []
    for attempt in range(100):
        with opened(tmp_path / f"{attempt}", meters[:1]) as gateway:
            answers.append(gateway.answer([say("white", 0, 3.0)])[0].runs[0][1][0])
    assert abs(np.mean(answers) - 3.0) < 6 * design.noise_sd / 10
    with opened(tmp_path / "one", meters[:1]) as gateway:
        seen = {outputs(gateway, say("white", 0, 3.0))[0][0][1][0] for _ in range(100)}
    assert len(seen) == 1


def test_missing_readings_are_substituted_and_still_emitted(gateway: Gateway) -> None:
    outputs(gateway, say("white", 0, 1.0))
    runs = outputs(gateway, say("white", 4, 1.0))[0]
    assert [(first, len(values)) for first, values in runs] == [(1, 4)]
    assert gateway.health()["substituted"] == 3
    # late: the substitute's answer, whatever the value
    for value in (0.5, 7.0):
        assert outputs(gateway, say("white", 2, value)) == [[(2, [runs[0][1][1]])]]
    assert gateway.health()["repeated"] == 2


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
        say("white", 10**400, 1.0),
        say("white", 0),
    ]
    assert outputs(gateway, *bad) == [[]] * 6
    health = gateway.health()
    assert (health["unknown"], health["malformed"], health["accepted"]) == (2, 4, 0)
    assert (health["malformed_range"], health["malformed_empty"]) == (3, 1)


def test_a_long_gap_starts_filters_and_noise_anew_together(gateway: Gateway) -> None:
    outputs(gateway, say("coloured", 0, 1.0))
    before = gateway.state.arrays.states.copy()
    runs = outputs(gateway, say("coloured", 5000, 1.0))[0]
    assert [(first, len(values)) for first, values in runs] == [(5000, 1)]
    assert gateway.health()["restarts"] == 2
    assert not np.array_equal(before, gateway.state.arrays.states)


def test_answers_stay_until_their_delivery_is_confirmed(gateway: Gateway) -> None:
    """A batch is longer than what is kept of confirmed answers, and many may be on their way."""
    batches = [say("billing", first, *np.linspace(0, 1, 4096)) for first in range(0, 3 * 4096, 4096)]
    answers = gateway.answer(batches)
    first = [(answer.runs[0][1].tolist(), answer.energies) for answer in answers]
    assert len(first[0][1]) > KEPT_WINDOWS
    for batch, before in zip(batches, first):
        again = gateway.answer([batch])[0]
        assert ([part.tolist() for _, part in again.runs], again.energies) == ([before[0]], before[1])
    assert gateway.health()["late"] == 0
    assert gateway.health()["unconfirmed"] == 3 * 4096
    for answer in answers[:2]:
        gateway.confirm(answer)
    again = gateway.answer(batches)
    assert not again[0].runs
    assert again[2].runs[0][1].tolist() == first[2][0]
    gateway.confirm(answers[2])
    assert gateway.health()["unconfirmed"] == 0
    end = 3 * 4096
    assert outputs(gateway, say("billing", end - KEPT - 1, 0.0), say("billing", end - KEPT, 0.0))[0] == []
    assert outputs(gateway, say("billing", end - KEPT, 0.0))[0] == [(end - KEPT, [first[2][0][-KEPT]])]


def test_memory_is_flat_where_deliveries_are_confirmed(gateway: Gateway) -> None:
    used = []
    for first in range(0, 40 * 500, 500):
        for answer in gateway.answer([say("coloured", first, *np.zeros(500))]):
            gateway.confirm(answer)
        used.append(bytes_per_meter(gateway.state))
    assert used[0] == used[-1]


def test_a_wild_number_is_refused_and_the_meter_goes_on(gateway: Gateway) -> None:
    """A timestamp taken for a number would leave no number for the readings to come."""
    for name in ("white", "coloured"):
        assert outputs(gateway, say(name, 80_000, 1.0)) == [[]]
        assert outputs(gateway, say(name, 0, 1.0))[0]
        assert outputs(gateway, say(name, 1 + LONGEST_JUMP + 1, 1.0)) == [[]]
        assert [first for first, _ in outputs(gateway, say(name, 1, 1.0))[0]] == [1]
        assert [first for first, _ in outputs(gateway, say(name, 2 + LONGEST_JUMP, 1.0))[0]] == [2 + LONGEST_JUMP]
        assert outputs(gateway, say(name, 3, 1.0)) == [[]]
    assert gateway.health()["malformed_jump"] == 4
    assert gateway.health()["late"] == 2


def test_a_group_of_one_meter_is_one_draw(meters: Meters, tmp_path: Path) -> None:
    """However many readings of one meter arrive together: the noise is that of one batch, so it is drawn as one."""
    with opened(tmp_path / "a", meters, generator=SeededGenerator(3)) as gateway:
        singly = gateway.answer([say("coloured", k, k / 7) for k in range(3000)])
    with opened(tmp_path / "b", meters, generator=SeededGenerator(3)) as gateway:
        whole = gateway.answer([say("coloured", 0, *np.arange(3000) / 7)])[0]
    assert [answer.runs[0][0] for answer in singly] == list(range(3000))
    assert [answer.runs[0][1][0] for answer in singly] == whole.runs[0][1].tolist()


def test_one_group_with_repeats_gaps_overlaps_and_restarts(gateway: Gateway) -> None:
    ones = np.ones(30)
    script = [
        say("billing", 0, *ones),
        say("billing", 10, *ones),
        say("billing", 45, 1.0),
        say("billing", 1000, *ones),
        say("billing", 0, *ones),
        say("billing", 500, *ones),
        say("billing", 1030, 1.0),
    ]
    runs = [[(first, len(values)) for first, values in answer] for answer in outputs(gateway, *script)]
    assert runs == [[(0, 30)], [(10, 20), (30, 10)], [(40, 6)], [(1000, 30)], [(0, 30)], [], [(1030, 1)]]
    energies = [[(e.name, e.first) for e in answer.energies] for answer in gateway.answer(script)]
    assert energies == [[("day", 0)], [("day", 0)], [], [], [("day", 0)], [], []]


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
    folder = tmp_path_factory.mktemp("state") / "s"
    gateway = Gateway(meters, StreamState.open(folder, meters))
    seen: dict[tuple[str, int], float] = {}
    for step, (meter, first, count) in enumerate(script):
        if step == crash:
            gateway.state.abandon()
            gateway = Gateway(meters, StreamState.open(folder, meters))
        message = Message(meter, first, np.sin(first + np.arange(count)))
        for start, values in gateway.answer([message, message])[0].runs:
            for offset, value in enumerate(values.tolist()):
                assert seen.setdefault((meter, start + offset), value) == value
    gateway.state.abandon()


def test_group_and_single_messages_have_the_same_law(meters: Meters, tmp_path: Path) -> None:
    """One group of many meters against one message at a time: the noise has the design's variance either way."""
    crowd = tuple(Meter(f"m{k}", meters[1].design, meters[1].certificate) for k in range(400))
    with opened(tmp_path / "crowd", crowd, generator=SeededGenerator(1)) as gateway:
        together = gateway.answer([say(meter.name, 0, *np.zeros(20)) for meter in crowd])
        single = [gateway.answer([say(meter.name, 20, *np.zeros(20))])[0] for meter in crowd]
    for answers in (together, single):
        noise = np.array([answer.runs[0][1] for answer in answers])
        assert noise.std() == pytest.approx(meters[1].design.noise_sd, rel=0.05)
    assert bytes_per_meter(gateway.state) <= 4 * 1024


def test_registers_of_whole_windows_only(gateway: Gateway) -> None:
    outputs(gateway, say("billing", 10, *np.ones(14)))
    answer = gateway.answer([say("billing", 24, *np.ones(24))])[0]
    assert [(energy.name, energy.first) for energy in answer.energies] == [("day", 24)]
    noise = gateway.meters[2].design.registers[0].noise_sd
    assert abs(answer.energies[0].kwh - 24) < 8 * noise


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
    ids=lambda value: str(value)[:60],
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


def test_what_holds_readings_or_passwords_does_not_show_them() -> None:
    assert "0.625" not in repr(say("white", 0, 0.625))
    assert "pa55" not in repr(Broker(user="gateway", password="pa55"))


def test_a_fleet_shares_one_record_and_each_meter_keeps_its_own(meters: Meters, tmp_path: Path) -> None:
    """Meters of one promise say what they have of their own; nothing else can be said there, or of a later meter."""
    stream = MeterStream.design(
        sample_period="1h", epsilon=1.0, delta=1e-5, event=(0.5, "2h"), purpose="shape", substitute=0.5
    )
    fleet = [*meters, *(Meter(f"m{k}", stream.design_, stream.open()) for k in range(3))]
    path = write_meters(fleet, tmp_path / "m.json")
    assert [meter.certificate for meter in read_meters(path)] == [meter.certificate for meter in fleet]
    assert [item.get("like") for item in json.loads(path.read_text())["meters"]] == [None] * 3 + [0, 0, 0]
    for where, change in (
        ("own", {"account": 3}),
        ("own", {"ledger": 3}),
        ("own", {"more": 1}),
        ("own", {"signature": {"algorithm": "none"}}),
        ("own", {"drawn": "x"}),
        ("own", {"drawn": [1]}),
        ("own", {"id": math.inf}),
        (None, {"like": 5}),
        (None, {"like": -1}),
        (None, {"like": True}),
        (None, {"certificate": {}}),
        (None, {"own": None}),
    ):
        record = json.loads(path.read_text())
        item = record["meters"][5]
        (item[where] if where else item).update(change)
        (tmp_path / "changed.json").write_text(json.dumps(record))
        with pytest.raises(FormatError, match="meter 5 of"):
            read_meters(tmp_path / "changed.json")
