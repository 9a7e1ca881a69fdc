"""A fleet over lines, MQTT and Spark: each reading counts once, each sum is said once and the same again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaussveil.errors import GaussveilError, SourceError
from gaussveil.mechanisms import MeterFleet, RunningTotal
from gaussveil.streaming import FleetGateway, Message
from gaussveil.streaming.mqtt import MqttGateway
from gaussveil.streaming.mqtt_client import Broker
from gaussveil.streaming.readings import Answer

from .conftest import Mosquitto
from .test_mqtt import Receiver, reading
from .test_stdio import command, line

NAMES = ("a", "b", "c")


def begun(folder: Path, **changes: Any) -> FleetGateway:
    made = MeterFleet.design(sample_period="1h", epsilon=5.0, delta=1e-5, home="1h", limits=(0.0, 1.0), **changes)
    return FleetGateway(folder, fleet=made, meters=NAMES, name="feeder")


def messages(*readings: tuple[str, int, float]) -> list[Message]:
    return [Message(meter, sequence, np.array([value])) for meter, sequence, value in readings]


def test_each_reading_counts_once_and_periods_close_by_public_rules(tmp_path: Path) -> None:
    gateway = begun(tmp_path)
    counted: list[Any] = []
    push = gateway.fleet.push_many
    gateway.fleet.push_many = lambda rows: (counted.extend(np.asarray(rows).tolist()), push(rows))[1]  # type: ignore
    first = gateway.answer(messages(("a", 0, 0.5), ("a", 0, 0.9), ("b", 0, np.nan), ("x", 0, 1.0), ("c", 1, 0.25)))
    assert [(run[0], len(run[1])) for run in first[-1].runs] == [(0, 1)]
    assert np.array_equal(counted, [[0.5, np.nan, np.nan]], equal_nan=True)
    gateway.confirm(first[-1])
    assert gateway.answer(messages(("b", 0, 0.7)))[0].runs == []
    far = messages(("a", 10**6, 0.1), ("a", 2**63 + 5, 0.1), ("a", -1, 0.1))
    assert all(not answer.runs for answer in gateway.answer(far))
    jump = gateway.answer(messages(("a", 4, 0.1)))
    assert [(run[0], len(run[1])) for run in jump[0].runs] == [(1, 3)]
    assert gateway.answer([]) == []  # of a group of which nothing is a reading
    health = gateway.health()
    assert (health["late"], health["repeated"], health["unknown"], health["malformed"]) == (1, 0, 1, 3)
    assert (health["accepted"], health["substituted"], health["periods"]) == (2, 10, 4)


def test_after_a_crash_the_same_sums_are_said_and_open_readings_still_count(tmp_path: Path) -> None:
    gateway = begun(tmp_path)
    said = gateway.answer(messages(("a", 0, 0.5), ("b", 1, 1.0)))[-1].runs
    with pytest.raises(SourceError, match="another process"):
        FleetGateway(tmp_path)
    gateway.state.close()
    again = FleetGateway(tmp_path)
    answer = again.answer(messages(("c", 1, 1.0)))[0]
    assert [(run[0], run[1].tolist()) for run in answer.runs] == [(run[0], run[1].tolist()) for run in said]
    again.confirm(answer)
    assert np.array_equal(again._open[1], [np.nan, 1.0, 1.0], equal_nan=True)
    assert again.health()["unconfirmed"] == 0
    again.answer(messages(("c", 1, 1.0)))
    assert again.health()["repeated"] == 1
    again.state.close()
    with pytest.raises(SourceError, match="leave the new one out"):
        begun(tmp_path)
    third = FleetGateway(tmp_path)
    assert third.answer(messages(("a", 1, 0.0)))[0].runs == []
    third.state.close()
    (tmp_path / "fleet.json").write_text("{}")
    with pytest.raises(GaussveilError, match="not the state"):
        FleetGateway(tmp_path)
    with pytest.raises(SourceError, match="holds no fleet yet"):
        FleetGateway(tmp_path / "none")


def test_a_delivery_that_failed_is_made_good_with_the_same_sums(tmp_path: Path) -> None:
    gateway = begun(tmp_path)
    group = messages(("a", 0, 0.5), ("b", 0, 0.5), ("a", 1, 0.5))
    (lost,) = gateway.answer(group)[-1].runs
    (again,) = gateway.answer(group)[-1].runs  # the broker had not taken the answer, and delivers the readings again
    assert (lost[0], lost[1].tolist()) == (again[0], again[1].tolist()) == (0, gateway.fleet.outputs)
    late = gateway.answer(messages(("b", 1, 0.5), ("a", 2, 0.5)))[-1]
    assert [(first, sums.tolist()) for first, sums in late.runs] == [(0, gateway.fleet.outputs)]
    alone = Answer("feeder", [(1, late.runs[0][1][1:])], end=2)
    gateway.confirm(alone)
    assert gateway.health()["unconfirmed"] == 2  # period 0 is still owed
    gateway.answer(messages(("b", 2, 0.5)))
    gateway.state.close()
    after = FleetGateway(tmp_path)
    said = after.answer(messages(("a", 3, 0.5)))[0]
    assert [(first, sums.tolist()) for first, sums in said.runs] == [(0, after.fleet.outputs)]
    assert len(after.fleet.outputs) == 3
    after.confirm(said)
    assert after.health()["unconfirmed"] == 0
    assert after.answer(messages(("b", 3, 0.5)))[0].runs == []
    after.state.close()


def test_what_a_transport_keeps_sending_is_said_once_until_the_next_start(tmp_path: Path) -> None:
    gateway = begun(tmp_path)
    for period in range(3):
        answer = gateway.answer(messages(("a", period, 0.5)))[0]
        gateway.hand_over(answer)
        assert [first for first, _ in answer.runs] == [period - 1][: period > 0]
    assert gateway.health()["unconfirmed"] == 2
    gateway.state.close()
    again = FleetGateway(tmp_path)
    assert again.answer(messages(("b", 2, 0.5)))[0].runs[0][1].tolist() == again.fleet.outputs
    again.state.close()


def test_a_running_total_is_said_once_kept_until_delivered_and_goes_on_after_a_crash(tmp_path: Path) -> None:
    made = RunningTotal(steps=100, epsilon=5.0, delta=1e-5, limits=(0.0, 1.0), keep=0)
    gateway = FleetGateway(tmp_path, fleet=made, meters=NAMES, name="bill")
    for period in range(5):
        (answer,) = gateway.answer(messages(("a", period, 0.5)))
    (run,) = answer.runs
    assert (run[0], len(run[1])) == (0, 4)  # nothing was delivered: all of it is said again
    gateway.state.close()
    again = FleetGateway(tmp_path)
    assert isinstance(again.fleet, RunningTotal)
    (answer,) = again.answer(messages(("b", 4, 0.5)))
    assert answer.runs[0][1].tolist() == run[1].tolist()
    again.confirm(answer)
    assert again.health()["unconfirmed"] == 0
    (later,) = again.answer(messages(("a", 6, 0.5)))
    assert [(first, len(sums)) for first, sums in later.runs] == [(4, 2)]
    assert len(again.fleet.outputs) <= 3
    again.state.close()


def test_over_lines_the_command_sums_and_says_again(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("a house \n\nb\r\nc\n")  # one per line, whatever stands in it
    lines = b"".join(line(meter, period, 0.5) for period in range(4) for meter in ("a house", "b", "c"))
    start = ("--meters", tmp_path / "names", "--epsilon", 1, "--delta", 1e-5, "--name", "feeder")
    outputs = [
        subprocess.run(command("fleet", tmp_path / "state", *more), input=lines, capture_output=True, check=True).stdout
        for more in (start, ())
    ]
    assert outputs[0] == outputs[1]
    assert [json.loads(one)["seq"] for one in outputs[0].splitlines()] == [0, 1, 2]
    assert FleetGateway(tmp_path / "state").health()["meters"] == 3


def test_over_a_real_broker(tmp_path: Path, mosquitto: Callable[..., Mosquitto]) -> None:
    broker = mosquitto()
    gateway = begun(tmp_path / "fleet")
    service = MqttGateway(gateway, Broker(host="127.0.0.1", port=broker.port, client="fleet"))
    service.start()
    receiver = Receiver(broker.port)
    for period in range(4):
        for meter in NAMES:
            receiver.send(meter, reading(period, 0.5))
    seen = receiver.receive(3)
    assert [topic for topic, _ in seen] == ["private/feeder/power"] * 3
    assert [json.loads(payload)["kw"] for _, payload in seen] == gateway.fleet.outputs
    receiver.close()
    service.stop()


@pytest.mark.xdist_group("spark")
def test_on_spark_batches_give_files_of_sums(tmp_path: Path, spark: Any) -> None:
    gateway = begun(tmp_path / "fleet")
    source = tmp_path / "in"
    source.mkdir()
    for period in range(3):
        body = "".join(json.dumps({"meter": meter, "seq": period, "kw": 0.5}) + "\n" for meter in (*NAMES, "x"))
        (source / f"{period}.json").write_text(body)
    frame = spark.readStream.schema("meter string, seq bigint, kw double").json(str(source))
    writer = gateway.serve_spark(frame, tmp_path / "out").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(300)
    found = [json.loads(one) for file in sorted((tmp_path / "out").iterdir()) for one in file.read_text().splitlines()]
    assert [one["kw"] for one in found] == gateway.fleet.outputs
    assert len(found) == 2
