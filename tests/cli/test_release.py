"""`gaussveil release vector` as a user types it, end to end with `budget` and `verify`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.accounting import Certificate, Ledger

Run = Callable[..., tuple[int, str, str]]
PROMISE = ("--epsilon", 1, "--delta", 1e-6, "--l2-sensitivity", 1, "--because", "a home adds 1 to one of them")
SECRET = "31337.531829103917"  # no noise begins with all its digits by chance


@pytest.fixture
def ledger(run: Run, tmp_path: Path) -> Path:
    path = tmp_path / "home.ledger"
    assert run("budget", "new", path, "--account", "homes", "--epsilon", 3, "--delta", 1e-5)[0] == 0
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """The same table in every format."""
    files = {ending: tmp_path / f"in.{ending}" for ending in ("csv", "npy", "parquet")}
    files["csv"].write_text(f"load,price\n{SECRET},2\n3,4\n5,6\n", encoding="utf-8")
    table = np.array([[float(SECRET), 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.save(files["npy"], table)
    pq.write_table(pa.table({"load": table[:, 0], "price": [2, 4, 6]}), files["parquet"])
    return files


def release(run: Run, source: Path, out: Path, *more: object) -> dict[str, Any]:
    code, text, err = run("release", "vector", source, *PROMISE, "--out", out, *more, "--json")
    assert (code, err) == (0, "")
    answer: dict[str, Any] = json.loads(text)
    return answer


def test_budget_release_verify_from_end_to_end(
    run: Run, run_outside: Run, ledger: Path, inputs: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    answer = release(run, inputs["csv"], out, "--ledger", ledger, "--account", "homes")
    assert answer["account"] == "homes"
    assert answer["standard_deviation"] == pytest.approx(4.2247, abs=1e-3)
    assert [(entry.id, entry.state) for entry in Ledger(ledger).entries("homes")] == [
        (answer["release_id"], "released")
    ]
    certificate = Certificate.read(tmp_path / "out.csv.certificate.json")
    assert certificate.adjacency.unit == "record"
    code, text, _ = run_outside("verify", out.name + ".certificate.json", "--json")
    assert code == 0
    assert json.loads(text)["private"] is True
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "load,price"
    released = np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]])
    assert released.shape == (3, 2)
    steps = released / answer["grid"]
    assert np.array_equal(steps, np.rint(steps)), "text keeps every digit, so the grid survives"
    assert np.max(np.abs(released - np.load(inputs["npy"]))) < 14 * answer["standard_deviation"]
    assert SECRET not in out.read_text(encoding="utf-8") + certificate.to_json()


@pytest.mark.parametrize("ending", ["csv", "npy", "parquet"])
@pytest.mark.parametrize("source", ["csv", "npy", "parquet"])
def test_every_format_in_and_out(run: Run, inputs: dict[str, Path], tmp_path: Path, source: str, ending: str) -> None:
    out = tmp_path / f"out.{ending}"
    release(run, inputs[source], out)
    if ending == "npy":
        assert np.load(out).shape == (3, 2)
    elif ending == "parquet":
        names = ["x0", "x1"] if source == "npy" else ["load", "price"]
        assert pq.read_table(out).column_names == names
    else:
        assert len(out.read_text(encoding="utf-8").splitlines()) == (3 if source == "npy" else 4)


def test_vectors_and_larger_arrays(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "in.npy"
    np.save(source, np.zeros((2, 3, 4), dtype=np.float32))
    release(run, source, tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").shape == (2, 3, 4)
    np.save(source, np.zeros(5))
    release(run, source, tmp_path / "out.csv")
    assert len((tmp_path / "out.csv").read_text(encoding="utf-8").split()) == 5


def test_nothing_is_overwritten_without_force(run: Run, inputs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine", encoding="utf-8")
    code, _, err = run("release", "vector", inputs["csv"], *PROMISE, "--out", out)
    assert code == 2
    assert "--force" in err
    assert out.read_text(encoding="utf-8") == "mine"
    release(run, inputs["csv"], out, "--force")
    out.unlink()
    code, _, err = run("release", "vector", inputs["csv"], *PROMISE, "--out", out)
    assert (code, "certificate.json" in err) == (2, True)
    code, _, err = run("release", "vector", inputs["csv"], *PROMISE, "--out", inputs["csv"], "--force")
    assert (code, "the input itself" in err) == (2, True)


CONTENTS = {
    "missing.csv": "1,2\n3,\n",
    "ragged.csv": "1,2\n3\n",
    "text.csv": f"1,2\nsecret,{SECRET}\n",
    "damaged-first.csv": f"{SECRET}kWh,2\n3,4\n",
    "not-available.csv": "NA\n3\n",
    "nan.csv": "1,nan\n",
    "empty.csv": "",
    "names-only.csv": "a,b\n",
    "plain.npy": "no array",
    "plain.parquet": "no table",
    "in.txt": "1\n",
    "huge.csv": "1e300\n",
}


@pytest.mark.parametrize("name", [*CONTENTS, "absent.csv"])
def test_bad_input_files_end_with_one_line_and_nothing_spent(run: Run, ledger: Path, tmp_path: Path, name: str) -> None:
    source = tmp_path / name
    if name in CONTENTS:
        source.write_text(CONTENTS[name], encoding="utf-8")
    before = set(tmp_path.iterdir())
    code, out, err = run(
        "release", "vector", source, *PROMISE, "--ledger", ledger, "--account", "homes", "--out", tmp_path / "out.csv"
    )
    assert (code, out) == (2, "")
    assert err.startswith("error GV")
    assert err.count("\n") == 1
    assert SECRET not in err
    assert "secret" not in err
    assert Ledger(ledger).entries("homes") == []
    assert {path for path in tmp_path.iterdir() if ".ledger" not in path.name} == {
        path for path in before if ".ledger" not in path.name
    }


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"--out": "absent/out.csv"}, 2),
        ({"--out": "in.npy/out.csv"}, 2),
        ({"--out": "."}, 2),
        ({"--out": "out.txt"}, 2),
        ({"--epsilon": -1}, 2),
        ({"--delta": 2}, 2),
        ({"--l2-sensitivity": 0}, 2),
        ({"--grid": 0.3}, 2),
        ({"--epsilon": 9}, 4),
        ({"--account": "strangers"}, 5),
        ({"--ledger": "in.npy"}, 5),
        ({"--ledger": "absent.ledger"}, 5),
    ],
    ids=str,
)
def test_bad_options_end_before_anything_is_spent(
    run: Run,
    ledger: Path,
    inputs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {
        "--epsilon": 1,
        "--delta": 1e-6,
        "--l2-sensitivity": 1,
        "--because": "a home adds 1 to one of them",
        "--ledger": ledger.name,
        "--account": "homes",
        "--out": "out.csv",
        **changes,
    }
    before = {path.name for path in tmp_path.iterdir() if ".ledger" not in path.name}
    ended, out, err = run("release", "vector", "in.csv", *(word for pair in options.items() for word in pair))
    assert (ended, out) == (code, "")
    assert err.startswith("error GV")
    assert Ledger(ledger).entries("homes") == []
    assert {path.name for path in tmp_path.iterdir() if ".ledger" not in path.name} == before


def test_a_disk_without_room_is_noticed_before_the_debit(
    run: Run, ledger: Path, inputs: dict[str, Path], tmp_path: Path
) -> None:
    import resource

    # A limit on file sizes stands in for a full disk: reserving the room is what fails.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    source = tmp_path / "long.npy"
    np.save(source, np.zeros(200_000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, hard))
    try:
        code, _, err = run(
            "release",
            "vector",
            source,
            *PROMISE,
            "--ledger",
            ledger,
            "--account",
            "homes",
            "--out",
            tmp_path / "out.npy",
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2
    assert "no room" in err
    assert Ledger(ledger).entries("homes") == []
    assert not list(tmp_path.glob("*out.npy*"))


def test_ledger_and_account_go_together(run: Run, ledger: Path, inputs: dict[str, Path], tmp_path: Path) -> None:
    code, _, err = run("release", "vector", inputs["csv"], *PROMISE, "--ledger", ledger, "--out", tmp_path / "o.csv")
    assert (code, "together" in err) == (2, True)
    assert release(run, inputs["csv"], tmp_path / "o.csv")["account"] == "not recorded"


def test_tables_of_rows_are_sent_to_query_and_the_bound_needs_a_reason(run: Run, ledger: Path, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "rows.csv", np.ones((1001, 2)), delimiter=",", header="meter,kw", comments="")
    paying = ("--ledger", ledger, "--account", "homes", "--out", tmp_path / "out.csv")
    code, _, error = run("release", "vector", tmp_path / "rows.csv", *PROMISE, *paying)
    assert (code, "gaussveil query" in error) == (2, True)
    code, _, error = run("release", "vector", tmp_path / "rows.csv", *PROMISE[:-1], " ", *paying, "--rows", 2000)
    assert (code, "--because" in error) == (2, True)
    code, _, error = run("release", "vector", tmp_path / "rows.csv", *PROMISE, "--order", "meter,kw", *paying)
    assert code == 2
    assert Ledger(ledger).entries("homes") == []
    code, _, error = run("release", "vector", tmp_path / "rows.csv", *PROMISE, *paying, "--rows", 2000)
    assert code == 0, error
    said = (tmp_path / "out.csv.certificate.json").read_text(encoding="utf-8")
    assert "the owner says where that bound comes from: a home adds 1 to one of them" in said


def test_spectra_and_trajectories_of_one_column(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home.csv"
    home.write_text("kw\n" + "0.3\n1.2\n0.4\n2.1\n" * 16, encoding="utf-8")
    promise = ("--epsilon", 1, "--delta", 1e-5, "--json")
    more = ("--period-minutes", 5, "--points", 8, "--correlation", 0.5, "--smoothing", 0.8, 0.39)
    for kind, ball, options, rows in (("spectrum", 0.1, more, 9), ("trajectory", 3.0, (), 64)):
        out = tmp_path / f"{kind}.csv"
        code, text, err = run("release", kind, home, "--l2-ball", ball, "--out", out, *options, *promise)
        assert (code, err) == (0, "")
        assert json.loads(text)["out"] == str(out)
        assert np.loadtxt(out, skiprows=1).shape == (rows,)
        assert Certificate.read(tmp_path / f"{kind}.csv.certificate.json").adjacency.kind == "l2-ball"
        assert run("verify", f"{out}.certificate.json")[0] == 0


def test_one_row_is_released_among_all(run: Run, tmp_path: Path) -> None:
    (tmp_path / "curves.csv").write_text("home,h1,h2\nb,1.0,0.5\na,0.0,0.0\nc,2.0,1.0\n")
    asked = ("release", "label", tmp_path / "curves.csv", "--label", "home", "--of", "b", "--epsilon", 1)
    code, _, error = run(*asked, "--delta", 1e-6, "--accuracy", 0.1, "--out", tmp_path / "out.csv")
    assert (code, "--delta must be at least" in error) == (2, True)
    code, told, error = run(*asked, "--delta", 0.3, "--out", tmp_path / "out.csv")
    assert (code, error.split("\n")[0]) == (0, "curves.csv: read as home text, h1 numbers, h2 numbers")
    assert "variance kept" in told
    assert (tmp_path / "out.csv").read_text().startswith("h1,h2\n")
    assert run("verify", tmp_path / "out.csv.certificate.json")[0] == 0
    assert "b" not in json.loads((tmp_path / "out.csv.certificate.json").read_text())["parameters"]
