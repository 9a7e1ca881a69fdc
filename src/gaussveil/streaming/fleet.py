"""Live sums of a fleet: messages of its meters in, one private sum per period out, over lines, MQTT, Kafka or Spark.

Or its running total, the sum of all periods so far (`RunningTotal`), by the same rules.

- A meter counts periods from 0; of two readings of one meter and period the first counts.
- A period is closed when a reading of the period `patience` later has arrived from any meter. Who has not sent by then
  counts as missing, what comes later is late: names and sequence numbers, all public, decide.
- State, readings of open periods and the sums not yet delivered are on the disk before anything is answered: after a
  crash, or a delivery that failed, the same sums are sent again, never others, from the first that nobody confirmed.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussveil import checks
from gaussveil.accounting.canonical import parse_json
from gaussveil.errors import FormatError, SourceError
from gaussveil.files import PRIVATE, write_whole
from gaussveil.mechanisms.meter_fleet import MeterFleet
from gaussveil.mechanisms.meter_stream.continued import record_format
from gaussveil.mechanisms.running_total.total import RunningTotal
from gaussveil.streaming.gateway import (
    COUNTED,
    LARGEST_SEQUENCE,
    REASONS,
    MessageGateway,
)
from gaussveil.streaming.held_state import HeldState
from gaussveil.streaming.mark import Mark
from gaussveil.streaming.meters import check_name
from gaussveil.streaming.readings import Answer, Message
from gaussveil.typing import Floats, Integers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LONGEST_JUMP = 256  # periods that one meter can make the fleet close at once
COUNTS = (*COUNTED, "periods")


class _FleetState(HeldState):
    """A folder that one process holds: the fleet's own file, and what it has not released or delivered yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise SourceError(f"another process serves the fleet in {folder}") from None

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)
        if self.mark is not None:
            self.mark.close()


