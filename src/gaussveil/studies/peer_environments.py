"""Environments for peer libraries: each in a `.venv-peers-NAME` of its own, asked in a process, JSON in and JSON out.

Peers pin each other's dependencies away, so none is installed beside us. An environment is made on first use, with uv
where it is found and pip otherwise, and reused while its stamp names the same requirements.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaussveil.errors import MissingDependencyError

SCRIPT = Path(__file__).with_name("peer_script.py")
INSTALL_SECONDS = 600
ANSWER_SECONDS = 60


@dataclass(frozen=True)
class Peer:
    """A library to compare with, and what to install for it."""

    name: str
    requirements: tuple[str, ...]

    def environment(self, folder: Path) -> Path:
        """The interpreter of the peer's environment, made if need be."""
        home = folder / f".venv-peers-{self.name}"
        python, stamp = home / "bin" / "python", home / ".installed"
        wanted = "\n".join(self.requirements)
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted and python.exists():
            return python
        for command in _installation(home, python, self.requirements):
            done = _run(command, "", INSTALL_SECONDS)
            if isinstance(done, str) or done.returncode:
                reason = done if isinstance(done, str) else last_line(done.stderr)
                raise MissingDependencyError(
                    f"the peer {self.name} cannot be installed ({reason}); "
                    f"install {' '.join(self.requirements)} into {home.name} by hand, or go without it"
                )
        stamp.write_text(wanted, encoding="utf-8")
        return python

    def ask(self, task: str, case: dict[str, Any], folder: Path) -> dict[str, Any]:
        """The peer's answer; {"failed": why} where it crashes, keeps silent or cannot be installed."""
        try:
            python = self.environment(folder)
        except MissingDependencyError as missing:
            return {"failed": str(missing)}
        question = json.dumps({"task": task, "case": case})
        done = _run([str(python), str(SCRIPT)], question, ANSWER_SECONDS)
        if isinstance(done, str):
            return {"failed": done}
        if done.returncode:
            return {"failed": last_line(done.stderr)}
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer


def _installation(home: Path, python: Path, requirements: tuple[str, ...]) -> list[list[str]]:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is not None:
        make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)]
        return [make, [uv, "pip", "install", "--quiet", "--python", str(python), *requirements]]
    make = [sys.executable, "-m", "venv", "--clear", str(home)]
    return [make, [str(python), "-m", "pip", "install", "--quiet", *requirements]]


def _run(command: list[str], text: str, seconds: int) -> subprocess.CompletedProcess[str] | str:
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer in {seconds} s"
    except OSError as error:
        return str(error.strerror or error)


def last_line(text: str) -> str:
    """What a failed process said at the end."""
    lines = text.strip().splitlines()
    return lines[-1][:160] if lines else "it said nothing"


def davies_tails(forms: list[dict[str, Any]]) -> list[float | None] | str:
    """Tails of generalised chi-squares by Davies' method (R's mgcv at 1e-12), None where it refuses; or why there are
    none.
    """
    if shutil.which("Rscript") is None:
        return "R is absent (Debian, Ubuntu: apt-get install r-cran-mgcv)"
    lines = [" ".join(repr(float(x)) for x in (f["at"] - f["m"], f["s"], *f["w"], *f["l"])) for f in forms]
    done = _run(["Rscript", "-e", _DAVIES], "\n".join(lines) + "\n", ANSWER_SECONDS)
    if isinstance(done, str) or done.returncode:
        return done if isinstance(done, str) else last_line(done.stderr)
    return [None if value in {"NA", "NaN"} else float(value) for value in done.stdout.split()]


_DAVIES = """
suppressMessages(library(mgcv))
for (line in readLines(file("stdin"))) {
  x <- as.numeric(strsplit(line, " ")[[1]])
  n <- (length(x) - 2) / 2
  tail <- tryCatch(psum.chisq(x[1], lb = x[2 + seq_len(n)], df = rep(1, n), nc = x[2 + n + seq_len(n)], sigz = x[2],
    lower.tail = FALSE, tol = 1e-12, nlim = 1e6), warning = function(w) NA, error = function(e) NA)
  cat(format(tail, digits = 17), "\\n")
}
"""
