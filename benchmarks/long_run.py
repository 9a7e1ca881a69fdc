"""A day of the gateway and 10^5 releases of one account, in pieces that can be stopped and continued.

    python benchmarks/long_run.py releases --folder long [--count 100000]
    python benchmarks/long_run.py gateway --folder long [--hours 24]
    python benchmarks/long_run.py keep --folder long

Each piece (500 releases, a simulated hour) is noted in the folder when it is done, and whoever starts again goes on
there; `keep` writes what was done into docs/benchmarks. Neither belongs to `make bench`: they take an hour.

Releases are whole transactions with commits of their own; what counts is the processor time of one, which must not
grow beside that of an account just opened, measured in the same minute: so it does not matter who else is at work. An
hour of the gateway is 5,000 meters with a reading a second, 18 million of them, as fast as they go, through a real
Mosquitto that keeps its sessions. Between the hours gateway, broker or both ("the host") are killed with -9 and
started again; all readings are answered, and memory and disk of the gateway must stay where they are.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import run
from bench_debit import DRAFT, all_seconds
from bench_gateway import GATEWAY, cpu_seconds, resident
from bench_stream import designed
from gaussveil.accounting import Account, Ledger
from gaussveil.spectrum import GaussianPair
from gaussveil.streaming import Meter, write_meters
from gaussveil.streaming.messages import encode_batch
from mqtt_load import LoadClient

PIECE = 500  # releases
BESIDE, WARM = 100, 20  # releases of an account just opened, after those that fill its caches
METERS, BATCH, SECONDS_PER_HOUR = 5000, 100, 3600
AT_ONCE = 10_000  # messages of an hour that are sent together
KILLED = ("gateway", "broker", "host")
SLOPE = 0.1  # of a release's processor time in doubly logarithmic scales, at most
GROWTH = 1.2  # of the most memory in the second half of the hours, over the first half
MOST_DISK = 100  # MiB: a log of 64 and two states of 5,000 meters


def noted(folder: Path, name: str) -> list[dict[str, Any]]:
    """What was done so far."""
    file = folder / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def note(folder: Path, name: str, done: dict[str, Any]) -> None:
    """Say that a piece is done."""
    with (folder / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(done) + "\n")
    print(done, flush=True)


def releases(folder: Path, count: int) -> None:
    """Release until there are so many on the account."""
    book = folder / "long.ledger"
    if not book.exists():
        Ledger.create(book).open_account("long", epsilon=40.0, delta=0.1)
    account = Account(book, "long")
    made = sum(piece["releases"] for piece in noted(folder, "releases"))
    while made < count:
        size = min(PIECE, count - made)
        begun = time.perf_counter()
        times = all_seconds(account, [(GaussianPair.mean_shift(1e-3), DRAFT)] * size)
        made += size
        fresh = fresh_seconds(folder)
        about = {"releases": size, "of": made, "median": float(np.median(times)), "mean": float(np.mean(times))}
        wall = {"wall": time.perf_counter() - begun, "load": os.getloadavg()[0], "bytes": book.stat().st_size}
        note(folder, "releases", about | {"worst": max(times), "fresh": fresh} | wall)


def fresh_seconds(folder: Path) -> float:
    """Processor time of a release of an account just opened, at this moment on this machine."""
    book = folder / "fresh.ledger"
    for file in folder.glob("fresh.ledger*"):
        file.unlink()
    Ledger.create(book).open_account("fresh", epsilon=40.0, delta=0.1)
    asked = [(GaussianPair.mean_shift(1e-3), DRAFT)] * (WARM + BESIDE)
    return float(np.median(all_seconds(Account(book, "fresh"), asked)[WARM:]))


def gateway(folder: Path, hours: int) -> None:
    """Serve hour after hour, something killed before each but the first."""
    meters = folder / "meters.json"
    if not meters.exists():
        stream = designed()
        write_meters([Meter(f"m{k}", stream.design_, stream.open()) for k in range(METERS)], meters)
    for hour in range(len(noted(folder, "gateway")), hours):
        with serving(folder) as (port, broker, served):
            before, begun = cpu_seconds(served.pid), time.perf_counter()
            answered = an_hour(port, hour)
            about = {
                "hour": hour,
                "answered": answered,
                "wall": time.perf_counter() - begun,
                "cpu": cpu_seconds(served.pid) - before,
                "memory": resident(served.pid),
                "disk": sum(file.stat().st_size for file in meters.with_suffix(".state").iterdir()) / 2**20,
                "killed": KILLED[hour % len(KILLED)],
                "load": os.getloadavg()[0],
            }
            for process in {"gateway": (served,), "broker": (broker,), "host": (served, broker)}[about["killed"]]:
                process.send_signal(signal.SIGKILL)
        note(folder, "gateway", about)


def an_hour(port: int, hour: int) -> int:
    """Send an hour of readings, batch by batch over all meters, and wait for every answer."""
    load = LoadClient(port, "private/#", window=1000)
    values, per_meter = np.ones(BATCH), SECONDS_PER_HOUR // BATCH
    numbers = [(meter, hour * SECONDS_PER_HOUR + BATCH * part) for part in range(per_meter) for meter in range(METERS)]
    for start in range(0, len(numbers), AT_ONCE):
        here = numbers[start : start + AT_ONCE]
        sent = [(f"meters/m{meter}/power", encode_batch(first, values)) for meter, first in here]
        load.seconds(sent, awaited={topic.replace("meters", "private").encode() + body[:12] for topic, body in sent})
    load.close()
    return len(numbers) * BATCH


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """A broker that keeps its sessions in the folder, and the gateway on it; what still runs at the end is ended."""
    port = 18_830 + os.getpid() % 1000
    (folder / "conf").write_text(
        f"user root\nlistener {port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
        f"persistence_location {folder.absolute()}/\nautosave_on_changes true\nautosave_interval 100000\n"
        "max_inflight_messages 1000\nmax_queued_messages 0\nset_tcp_nodelay true\n"
    )
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    words = ["run", str(folder / "meters.json"), "--mqtt", f"127.0.0.1:{port}", "--metrics", "0"]
    broker = subprocess.Popen([program, "-c", str(folder / "conf")], stderr=subprocess.DEVNULL)
    time.sleep(1)
    served = subprocess.Popen([sys.executable, "-c", GATEWAY, *words], stderr=subprocess.PIPE)
    try:
        assert served.stderr is not None
        served.stderr.readline()
        yield port, broker, served
    finally:
        for process in (served, broker):
            process.terminate()
            process.wait(60)


def release_rows(folder: Path) -> list[dict[str, Any]]:
    """The releases that were made, as benchmarks are kept."""
    found = []
    if len(pieces := noted(folder, "releases")) > 2:
        made = np.array([piece["of"] for piece in pieces], dtype=float)
        beside = [piece["median"] / piece["fresh"] for piece in pieces]
        slope = float(np.polyfit(np.log(made), np.log(beside), 1)[0])
        name = f"slope of a release's processor time over {pieces[-1]['of']:,} releases of one account"
        some = pieces[:: max(1, len(pieces) // 8)]
        shown = [f"{piece['of']:,}: {1e3 * piece['median']:.3g} ({1e3 * piece['fresh']:.3g}) ms" for piece in some]
        loads = [piece["load"] for piece in pieces]
        words = f"median of {PIECE} (of an account just opened): {', '.join(shown)}"
        words += f"; load average {min(loads):.1f} to {max(loads):.1f}"
        found.append(row(name, slope, SLOPE, words))
    return found


def gateway_rows(folder: Path) -> list[dict[str, Any]]:
    """The hours that the gateway served, as benchmarks are kept."""
    found = []
    if len(hours := noted(folder, "gateway")) > 7:
        many = f"{len(hours)} simulated hours at 5,000 readings a second"
        answered = sum(hour["answered"] for hour in hours)
        killed = ", ".join(f"{name} {sum(hour['killed'] == name for hour in hours)} times" for name in KILLED)
        rate = answered / sum(hour["cpu"] for hour in hours)
        words = f"{answered:,} readings, all answered; killed with -9: {killed}; {rate:.3g} by CPU second"
        memory, disk = ([hour[what] for hour in hours] for what in ("memory", "disk"))
        half = len(hours) // 2
        found += [
            row(
                f"most memory, {many}: second half over first",
                max(memory[half:]) / max(memory[:half]),
                GROWTH,
                f"{words}; MiB: {listed(memory)}",
            ),
            row(
                f"most disk, {many}, MiB",
                max(disk),
                MOST_DISK,
                f"a log grows to 64 MiB before it is folded, beside two states; MiB: {listed(disk)}",
            ),
        ]
    return found


def listed(sizes: list[float]) -> str:
    """Sizes hour by hour."""
    return ", ".join(f"{size:.0f}" for size in sizes)


def row(name: str, ours: float, most: float, words: str) -> dict[str, Any]:
    """One line of the results."""
    return {"name": name, "ours": ours, "peer": most, "ratio": None, "goal": None, "met": ours <= most, "note": words}


def main() -> None:
    """Do what the words ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("releases", "gateway", "keep"))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--hours", type=int, default=24)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.what == "releases":
        releases(asked.folder, asked.count)
    elif asked.what == "gateway":
        gateway(asked.folder, asked.hours)
    else:
        measured = {"commit": run.commit(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
        both = {"long-releases": release_rows(asked.folder), "long-gateway": gateway_rows(asked.folder)}
        for name, found in both.items():
            run.show(name, found)
        run.keep({name: {**measured, "rows": found} for name, found in both.items() if found}, run.RESULTS)


if __name__ == "__main__":
    main()
