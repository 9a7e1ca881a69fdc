"""Environments for peer libraries, asked in a process of their own, JSON in and JSON out.

Peers pin each other's dependencies away, so none is installed beside us for their sake. A peer is looked for in
`.venv-peers-NAME`, in the common `.venv-peers` of `make .venv-peers/.installed` and in our own environment; `install`
makes the first, with uv where it is found and pip otherwise. A peer that is nowhere is absent, and said to be.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaussveil.errors import MissingDependencyError
from gaussveil_studies.peers.script import ANSWER_BYTES, ANSWER_SECONDS

SCRIPT = Path(__file__).with_name("script.py")
INSTALL_SECONDS = 600
WAITING_SECONDS = 900  # by the clock: a busy machine is not the peer's fault
ABSENT = "absent (gaussveil study peers --install-peers)"


@dataclass(frozen=True)
class Peer:
    """A library to compare with, and what to install for it."""

    name: str
    requirements: tuple[str, ...]

    def interpreter(self, folder: Path) -> Path | None:
        """An interpreter that has the peer, or None."""
        own = folder / f".venv-peers-{self.name}"
        if _stamped(own) == "\n".join(self.requirements):
            return own / "bin" / "python"
        for home in (folder / ".venv-peers", Path(sys.prefix)):
            if _holds(home, self.name):
                return home / "bin" / "python"
        return None

    def install(self, folder: Path) -> Path:
        """The interpreter of an environment that has the peer, made if there is none."""
        found = self.interpreter(folder)
        if found is not None:
            return found
        home = folder / f".venv-peers-{self.name}"
        python = home / "bin" / "python"
        for command in _installation(home, python, self.requirements):
            done = _run(command, "", INSTALL_SECONDS)
            if isinstance(done, str) or done.returncode:
                if isinstance(done, str):
                    reason = done
                else:
                    reason = last_line(done.stderr)
                raise MissingDependencyError(
                    f"the peer {self.name} cannot be installed ({reason}); "
                    f"install {' '.join(self.requirements)} into {home.name} by hand, or go without it"
                )
        (home / ".installed").write_text("\n".join(self.requirements), encoding="utf-8")
        return python

    def ask(self, task: str, case: dict[str, Any], folder: Path) -> dict[str, Any]:
        """The peer's answer; {"failed": why} where it is absent, crashes or keeps silent."""
        python = self.interpreter(folder)
        if python is None:
            return {"failed": ABSENT, "absent": True}
        question = json.dumps({"task": task, "case": case})
        done = _run([str(python), str(SCRIPT)], question, WAITING_SECONDS)
        if isinstance(done, str):
            return {"failed": done}
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return {"failed": f"more than {ANSWER_SECONDS} s of CPU time"}
        if done.returncode and "MemoryError" in done.stderr:
            return {"failed": f"more than {ANSWER_BYTES >> 30} GiB of memory"}
        if done.returncode:
            return {"failed": last_line(done.stderr)}
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer


def _stamped(home: Path) -> str:
    stamp = home / ".installed"
    if stamp.exists():
        return stamp.read_text(encoding="utf-8")
    return ""


def _holds(home: Path, name: str) -> bool:
    wanted = f"{name.replace('-', '_')}-*.dist-info"
    return (home / "bin" / "python").exists() and any(
        home.glob(f"lib/python*/site-packages/{wanted}")
    )


def _installation(
    home: Path, python: Path, requirements: tuple[str, ...]
) -> list[list[str]]:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is not None:
        make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)]
        return [
            make,
            [uv, "pip", "install", "--quiet", "--python", str(python), *requirements],
        ]
    make = [sys.executable, "-m", "venv", "--clear", str(home)]
    return [make, [str(python), "-m", "pip", "install", "--quiet", *requirements]]


def _run(
    command: list[str], text: str, seconds: int
) -> subprocess.CompletedProcess[str] | str:
    try:
        return subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"more than {seconds} s"
    except OSError as error:
        return str(error.strerror or error)


def last_line(text: str) -> str:
    """What a failed process said at the end."""
    lines = text.strip().splitlines()
    if lines:
        return lines[-1][:160]
    return "it said nothing"


def davies_tails(forms: list[dict[str, Any]]) -> dict[str, Any]:
    """Tails of generalised chi-squares by Davies' method (R's mgcv at 1e-12), None where it refuses, with its CPU
    seconds; {"failed": why} where there are none.
    """
    if shutil.which("Rscript") is None:
        return {
            "failed": "R is absent (Debian, Ubuntu: apt-get install r-cran-mgcv)",
            "absent": True,
        }
    lines = [
        " ".join(repr(float(x)) for x in (f["at"] - f["m"], f["s"], *f["w"], *f["l"]))
        for f in forms
    ]
    done = _run(["Rscript", "-e", _DAVIES], "\n".join(lines) + "\n", WAITING_SECONDS)
    if isinstance(done, str) or done.returncode:
        return {"failed": done if isinstance(done, str) else last_line(done.stderr)}
    *tails, seconds, version = done.stdout.split()
    # Where it fails without a warning mgcv answers 2: no probability, so no answer.
    values = [
        float(tail) if tail not in {"NA", "NaN"} and 0.0 <= float(tail) <= 1.0 else None
        for tail in tails
    ]
    return {"tails": values, "seconds": float(seconds), "version": version}


_DAVIES = """
suppressMessages(library(mgcv))
forms <- lapply(strsplit(readLines(file("stdin")), " "), as.numeric)
tail_of <- function(x) {
  n <- (length(x) - 2) / 2
  if (n == 0) return(NA)
  tryCatch(psum.chisq(x[1], lb = x[2 + seq_len(n)], df = rep(1, n), nc = x[2 + n + seq_len(n)], sigz = x[2],
    lower.tail = FALSE, tol = 1e-12, nlim = 1e6), warning = function(w) NA, error = function(e) NA)
}
spent <- system.time(tails <- lapply(forms, tail_of))
for (tail in tails) cat(format(tail, digits = 17), "\\n")
cat(sum(spent[c("user.self", "sys.self")]), as.character(packageVersion("mgcv")), "\\n")
"""
