"""What nobody foresaw ends as one sentence and a code that is no answer; what happened stands in the owner's file."""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gaussveil.cli import main
from gaussveil.cli.output import BAD_INPUT, OUR_FAULT

Run = Callable[..., tuple[int, str, str]]
SECRET = "77777.125 kW of home 12"


def test_a_mistake_of_ours_is_one_sentence_and_a_report(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken() -> None:
        raise IndexError(SECRET)

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(main, "app", broken)
    code, out, err = run("delta")
    assert (code, out) == (OUR_FAULT, "")
    assert code not in (0, 1)
    assert err.startswith("error GV900: gaussveil made a mistake (IndexError)")
    assert err.count("\n") == 1
    assert SECRET not in err
    (report,) = tmp_path.glob("gaussveil-report-*.txt")
    assert str(report) in err
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert re.search(rf"IndexError: {re.escape(SECRET)}", report.read_text())


def test_want_of_memory_is_told_as_such(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry() -> None:
        raise MemoryError

    monkeypatch.setattr(main, "app", hungry)
    code, _, err = run("query")
    assert code == OUR_FAULT
    assert "not enough memory" in err


@pytest.mark.parametrize("shape", ["(1000000, 1000000)", "(-3,)", "(2, 2"])
def test_an_archive_whose_shape_lies_is_a_bad_file(run: Run, tmp_path: Path, shape: str) -> None:
    words = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words.encode() + bytes(64)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("mean_x", "cov_x", "mean_y", "cov_y"):
            archive.writestr(f"{name}.npy", array)
    (tmp_path / "pair.npz").write_bytes(packed.getvalue())
    for command in (("delta", "--epsilon", 1), ("check", "--claim", "1,1e-6")):
        code, _, err = run(command[0], tmp_path / "pair.npz", *command[1:])
        assert code == BAD_INPUT
        assert err.startswith("error GV107")


def test_a_budget_that_no_release_can_use_is_refused_with_the_largest_that_can(run: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "home.ledger"
    code, _, err = run("budget", "new", ledger, "--account", "homes", "--epsilon", 500, "--delta", 1e-6)
    assert code == BAD_INPUT
    for delta in (5e-324, 1e-31):
        code, _, err = run("budget", "new", ledger, "--account", "a", "--epsilon", delta, "--delta", delta)
        assert code == BAD_INPUT
        assert "delta must be above 7.7e-31" in err
    code, _, err = run("budget", "new", ledger, "--account", "homes", "--epsilon", 500, "--delta", 1e-6)
    (largest,) = re.findall(r"at most ([\d.]+)", err)
    assert not ledger.exists()
    named = ("budget", "new", ledger, "--account", "homes", "--epsilon", largest, "--delta", 1e-6)
    assert run(*named)[0] == 0
