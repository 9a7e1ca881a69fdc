"""The embedded transport, as a process that is killed."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gaussveil.errors import AssumptionError, ParameterError, SourceError
from gaussveil.streaming import Gateway, Meter, write_meters
from gaussveil.streaming.gateway import Missing
from gaussveil.streaming.service import open_gateway
from gaussveil.streaming.stdio import serve_lines

from .test_state import no_file_may_grow

RUN = "import sys; from gaussveil.cli.stream import stream_app; stream_app(sys.argv[1:])"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", RUN, *map(str, arguments)]


def line(meter: str, sequence: object, value: object) -> bytes:
    return json.dumps({"meter": meter, "seq": sequence, "kw": value}).encode() + b"\n"


@pytest.fixture
def meters_file(meters: tuple[Meter, ...], tmp_path: Path) -> Path:
    return write_meters(meters, tmp_path / "meter.json")


def run(path: Path, *lines: bytes, missing: Missing = "refuse") -> tuple[list[bytes], dict[str, int]]:
    """The same service inside this process, from a file."""
    gateway, target = open_gateway(path, missing=missing), io.BytesIO()
    with tempfile.TemporaryFile() as source:
        source.write(b"".join(lines))
        source.seek(0)
        serve_lines(gateway, source, target)
    gateway.state.close()
    return target.getvalue().splitlines(), gateway.health()


def test_after_kill_nine_redelivered_readings_are_answered_to_the_byte(meters_file: Path) -> None:
    readings = [line(name, k, 0.5 + k / 7) for k in range(30) for name in ("white", "coloured", "billing")]
    process = subprocess.Popen(
        command("run", meters_file), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(readings))
    process.stdin.flush()
    before = [process.stdout.readline() for _ in range(len(readings) + 1)]  # one register as well
    process.send_signal(signal.SIGKILL)
    process.wait()
    after, health = run(meters_file, *readings)
    assert sorted(after) == sorted(row.rstrip(b"\n") for row in before)
    assert health["repeated"] == len(readings)
    assert health["accepted"] == 0
    changed, health = run(meters_file, line("white", 3, 9.75), line("white", 30, 1.0))
    assert [json.loads(row)["seq"] for row in changed] == [3, 30]
    assert changed[0] in after


def test_bad_lines_are_counted_and_the_rest_is_answered(meters_file: Path) -> None:
    bad = [
        b"{",
        b"\xff\xfe\n",
        b"[1]\n",
        b'{"meter": "white"}\n',
        b'{"meter": 3, "seq": 0}\n',
        line("white", "0", 1.0),
        line("white", True, 1.0),
    ]
    bad[0] = b"{\n"
    bad += [
        b'{"meter": "white", "seq": 0, "kw": ' + b"[" * 3000 + b"]" * 3000 + b"}\n",
        b'{"meter": "white", "seq": 0, "kw": 1, "x": "' + b"y" * 30_000 + b'"}\n',
        b'{"meter": "white", "seq": 0, "kw": 1' + b"0" * 5000 + b"}\n",
    ]
    odd = [line("white", 0, "much"), line("white", 1, None), line("stranger", 0, 1.0), line("white", 2, 10**400)]
    rows, health = run(meters_file, *bad, *odd, b"\n", line("white", 3, 1.0)[:-1], missing="substitute")
    assert [json.loads(row)["seq"] for row in rows] == [0, 1, 2, 3]
    assert (health["malformed"], health["unknown"], health["substituted"], health["accepted"]) == (10, 1, 2, 2)


def test_a_reading_that_is_no_number_is_refused_unless_the_owner_chose_a_substitute(
    meters_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sent = [
        line("billing", 0, 0.5),
        line("billing", 1, "0,4"),
        line("billing", 1, None),
        line("billing", 1, 0.4),
        b"{\n",
    ]
    rows, health = run(meters_file, *sent)
    assert [json.loads(row)["seq"] for row in rows] == [0, 1]
    assert (health["accepted"], health["substituted"], health["malformed_value"]) == (2, 0, 2)
    told = [record.getMessage() for record in caplog.records if "is refused" in record.getMessage()]
    assert [words.split()[1] for words in told] == ["2", "3", "5"]
    assert "no decimal comma" in told[0]
    assert "JSON object" in told[2]
    assert "0,4" not in "".join(told)


def test_lost_state_is_noticed_and_needs_a_reset(meters_file: Path) -> None:
    run(meters_file, line("white", 0, 1.0))
    for file in sorted((meters_file.parent / "meter.state").iterdir()):
        file.unlink()
    with pytest.raises(AssumptionError, match="were started before"):
        open_gateway(meters_file)
    with pytest.raises(ParameterError, match="0 or later"):
        open_gateway(meters_file, reset_from=-1)
    open_gateway(meters_file, reset_from=5).state.close()
    rows, health = run(meters_file, line("white", 4, 1.0), line("white", 5, 1.0))
    assert [json.loads(row)["seq"] for row in rows] == [5]
    assert health["late"] == 1


def test_two_gateways_cannot_serve_the_same_meters(meters_file: Path) -> None:
    gateway = open_gateway(meters_file)
    with pytest.raises(SourceError, match="another gateway"):
        open_gateway(meters_file)
    gateway.state.close()


def test_a_reader_that_leaves_early_loses_nothing(meters_file: Path) -> None:
    """`gaussveil stream run m.json < readings | head -100`, then again: every reading is answered, as before."""
    readings = b"".join(line("white", k, k / 7) for k in range(3000))
    first = subprocess.run(
        ["bash", "-c", 'exec "$@" | head -100', "-", *command("run", meters_file)],
        input=readings,
        capture_output=True,
        check=True,
    ).stdout.splitlines()
    assert len(first) == 100
    again, health = run(meters_file, readings)
    assert again[:100] == first
    assert [json.loads(row)["seq"] for row in again] == list(range(3000))
    assert health["late"] == 0
    assert run(meters_file, readings)[0] == again


def test_old_answers_go_where_somebody_says_so(meters_file: Path) -> None:
    readings = b"".join(line("white", k, k / 7) for k in range(3000))
    done = subprocess.run(
        command("run", meters_file, "--keep", "1000"), input=readings, capture_output=True, check=True
    )
    again, health = run(meters_file, readings)
    assert again == done.stdout.splitlines()[-1000:]
    assert health["late"] == 2000


def test_a_first_start_that_fails_does_not_hinder_the_next(meters_file: Path) -> None:
    with no_file_may_grow(10), pytest.raises(OSError):
        open_gateway(meters_file)
    assert run(meters_file, line("white", 0, 1.0))[1]["accepted"] == 1


def test_of_two_first_starts_with_two_folders_one_wins(meters_file: Path) -> None:
    """Both at once, ten times: two states would answer one reading with two noises."""
    for attempt in range(10):
        (meters_file.parent / f"{attempt}").mkdir()
        file = meters_file.parent / f"{attempt}" / "meter.json"
        file.write_bytes(meters_file.read_bytes())
        begin = threading.Barrier(2)

        def start(folder: Path, file: Path = file, begin: threading.Barrier = begin) -> Gateway | None:
            begin.wait()
            try:
                return open_gateway(file, folder)
            except (SourceError, AssumptionError):  # at the mark, or just after it
                return None

        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(start, [file.parent / "a", file.parent / "b"]))
        winners = [gateway for gateway in made if gateway is not None]
        assert len(winners) == 1
        winners[0].state.close()
        other = file.parent / ("b" if winners[0].state.folder.name == "a" else "a")
        with pytest.raises((SourceError, AssumptionError)):
            open_gateway(file, other)
        assert not other.exists()


def test_a_state_of_other_meters_with_the_same_file_name_is_refused(meters_file: Path, tmp_path: Path) -> None:
    run(meters_file, line("white", 0, 1.0))
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / "meter.json"
    copy.write_bytes(meters_file.read_bytes())
    open_gateway(copy).state.close()
    with pytest.raises(SourceError, match="another state folder"):
        open_gateway(meters_file, tmp_path / "copy" / "meter.state")
    mark = meters_file.with_name("meter.json.started")
    mark.write_bytes(mark.read_bytes()[:-1] + b"\xe4")  # no text any more
    with pytest.raises(SourceError, match="another state folder"):
        open_gateway(meters_file)