class FleetGateway(MessageGateway):
    """A fleet behind the gateway's face, so that lines, MQTT and metrics serve it as they serve meters."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        fleet: MeterFleet | RunningTotal | None = None,
        meters: Sequence[str] = (),
        name: str = "fleet",
        patience: int = 1,
        longest_jump: int = LONGEST_JUMP,
    ) -> None:
        """Begin with a `fleet`, its `meters` and a `name`, or without them go on from the folder."""
        # Who has sent nothing counts as missing, and a sum goes out without him; rows are known once there is a fleet.
        super().__init__(
            {},
            _FleetState(Path(folder)),
            longest_jump=longest_jump,
            missing="substitute",
        )
        self._file = self.state.folder / "fleet.json"
        self._mark = self.state.folder.with_name(self.state.folder.name + ".started")
        self._saves = 0
        self._open: dict[int, Floats] = {}
        self._newest = -1
        try:
            if not self._file.exists():
                self._begin(fleet, meters, name, patience)
            elif fleet is not None:
                raise SourceError(
                    f"{folder} holds a fleet: leave the new one out, or name another folder."
                )
            else:
                self._load()
        except BaseException:
            self.state.close()
            raise
        self._handed_over = self._confirmed

    def _begin(
        self,
        fleet: MeterFleet | RunningTotal | None,
        meters: Sequence[str],
        name: str,
        patience: int,
    ) -> None:
        if fleet is None or not meters or len(set(meters)) != len(meters):
            raise SourceError(
                "the folder holds no fleet yet: give one, and its meters, each name once."
            )
        for text in (*meters, name):
            check_name(text)
        self.name, self.patience = name, checks.whole("patience", patience)
        self.fleet: MeterFleet | RunningTotal = fleet
        self.state.identity, self._confirmed = os.urandom(16).hex(), 0
        fleet.hold(0)
        self.state.mark = Mark.claim(
            self._mark, self.state.identity, (0, 0), anew=False, fresh=True
        )
        self._rows = {meter: row for row, meter in enumerate(meters)}
        fleet.open()
        self._save()

    def answer(self, messages: Sequence[Message]) -> list[Answer]:
        """The sums of periods that these messages close stand in the answer to the last of them."""
        if not messages:
            return []
        examined = [self._examined(message) for message in messages]
        rows, sequences, values = (
            np.concatenate([part[k] for part in examined]) for k in range(3)
        )
        answers = [Answer(self.name) for _ in messages]
        runs = self.take(rows.astype(np.int64), sequences.astype(np.int64), values)
        if runs is not None:
            answers[-1].runs.append(runs)
            answers[-1].end = runs[0] + len(runs[1])
        return answers

    def take(
        self, rows: Integers, sequences: Integers, values: Floats
    ) -> tuple[int, Floats] | None:
        """Count readings of meters by their row; the first period and the sums of those that were closed, if any."""
        if self.broken:
            raise SourceError(
                "an earlier group could not be kept. Restart: the fleet continues from its folder."
            )
        index = self.fleet.index
        near = (sequences >= index) & (
            sequences <= max(self._newest, index) + self.longest_jump
        )
        near &= sequences < self.fleet.design_.sample_limit
        self.counters["late"] += int(np.count_nonzero(sequences < index))
        self.counters["malformed_jump"] += int(
            np.count_nonzero(~near & (sequences >= index))
        )
        for period in np.unique(sequences[near]).tolist():
            chosen = np.flatnonzero(near & (sequences == period))[
                ::-1
            ]  # of two the first is written last
            table = self._open.setdefault(period, np.full(len(self._rows), np.nan))
            fresh = np.isnan(table[rows[chosen]])
            self.counters["repeated"] += int(np.count_nonzero(~fresh))
            table[rows[chosen[fresh]]] = values[chosen[fresh]]
            self._newest = max(self._newest, period)
        self.broken = True  # until it is on the disk
        first = max(
            self._confirmed, self._handed_over
        )  # what nobody has taken yet is said again
        closing = range(index, self._newest - self.patience + 1)
        if closing:
            self._close(closing)
        if rows.size:
            self._save()
        self.broken = False
        sums = self.fleet.released(first)
        if sums.size:
            return (first, sums)
        return None

    def _close(self, periods: range) -> None:
        none = np.full(len(self._rows), np.nan)
        for period in periods:  # one by one: a long gap would not fit into memory
            table = self._open.pop(period, none)
            missing = int(np.count_nonzero(np.isnan(table)))
            self.counters.update(
                accepted=table.size - missing, substituted=missing, periods=1
            )
            self.fleet.push_many(table[None, :])

    def serve_spark(self, readings: DataFrame, target: str | os.PathLike[str]) -> Any:
        """A writer for `start()`: micro-batches of (meter, seq, kw) in, one JSON file of sums per batch out.

        A batch that Spark runs again finds its readings counted, and its file as it was.
        """
        place = Path(target)
        place.mkdir(parents=True, exist_ok=True)

        def batch(frame: DataFrame, number: int) -> None:
            found: Any = (
                frame.select("meter", "seq", "kw")
                .where("meter IS NOT NULL AND seq IS NOT NULL")
                .toPandas()
            )
            rows = found["meter"].map(self._rows)
            present = rows.notna().to_numpy()
            self.counters["unknown"] += int(np.count_nonzero(~present))
            taken = (
                rows[present].to_numpy(np.int64),
                found["seq"][present].to_numpy(np.int64),
            )
            runs = self.take(*taken, found["kw"][present].to_numpy(np.float64))
            if runs is not None:
                lines = [
                    {"fleet": self.name, "seq": runs[0] + k, "kw": kw}
                    for k, kw in enumerate(runs[1].tolist())
                ]
                body = "".join(json.dumps(line) + "\n" for line in lines)
                write_whole(place / f"{runs[0]:012d}.json", body)
                self._confirm(runs[0], runs[0] + len(lines))

        return readings.writeStream.foreachBatch(batch)

    def confirm(self, answer: Answer) -> None:
        """Its sums were delivered."""
        if answer.end:
            self.counters["delivered"] += 1
            self._confirm(answer.runs[0][0], answer.end)

    def _confirm(self, first: int, end: int) -> None:
        if first <= self._confirmed:  # never past a sum that was not delivered
            self._confirmed = max(self._confirmed, end)
            self.fleet.hold(
                self._confirmed
            )  # on the disk with the next group: sent twice at worst

    def hand_over(self, answer: Answer) -> None:
        """Its sums are not said again before the next start."""
        self._handed_over = max(self._handed_over, answer.end)

    def forget_before(self, last: int) -> None:
        """Released sums are kept: any window may be asked for."""

    def health(self) -> dict[str, int]:
        """What happened so far, in counts; the owner's alone, as they tell how many readings were missing."""
        reasons = {
            f"malformed_{reason}": self.counters[f"malformed_{reason}"]
            for reason in REASONS
        }
        return {
            "meters": len(self._rows),
            **{name: self.counters[name] for name in COUNTS},
            "malformed": sum(reasons.values()),
            **reasons,
            "unconfirmed": self.fleet.released(self._confirmed).size,
            "readings_left": self.fleet.design_.sample_limit - self.fleet.index,
        }

    def _examined(self, message: Message) -> tuple[Integers, Integers, Floats]:
        row = self._rows.get(message.meter)
        if row is None:
            self.counters["unknown"] += 1
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        count = len(message.values)
        if not 0 <= message.sequence < LARGEST_SEQUENCE:
            self.refuse("range")
            count = 0
        numbers = int(bool(count)) * message.sequence + np.arange(count)
        return (
            np.full(count, row),
            numbers,
            np.asarray(message.values[:count], np.float64),
        )

    def _save(self) -> None:
        self._saves += 1
        record = {
            "saves": self._saves,
            "name": self.name,
            "identity": self.state.identity,
            "patience": self.patience,
            "meters": list(self._rows),
            "newest": self._newest,
            "confirmed": self._confirmed,
            "open": {
                str(period): base64.b64encode(table.tobytes()).decode()
                for period, table in self._open.items()
            },
            "fleet": self.fleet.to_record(),
        }
        write_whole(self._file, json.dumps(record, allow_nan=False), PRIVATE)
        if self.state.mark is not None:
            self.state.mark.note((self._saves, 0))

    def _load(self) -> None:
        try:
            record: Any = parse_json(
                self._file.read_text(encoding="utf-8"), "the fleet"
            )
            kind = (
                RunningTotal
                if record["fleet"].get("format") == record_format(RunningTotal)
                else MeterFleet
            )
            self.fleet = kind.from_record(record["fleet"])
            self.name, self.patience = str(record["name"]), int(record["patience"])
            self.state.identity, self._confirmed = (
                str(record["identity"]),
                int(record["confirmed"]),
            )
            self.fleet.hold(self._confirmed)
            self._rows = {str(meter): row for row, meter in enumerate(record["meters"])}
            self._newest, self._saves = (
                int(record["newest"]),
                int(record.get("saves", 0)),
            )
            for period, table in record["open"].items():
                self._open[int(period)] = (
                    np.frombuffer(base64.b64decode(table))
                    .reshape(len(self._rows))
                    .copy()
                )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{self._file} is not the state of a fleet: {type(error).__name__}"
            ) from error
        fresh = self._saves == 0  # of an earlier version, which made no mark
        self.state.mark = Mark.claim(
            self._mark, self.state.identity, (self._saves, 0), anew=False, fresh=fresh
        )
