"""What somebody meets on the first day: files as spreadsheets write them, a name forgotten, a key pressed to stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gaussveil
from gaussveil.accounting import Ledger
from gaussveil.errors import ParameterError
from gaussveil.mechanisms import MeterStream, MixtureModel, PrivateGaussianMixture
from gaussveil.streaming import Meter, write_meters

Run = Callable[..., tuple[int, str, str]]
PROGRAM = str(Path(sys.executable).parent / "gaussveil")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("a;b\r\n1,5;2,25;3\r\n4;5\r\n", "line 2: expected 2 numbers. Got 3"),
        ("a;b\n1.234,5;2\n", "every cell must be a number"),
        ("a,b\n1,2\n,4\n", "line 3: every cell must be a number"),
        ("time,kw\n2024-01-01 00:00,1\n", "leave columns of text and times out"),
        ("a,b\n", "holds no numbers"),
        ("", "holds no numbers"),
    ],
)
def test_tables_that_are_not_numbers_say_what_to_do_and_spend_nothing(
    run: Run, tmp_path: Path, body: str, words: str
) -> None:
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text(body, encoding="utf-8", newline="")
    ledger = Ledger.create(tmp_path / "l")
    ledger.open_account("homes", epsilon=3, delta=1e-5)
    code, told, error = run(
        "release",
        "vector",
        table,
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "--l2-sensitivity",
        1,
        "--because",
        "public",
        "--out",
        out,
        "--ledger",
        tmp_path / "l",
        "--account",
        "homes",
    )
    assert (code, told) == (2, "")
    assert error.count("\n") == 1
    assert words in error
    assert ledger.entries("homes") == []
    assert not out.exists()


def test_a_spreadsheets_mark_and_line_ends_are_no_numbers(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbfnorth,south\r\n1.5,2.5\r\n")
    words = (
        "--epsilon",
        1,
        "--delta",
        1e-6,
        "--l2-sensitivity",
        1,
        "--because",
        "public",
        "--out",
        tmp_path / "out.csv",
    )
    assert run("release", "vector", tmp_path / "in.csv", *words)[0] == 0
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("north,south\n")


def test_without_an_account_all_are_listed(run: Run, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l")
    for name in ("homes", "meters [b]"):
        ledger.open_account(name, epsilon=3, delta=1e-5)
    code, out, _ = run("budget", "show", tmp_path / "l")
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == ["homes", "meters [b]"]
    code, out, _ = run("budget", "show", tmp_path / "l", "--json")
    assert [one["account"] for one in json.loads(out)["accounts"]] == ["homes", "meters [b]"]


def test_files_that_hold_certificates_are_verified(run: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 1))
    model = PrivateGaussianMixture(epsilon=1.0, delta=1e-6, radius=3.0, classes=1).fit(rows).model_
    model.write(tmp_path / "model.json")
    stream = MeterStream.design(sample_period="1h", epsilon=1.0, delta=1e-5, event=(0.5, "1h"))
    certificate = stream.open()
    write_meters([Meter(name, stream.design_, certificate) for name in ("m1", "m2")], tmp_path / "meters.json")

    code, out, error = run("verify", tmp_path / "model.json", "--json")
    assert (code, error) == (0, "")
    assert json.loads(out)["private"]
    code, out, _ = run("verify", tmp_path / "meters.json")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("Meter")] == ["Meter m1", "Meter m2"]
    code, out, _ = run("verify", tmp_path / "meters.json", "--json")
    assert [one["meter"] for one in json.loads(out)["certificates"]] == ["m1", "m2"]

    forged = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    forged["certificate"]["delta"] = 1e-9
    (tmp_path / "forged.json").write_text(json.dumps(forged), encoding="utf-8")
    assert run("verify", tmp_path / "forged.json")[0] != 0
    del forged["certificate"]["delta"]
    (tmp_path / "forged.json").write_text(json.dumps(forged | {"certificate": None}), encoding="utf-8")
    code, _, error = run("verify", tmp_path / "forged.json")
    assert code == 2
    assert "without a certificate" in error


def test_control_c_stops_in_one_line(tmp_path: Path) -> None:
    command = [PROGRAM, "demo", "--homes", "8", "--out", "town"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a suite in the background ignores
    ) as process:
        assert process.stdout is not None
        assert "8 homes" in process.stdout.readline()
        while not (tmp_path / "town" / "town.ledger").exists():  # then it is at work, whatever the machine is at
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "stopped; what was debited by then counts as spent: gaussveil budget show LEDGER\n"


def test_the_shell_completes_commands_and_options() -> None:
    for words, place, expected in (("gaussveil bud", 1, "budget"), ("gaussveil budget show --acc", 3, "--account")):
        environment = {
            **os.environ,
            "_GAUSSVEIL_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(place),
        }
        done = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
        assert done.stdout.split() == [expected]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("query", "in.csv"), "--epsilon and --delta and --unit must be given: see"),
        (("mixture", "in.csv", "--epsilon", 1), "--delta and --out and --radius must be given"),
        (("regress", "in.csv", "--columns", "a", "--columns", "b"), "--columns must be given once, several values"),
        (
            ("pca", "in.csv", "--epsilon", 1, "--epsilon=2", "--between", "a:0,1", "--between", "b:0,1"),
            "--epsilon must be",
        ),
        (("x.txt",), "x.txt is no command; of a table, gaussveil schema x.txt tells"),
    ],
)
def test_all_that_is_missing_is_told_in_one_line(run: Run, words: tuple[object, ...], told: str) -> None:
    code, out, error = run(*words)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert told in error


GERMAN = "Zähler;Zeit;Leistung\r\n" + "".join(
    f"{home};{day:02d}.03.2024 {hour:02d}:00;{1 + (home + hour) % 5},5\r\n"
    for home in range(3)
    for day in range(1, 29)
    for hour in range(24)
)
PROJECT = """
unit = "Zähler"
household = "Zähler"
time = "Zeit"
power = "Leistung"
in = "kW"
ledger = "town.ledger"
account = "winter"
"""


def test_one_file_and_one_project_serve_every_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_bytes(GERMAN.encode("cp1252"))
    (tmp_path / "gaussveil.toml").write_text(PROJECT, encoding="utf-8")
    ledger = Ledger.create(tmp_path / "town.ledger")
    ledger.open_account("winter", epsilon=9, delta=1e-5)
    promise = ("--epsilon", 1, "--delta", 1e-6)
    told = "in.csv: read as separated by semicolons, decimal commas, letters in windows-1252, 'Zeit' as %d.%m.%Y %H:%M"
    question = ("query", "in.csv", "--by", "hour(Zeit)", "--mean", "Leistung", "--between", "0,9", *promise)
    code, _, error = run(*question, "--out", "day.csv")
    assert (code, error.count(told)) == (0, 1)
    design = ("stream", "design", "in.csv", *promise, "--event-kw", 0.5, "--event-duration", "1h", "--dry-run")
    code, out, error = run(*design, "--out", "meters.json")
    assert (code, error.count(told)) == (0, 1), error
    assert out.startswith("3 meters")
    code, _, error = run(*question, "--decimal", ".", "--out", "other.csv")
    assert code == 2
    assert "'Leistung'" in error
    assert len(ledger.entries("winter")) == 1
    (tmp_path / "gaussveil.toml").write_text('ledgr = "x"\n', encoding="utf-8")
    code, _, error = run(*question)
    assert (code, "Got ledgr" in error) == (2, True)


def test_every_column_that_is_not_there_is_named_with_its_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(GERMAN.encode())
    words = ("stream", "design", tmp_path / "in.csv", "--epsilon", 1, "--delta", 1e-6, "--out", tmp_path / "m.json")
    code, _, error = run(*words, "--household", "meter", "--power", "kW")
    assert code == 2
    assert (
        "no column for --household meter and --time time and --power kW; its columns are Zähler, Zeit, Leistung"
        in error
    )


PROMISED = ("--epsilon", "1", "--delta", "1e-6", "--out", "out.json")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("regress", "in.csv", "--target", "Leistng", "--columns", "zähler,Tag", *PROMISED),
            "no column for --target Leistng (Leistung?) and --columns zähler (Zähler?) and --columns Tag; its columns",
        ),
        (("logistic", "in.csv", "--unit", "home", *PROMISED), "--unit home and --target label; its columns are Zähler"),
        (("regress", "in.csv", "--target", "Leistung", "--unit", "Zähler", *PROMISED), "--rows-per-unit must be given"),
        (("mixture", "in.csv", "--label", "Zeit", "--radius", "1", *PROMISED), "--classes must be given: labels are"),
        (("logistic", "in.csv", "--target", "Zeit", *PROMISED), "--classes must be given: the two public labels"),
        (("sketch", "in.csv", "--row-norm", "1", *PROMISED), "--row-bound must be given with --n-components auto"),
        (("forecast", "none.csv", "--home", "1", *PROMISED), "none.csv: cannot be read (no such file): check the path"),
    ],
)
def test_mistakes_are_answered_before_anything_heavy_is_loaded(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    (tmp_path / "in.csv").write_bytes(GERMAN.encode("cp1252"))
    script = (
        "import sys\nfrom gaussveil.cli.main import main\ntry: main()\nfinally: print(*{'duckdb', 'numpy', 'scipy', "
        "'sklearn', 'flint', 'pyarrow'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=300
    )
    assert (done.returncode, done.stdout.strip()) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_times_with_a_zone_say_whose_clock_it_is(run: Run, tmp_path: Path) -> None:
    lines = [f"m{k},2024-05-01T{k % 24:02d}:30:00+02:00" for k in range(100)]
    (tmp_path / "zoned.csv").write_text("\n".join(["meter,time", *lines, ""]), encoding="utf-8")
    words = ("query", tmp_path / "zoned.csv", "--unit", "meter", "--by", "hour(time)", "--count")
    words = (*words, "--epsilon", 1, "--delta", 1e-6, "--force", "--out", tmp_path / "out.csv")
    assert "'time' on the clock of UTC (to change: --time-zone)" in run(*words)[2]
    assert "clock" not in run(*words, "--time-zone", "Europe/Zurich")[2]


def test_an_edited_epsilon_does_not_verify(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("north,south\n1.5,2.5\n", encoding="utf-8")
    words = ("--epsilon", 1, "--delta", 1e-6, "--l2-sensitivity", 1, "--because", "public")
    assert run("release", "vector", tmp_path / "in.csv", *words, "--out", tmp_path / "out.csv")[0] == 0
    note = tmp_path / "out.csv.certificate.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"epsilon": 0.5}))
    code, _, error = run("verify", note)
    assert (code, "does not verify: epsilon was altered" in error) == (1, True)


def test_a_reader_that_has_read_enough_is_no_error(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 1))
    PrivateGaussianMixture(epsilon=1.0, delta=1e-6, radius=3.0, classes=1).fit(rows).model_.write(tmp_path / "m.json")
    command = f"{PROGRAM} sample {tmp_path / 'm.json'} -n 100000 | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "x0,class\n"


@pytest.mark.parametrize(
    "words",
    [
        ("regress", "--target", "kw"),
        ("logistic", "--target", "warm", "--classes", "0,1", "--row-norm", 3, "--regularization", 10),
        ("pca",),
    ],
)
def test_columns_are_named_where_a_table_holds_text(run: Run, tmp_path: Path, words: tuple[object, ...]) -> None:
    draw = np.random.default_rng(3).normal(size=(300, 2))
    rows = [f"{i},{'NS'[i % 2]},{a},{a + b},{int(b > 0)}" for i, (a, b) in enumerate(draw)]
    (tmp_path / "in.csv").write_text("\n".join(["home,region,temp,kw,warm", *rows]))
    promise = ("--epsilon", 1, "--delta", 1e-6, "--out", tmp_path / "out.json")
    pinned = f"gaussveil schema {tmp_path / 'in.csv'} --out gaussveil.toml"
    code, _, error = run(words[0], tmp_path / "in.csv", *words[1:], *promise)
    assert code == 2
    assert "'region' must hold numbers" in error
    assert "--columns" in error
    code, _, error = run(words[0], tmp_path / "in.csv", *words[1:], "--columns", "temp,kw", *promise)
    assert (code, error.split("\n")[1:]) == (0, [f"this form was read off the file; to pin it: {pinned}", ""])
    assert "region" not in (tmp_path / "out.json").read_text()


def test_rows_are_classified_by_a_released_model(run: Run, tmp_path: Path) -> None:
    values, codes = np.array([[-3.0, 0], [-3, 1], [-4, 0], [3, 0], [3, 1], [4, 0]]), np.array([0, 0, 0, 1, 1, 1])
    MixtureModel.fitted(values, codes, ["low", "high"]).write(tmp_path / "model.json")
    (tmp_path / "rows.csv").write_text("id,x0,x1\n1,-3.1,0.2\n2,3.3,\n3,,\n")
    code, told, _ = run("classify", tmp_path / "model.json", tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    assert (code, "3 rows" in told) == (0, True)
    rows = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert [row[2].strip('"') for row in rows][:2] == ["low", "high"]
    (tmp_path / "rows.csv").write_text("id,x0\n1,-3.1\n")
    code, _, error = run("classify", tmp_path / "model.json", tmp_path / "rows.csv", "--out", tmp_path / "o.csv")
    assert (code, "'x1' is missing" in error) == (2, True)


def test_a_table_is_no_certificate_and_the_answer_names_its_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("kw\n1\n")
    for words in (("verify", tmp_path / "a.csv"), ("key", "sign", tmp_path / "a.csv", "--key", tmp_path / "k")):
        code, _, error = run(*words)
        assert (code, error.count("\n")) == (2, 1)
        assert "is a table" in error
        assert "a.csv.certificate.json" in error
    assert "none.csv: is no file" in run("verify", tmp_path / "none.csv")[2]


def test_frames_are_not_opened_but_given_as_they_are() -> None:
    frame: Any = pd.DataFrame({"kw": [123.5]})
    with pytest.raises(ParameterError, match=r"Got DataFrame: give .* to the mechanism itself") as refused:
        gaussveil.open(frame)
    assert "123" not in str(refused.value)


def test_steps_are_read_as_people_write_them(run: Run) -> None:
    words = ("accountant", "--noise-multiplier", 1, "--delta", 1e-5, "--json", "--steps")
    written = [json.loads(run(*words, steps)[1]) for steps in ("100", "1e2")]
    assert written[0] == written[1]
    assert written[0]["steps"] == 100
    for steps in ("1.5", "0", "inf", "many"):
        code, _, error = run(*words, steps)
        assert code == 2
        assert f"must be a whole number from 1 on, such as 10000 or 1e4. Got {steps}." in error


def test_of_a_file_of_names_alone_nobody_learns_that_nobody_is_in_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("home,kw\n")
    promise = ("--epsilon", 1, "--delta", 1e-6, "--unit", "home", "--force", "--out", tmp_path / "out.csv")
    for asked in (("--mean", "kw", "--between", "0,5"), ("--count",)):
        assert run("query", tmp_path / "in.csv", *promise, *asked)[0] == 0


def test_settings_of_a_forecast_are_refused_before_its_readings(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("household,time,kw\na,no time,1\n")
    words = ("forecast", tmp_path / "in.csv", "--home", "a", "--epsilon", 1, "--out", tmp_path / "out.csv")
    assert "horizon must be a time such as '3h'" in run(*words, "--delta", 1e-5, "--horizon", "3x")[2]
    assert "exactly one of delta and accuracy" in run(*words)[2]
    assert "horizon" not in run(*words, "--delta", 1e-5, "--horizon", "3h")[2]


@pytest.mark.parametrize(("asked", "fewest"), [(("--mean", "kw"), 189), (("--quantile", "kw:0.5"), 207)])
def test_learnt_bounds_say_how_many_units_they_need_whatever_the_table_holds(
    run: Run, tmp_path: Path, asked: tuple[str, ...], fewest: int
) -> None:
    told = []
    for homes in (3, 500):
        rows = "".join(f"h{home},1.5\n" for home in range(homes))
        (tmp_path / "in.csv").write_text(f"home,kw\n{rows}")
        words = ("--unit", "home", *asked, "--bounds", "auto", "--epsilon", 1, "--delta", 1e-6, "--force")
        told += [run("query", tmp_path / "in.csv", *words, *out)[1] for out in ((), ("--out", tmp_path / "out.csv"))]
    assert all(f"trust them where there are at least {fewest} units" in one for one in told)
    stated = ("--unit", "home", "--mean", "kw", "--between", "0,5", "--epsilon", 1, "--delta", 1e-6)
    assert "learnt" not in run("query", tmp_path / "in.csv", *stated)[1]


def test_a_form_that_was_kept_is_used_and_said_to_be_pinned(run: Run, tmp_path: Path) -> None:
    """And a table that its file does not know is refused where somebody asked for it."""
    lines = [f"{k % 60:03d};{1 + k % 28:02d}/03/2024 12:00;{k % 7},5" for k in range(600)]
    lines += [f"{k % 60:03d};03/03/2024 13:00;-999" for k in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["home;time;kw", *lines, ""]))
    code, told, _ = run("schema", tmp_path / "t.csv", "--unit", "home")
    assert code == 0
    assert "found by a look at the first cells" in told
    assert 'missing = ["-999"]' in told
    assert "time is text, since days may be months" in told
    form = ("--time-format", "%d/%m/%Y %H:%M", "--out", tmp_path / "form.toml")
    assert run("schema", tmp_path / "t.csv", "--unit", "home", *form)[0] == 0
    asked = ("--unit", "home", "--by", "hour(time)", "--count", "--epsilon", 1, "--delta", 1e-6)
    words = ("query", tmp_path / "t.csv", *asked, "--out", tmp_path / "out.csv", "--force")
    code, _, error = run(*words)
    assert code == 2
    assert "say how they are written (time_format, --time-format)" in error
    for how in (("--schema", tmp_path / "form.toml"), ("--types", "time=time", "--time-format", "%d/%m/%Y %H:%M")):
        code, _, error = run(*words, *how)
        assert code == 0, error
        reason = json.loads((tmp_path / "out.csv.certificate.json").read_text())["guarantee"]["reason"]
        pinned = "--schema" in how
        assert ("this form was read off the file; to pin it: gaussveil schema" in error) != pinned
        assert ("the form was read off the file" in reason) != pinned
    (tmp_path / "gaussveil.toml").write_text('[form."other.csv"]\nseparator = ";"\n')
    code, _, error = run(*words, "--schema", tmp_path / "gaussveil.toml")
    assert code == 2
    assert "holds no form of 't.csv'" in error
