"""Processes forked from one that has loaded what most of them need: each pays for its own work alone.

Tests that use them belong to the xdist group "warm processes", so that one worker has one such server.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .fixed_draws import run_named

ROOT = Path(__file__).parents[1]
LOADED = [
    "duckdb",
    "flint",
    "matplotlib.pyplot",
    "pandas",
    "pyarrow.parquet",
    "scipy.stats",
    "sklearn.cluster",
    "typer",
    "gaussveil.cli.main",
    "gaussveil.mechanisms.forecast",
    "gaussveil.mechanisms.gp",
    "gaussveil.mechanisms.meter_stream.stream",
    "gaussveil.mechanisms.mixture.estimator",
    "gaussveil.mechanisms.random_projection.private_sketch",
    "gaussveil.mechanisms.regression.linear",
    "gaussveil.mechanisms.table.release",
    "gaussveil.audit.white_box",
    "gaussveil.accounting.certificates.verification",
    "gaussveil.accounting.ledger.ledger",
    "gaussveil.accounting.exchange.events",
    "gaussveil.engines.duckdb",
    "gaussveil.spectrum.subsampled.profile",
    "gaussveil.report.figures",
    "gaussveil_town.households",
]


class WarmProcesses:
    """Functions in processes of their own that begin with those libraries loaded."""

    def __init__(self, word: str) -> None:
        """With the word that `--draws` was given."""
        os.environ["MPLBACKEND"] = "Agg"
        self._word = word
        self._server = multiprocessing.get_context("forkserver")
        self._server.set_forkserver_preload(LOADED)

    def run(self, name: str, said: Path, function: Callable[..., None], *arguments: object) -> tuple[int | None, str]:
        """The exit code, negative after a signal, and what was printed, to the file `said`; draws follow the name."""
        said.touch()
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(ROOT / "scripts")
            patch.syspath_prepend(ROOT)  # where a new process finds the tests
            process = self._server.Process(
                target=run_named, args=(self._word, name, written_down, said, function, *arguments)
            )
            process.start()
        process.join(600)
        process.kill()
        return process.exitcode, said.read_text(encoding="utf-8")


def written_down(said: Path, function: Callable[..., None], *arguments: object) -> None:
    """Call what a process was started for; what it prints, a traceback too, goes to a file."""
    with said.open("w", encoding="utf-8", buffering=1) as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    function(*arguments)
    sys.stdout.flush()
