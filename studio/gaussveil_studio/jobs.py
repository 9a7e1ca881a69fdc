"""Releases under way and done, each in a folder of its own that is named by its key.

Making the folder is the moment that decides: it succeeds once, so whatever arrives under the same key finds the same
release. The work runs in a process that outlives a lost connection and a stopped server; what became of it is read from
the folder and from the ledger, where the key is the entry's id.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaussveil.accounting import Ledger
from gaussveil.errors import (
    LedgerStateError,
    LedgerUnavailableError,
    ParameterError,
    SourceError,
)
from gaussveil.files import PRIVATE, write_whole
from gaussveil_studio.settings import Settings, private_folder
from gaussveil_studio.unfinished import DONE, UNFINISHED, recover

MOST_AT_ONCE = 4  # releases; each is a process with memory of its own
PATIENCE = 3.0  # seconds for a cancelled process to tidy up
FINISHED = ("released", "refused", "cancelled", "interrupted")
CERTIFICATE = "certificate.json"
ABOUT = "about.json"
GO = b"go"
OURS_ALONE = 0o077  # an engine that sorts a large table may leave rows of it in temporary files meanwhile


@dataclass(frozen=True)
class JobStatus:
    """What is known of a release."""

    key: str
    state: str
    message: str
    stage: int
    stages: int
    account: str
    mechanism: str
    ledger_state: str | None
    done: dict[str, Any] | None
    table: str = ""
    asked_at: float = 0.0
    seconds: float | None = None
    """About how long it takes in all, where that is long."""

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.state in FINISHED


class Jobs:
    """Starts releases, watches them, and stops them where nothing was debited yet."""

    def __init__(self, settings: Settings) -> None:
        self._ledger = settings.ledger
        self._folder = private_folder(settings.state / "releases")
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._finished: dict[str, dict[str, Any]] = {}
        if settings.keep_days is not None:
            self._forget_before(time.time() - 86400 * settings.keep_days)

    def exists(self, key: str) -> bool:
        """Whether anything was started under the key."""
        return (self._folder / key).is_dir()

    def require_same(self, key: str, request: dict[str, Any]) -> None:
        """Refuse another request under a key that was used."""
        with self._lock:
            known = self.request(key).get("request")
        if known not in (None, request):
            raise _used()

    def start(
        self,
        key: str,
        request: dict[str, Any],
        address: str | None,
        table_name: str,
        ledger: Path | None = None,
    ) -> None:
        """Start a release once; the same request again changes nothing, another one under the same key is refused."""
        folder = self._folder / key
        with self._lock:
            if not folder.is_dir() and self._under_way() >= MOST_AT_ONCE:
                raise LedgerUnavailableError(
                    f"{MOST_AT_ONCE} releases are under way; nothing was debited, try again when one has finished"
                )
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                known = self.request(key).get("request")
                if known not in (None, request):
                    raise _used() from None
                return
            # An address elsewhere may hold a password, which no file of ours keeps: the process is told it, once.
            if address is None or "://" in address:
                kept = None
            else:
                kept = address
            order: dict[str, Any] = {
                "request": request,
                "address": kept,
                "table_name": table_name,
                "ledger": str(ledger or self._ledger),
            }
            order["asked_at"] = time.time()
            write_json(folder / "request.json", order)
            process = subprocess.Popen(
                [sys.executable, "-m", "gaussveil_studio.release_work", str(folder)],
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                umask=OURS_ALONE,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
            self._processes[key] = process
            # It waits for this word, so that nothing ever runs of which a later server would not know.
            write_json(
                folder / "progress.json",
                {"stage": 0, "stages": 4, "words": "starting", "pid": process.pid},
            )
            _say_go(process, address)

    def status(self, key: str) -> JobStatus:
        """Where a release stands."""
        folder = self._folder / key
        if not folder.is_dir():
            raise ParameterError("there is no release under that key")
        with self._lock:
            pass  # a release that is being started this moment is let be started
        asked = _read(folder / "request.json") or {}
        order = asked.get("request", {})
        done = _read(folder / DONE)
        progress = _read(folder / "progress.json") or {}
        alive = self._is_alive(key, progress.get("pid")) and done is None
        if done is None and not alive:
            done = _read(folder / DONE)  # it may have ended between the two looks
            if done is None and recover(folder):
                done = _read(folder / DONE)
        ledger = Path(asked.get("ledger", self._ledger))
        if ledger.exists():
            entry = Ledger(ledger).entry(key)
        else:
            entry = None
        if entry is None:
            ledger_state = None
        else:
            ledger_state = entry.state
        if done is not None:
            state = done["state"]
            message = done["message"]
        elif alive:
            state = "running"
            message = progress.get("words", "starting")
            if (folder / "cancelled").exists():
                message = (
                    "cancelling, unless the account is being debited at this moment"
                )
        elif (folder / "cancelled").exists():
            state = "cancelled"
            message = ""
        else:
            state = "interrupted"
            message = "The work was interrupted."
        if state in ("cancelled", "interrupted", "refused"):
            message = f"{message} {IN_THE_LEDGER[ledger_state]}".strip()
        return JobStatus(
            key,
            state,
            message,
            progress.get("stage", 0),
            progress.get("stages", 4),
            order.get("account", ""),
            order.get("order", {}).get("mechanism", ""),
            ledger_state,
            done,
            asked.get("table_name", ""),
            asked.get("asked_at", 0.0),
            progress.get("seconds"),
        )

    def summaries(self) -> list[dict[str, Any]]:
        """Every release in a few words, the latest first; what is finished stays as it is and is read once."""
        found = []
        for key in self.keys():
            known = self._finished.get(key)
            if known is None:
                status = self.status(key)
                order = self.request(key).get("request", {}).get("order", {})
                known = {
                    name: getattr(status, name)
                    for name in ("key", "state", "account", "mechanism", "table")
                }
                known |= {"asked_at": status.asked_at, "order": order}
                if status.finished:
                    self._finished[key] = known
            found.append(known)
        return sorted(found, key=lambda one: -one["asked_at"])

    def cancel(self, key: str) -> JobStatus:
        """Stop a release that has not been debited; a debit is never undone here without saying so."""
        now = self.status(key)
        if now.finished:
            return now
        if now.ledger_state is not None:
            raise LedgerStateError(
                "the account is debited already, so the release is finished; a debit is not undone"
            )
        folder = self._folder / key
        (folder / "cancelled").touch()
        process = self._processes.get(key)
        identifier = (
            process.pid
            if process is not None
            else (_read(folder / "progress.json") or {}).get("pid")
        )
        if identifier is not None:
            # The process stops at once, unless it is about to debit: then it ignores this and finishes.
            _signal(identifier, signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        while self._is_alive(key, identifier) and time.monotonic() < until:
            time.sleep(0.02)
        return self.status(key)

    def file(self, key: str, name: str) -> Path:
        """A file of a finished release."""
        done = self.status(key).done
        if (
            done is None
            or done["state"] != "released"
            or name not in (CERTIFICATE, done["file"])
        ):
            raise SourceError("there is no such file")
        if not (self._folder / key / name).exists():
            raise SourceError(
                "the file was removed: releases are kept for so many days only (--keep-days)"
            )
        return self._folder / key / name

    def keys(self) -> list[str]:
        """All keys, the latest first."""
        found = [
            (entry.stat().st_mtime_ns, entry.name)
            for entry in os.scandir(self._folder)
            if entry.is_dir()
        ]
        return [name for _, name in sorted(found, reverse=True)]

    def tables_in_use(self) -> set[str]:
        """Addresses of the tables that releases are reading now, those of earlier servers too."""
        running = (
            key for key in self.keys() if not (self._folder / key / DONE).exists()
        )
        alive = [key for key in running if self._is_running(key)]
        return {str(self.request(key).get("address")) for key in alive}

    def request(self, key: str) -> dict[str, Any]:
        """What was asked for under a key."""
        return _read(self._folder / key / "request.json") or {}

    def about(self, key: str) -> dict[str, str]:
        """What its owner says of a release to whoever gets it: title, purpose, approver."""
        return {
            "title": "",
            "purpose": "",
            "approver": "",
            **(_read(self._folder / key / ABOUT) or {}),
        }

    def note(self, key: str, about: dict[str, str]) -> None:
        """Keep what its owner says of a finished release; nothing of the release itself changes."""
        if self.status(key).state != "released":
            raise ParameterError("there is nothing to hand on under that key")
        write_json(self._folder / key / ABOUT, about)

    def wait(self, seconds: float) -> None:
        """Give running releases time to finish; they go on by themselves if it is not enough."""
        until = time.monotonic() + seconds
        for process in self._processes.values():
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                return

    def _forget_before(self, moment: float) -> None:
        """Remove the files of old releases; that their keys were used stays known, and the ledger knows the debits."""
        for key in self.keys():
            folder = self._folder / key
            done = self.status(key).done or {}
            finished = folder / DONE
            if finished.exists():
                last_word = finished
            else:
                last_word = folder / "request.json"
            if (
                self._is_running(key)
                or not last_word.exists()
                or last_word.stat().st_mtime >= moment
            ):
                continue
            for name in (CERTIFICATE, done.get("file"), UNFINISHED):
                if name:
                    (folder / name).unlink(missing_ok=True)

    def _is_running(self, key: str) -> bool:
        return self._is_alive(
            key, (_read(self._folder / key / "progress.json") or {}).get("pid")
        )

    def _under_way(self) -> int:
        done = (self._folder / key / DONE for key in self._processes)
        alive = (process.poll() is None for process in self._processes.values())
        return sum(runs and not written.exists() for runs, written in zip(alive, done))

    def _is_alive(self, key: str, identifier: int | None) -> bool:
        process = self._processes.get(key)
        if process is not None:
            return process.poll() is None
        if identifier is None:
            return False
        try:  # started by an earlier server; a number may have been given to somebody else meanwhile
            return key.encode() in Path(f"/proc/{identifier}/cmdline").read_bytes()
        except OSError:
            return False


def _used() -> LedgerStateError:
    return LedgerStateError("the key was used for another release; take a new one")


def _say_go(process: subprocess.Popen[bytes], address: str | None) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as line:
        line.write(GO + b"\n" + (address or "").encode())


IN_THE_LEDGER = {
    None: "Nothing was debited, so nothing was spent.",
    "void": "The debit was given back before anything was drawn; the ledger's log says so.",
    "debited": "The account is debited and stays so; nothing was drawn, so `gaussveil budget void` may give it back.",
    "drawing": "The account is debited and stays so, since the draw had begun. The result is lost.",
    "released": "The account is debited and the release was drawn, but its files were not written. The result is lost.",
}


def write_json(path: Path, value: object) -> None:
    """Write a file that is complete or absent, and durable."""
    write_whole(path, json.dumps(value, allow_nan=False), PRIVATE)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def _signal(identifier: int, number: int) -> None:
    try:
        os.kill(identifier, number)
    except ProcessLookupError:
        return
