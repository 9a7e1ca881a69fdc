"""What no command may overwrite, and names and files that are strange on purpose."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gaussveil.accounting import Ledger
from gaussveil.cli.files import check_targets, read_json, reserved
from gaussveil.errors import FormatError, ParameterError, SourceError

Run = Callable[..., tuple[int, str, str]]
PROMISE = ("--epsilon", 1, "--delta", 1e-6)
ROWS = "label,a,b\n0,0.1,0.2\n1,0.3,0.1\n0,0.2,0.4\n"


@pytest.mark.parametrize(
    "name", ["l.csv", "l.csv-wal", "l.csv-shm", "l.csv-journal", "l.csv-witness", "sub/../l.csv", "soft", "hard"]
)
def test_the_ledger_is_never_a_target(tmp_path: Path, name: str) -> None:
    ledger = tmp_path / "l.csv"
    ledger.write_text("ledger", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "soft").symlink_to(ledger)
    os.link(ledger, tmp_path / "hard")
    with pytest.raises(ParameterError, match="must not be the ledger"):
        check_targets(tmp_path / name, ledger=ledger, force=True)
    with pytest.raises(ParameterError, match="must not be the ledger"):
        check_targets(tmp_path / "fine", tmp_path / name, ledger=tmp_path / "soft", force=True)


@pytest.mark.parametrize("source", ["in.sqlite", "in.sqlite#readings", "*.sqlite", "hard"])
def test_the_input_is_never_a_target(tmp_path: Path, source: str) -> None:
    target = tmp_path / "in.sqlite"
    target.write_text("data", encoding="utf-8")
    os.link(target, tmp_path / "hard")
    with pytest.raises(ParameterError, match="the input itself"):
        check_targets(target, inputs=[tmp_path / source], force=True)
    check_targets(tmp_path / "out", inputs=[tmp_path / source], force=False)


def test_a_table_in_a_folder_of_tables_is_never_a_target(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("data", encoding="utf-8")
    with pytest.raises(ParameterError, match="the input itself"):
        check_targets(tmp_path / "a.parquet", inputs=[tmp_path], force=True)


def test_outputs_need_a_folder_a_name_and_files_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="folder does not exist"):
        check_targets(tmp_path / "absent" / "out", force=True)
    with pytest.raises(SourceError, match="is a folder"):
        check_targets(tmp_path, force=True)
    with pytest.raises(ParameterError, match="same file twice"):
        check_targets(tmp_path / "out", None, tmp_path / "." / "out", force=True)
    (tmp_path / "out").touch()
    with pytest.raises(ParameterError, match="--force"):
        check_targets(tmp_path / "out", force=False)
    check_targets(tmp_path / "out", None, force=True)


def test_a_file_keeps_its_content_until_the_new_one_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old", encoding="utf-8")
    with pytest.raises(ZeroDivisionError), reserved(target, 4096) as stream:
        stream.writelines(b"%d" % (1 // number) for number in (1, 0))
    assert target.read_text(encoding="utf-8") == "old"
    with reserved(target, 4096) as stream:
        stream.write(b"new")
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


COMMANDS: dict[str, tuple[str, tuple[object, ...]]] = {
    "release": ("l.csv", ("release", "vector", "in.csv", *PROMISE, "--l2-sensitivity", 1, "--because", "public")),
    "sketch": ("l.npz", ("sketch", "in.csv", *PROMISE, "--row-norm", 1, "--n-components", 64)),
    "logistic": ("l.json", ("logistic", "in.csv", *PROMISE, "--row-norm", 1, "--regularization", 10)),
    "gp": (
        "l.json",
        (
            "gp",
            "in.csv",
            *PROMISE,
            "--points",
            "q.csv",
            "--length-scale",
            5,
            "--observation-variance",
            250,
            "--label-bound",
            0.5,
            "--n-max",
            16,
        ),
    ),
    "mixture": ("l.json", ("mixture", "in.csv", *PROMISE, "--label", "label", "--classes", "0,1", "--radius", 1)),
    "stream": ("l.json", ("stream", "design", "history.csv", *PROMISE, "--event-kw", 0.5, "--event-duration", "1h")),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "q.csv").write_text("a,b\n0,0\n", encoding="utf-8")
    lines = [f"2024-01-0{day} {hour:02}:00:00,0.5" for day in (1, 2) for hour in range(24)]
    (tmp_path / "history.csv").write_text("\n".join(["time,kw", *lines]) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_destroys_the_ledger_that_pays(run: Run, folder: Path, command: str) -> None:
    ledger, words = COMMANDS[command]
    assert run("budget", "new", ledger, "--account", "a", "--epsilon", 3, "--delta", 1e-5)[0] == 0
    code, out, err = run(*words, "--ledger", ledger, "--account", "a", "--out", ledger, "--force")
    assert (code, out) == (2, "")
    assert "must not be the ledger" in err
    assert Ledger(folder / ledger).entries("a") == []


def test_an_export_does_not_destroy_its_ledger(run: Run, folder: Path) -> None:
    assert run("budget", "new", "l", "--account", "a", "--epsilon", 3, "--delta", 1e-5)[0] == 0
    for target in ("l", "l-wal"):
        code, _, err = run("budget", "export", "l", "--account", "a", "--out", target)
        assert (code, "must not be the ledger" in err) == (2, True)
    assert run("budget", "export", "l", "--account", "a", "--out", "a.json")[0] == 0
    assert json.loads((folder / "a.json").read_text(encoding="utf-8"))
    assert Ledger(folder / "l").entries("a") == []


@pytest.mark.parametrize(
    "words",
    [
        ("curve", "pair.json", "--plot", "absent/x.svg"),
        ("audit", "pair.json", "--claim", "1,0.5", "--plot", "absent/x.svg"),
        ("audit", "pair.json", "--claim", "1,0.5", "--out", "absent/x.json"),
        ("demo", "--picture", "absent/x.svg"),
        ("budget", "export", "l", "--account", "a", "--out", "absent/x.json"),
        ("key", "new", "absent/x.key"),
    ],
    ids=str,
)
def test_a_missing_folder_is_refused_everywhere(
    run: Run, folder: Path, pair_files: dict[str, Path], words: tuple[str, ...]
) -> None:
    assert run("budget", "new", "l", "--account", "a", "--epsilon", 3, "--delta", 1e-5)[0] == 0
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert "its folder does not exist" in err
    assert not (folder / "absent").exists()


def test_a_picture_or_outcome_never_replaces_its_input(run: Run, pair_files: dict[str, Path]) -> None:
    pair = pair_files["json"]
    before = pair.read_bytes()
    code, _, err = run("audit", pair, "--claim", "1,0.5", "--out", pair)
    assert (code, "the input itself" in err) == (2, True)
    code, _, err = run("curve", pair, "--plot", pair)
    assert (code, "the input itself" in err) == (2, True)
    assert pair.read_bytes() == before


@pytest.mark.parametrize("name", ["[/x].json", "[bold].json", "[link=a]b[/link].json", ":smile:.json"])
def test_names_are_printed_as_they_are(run: Run, folder: Path, pair_files: dict[str, Path], name: str) -> None:
    pair_dict = pair_files["json"].read_text(encoding="utf-8")
    pair = folder / name.replace("/", "_")
    pair.write_text(pair_dict, encoding="utf-8")
    account = name.removesuffix(".json")
    for words in (
        ("delta", pair.name, "--epsilon", 1),
        ("check", pair.name, "--claim", "1,0.5"),
        ("epsilon", pair.name, "--delta", 1e-6),
    ):
        code, out, err = run(*words)
        assert (code, err) == (0, "")
        assert pair.name in out
    code, out, _ = run("curve", pair.name, "--points", 2)
    assert code == 0
    assert pair.stem in out
    code, out, _ = run("budget", "new", "l", "--account", account, "--epsilon", 3, "--delta", 1e-5)
    assert code == 0
    assert f"account {account}:" in out
    code, out, _ = run("budget", "show", "l", "--account", account)
    assert code == 0
    assert f"Account {account}" in out
    out_name = f"{pair.stem}.csv"
    code, out, _ = run(
        "release",
        "vector",
        "in.csv",
        *PROMISE,
        "--l2-sensitivity",
        1,
        "--because",
        "public",
        "--ledger",
        "l",
        "--account",
        account,
        "--out",
        out_name,
    )
    assert code == 0
    assert f"wrote {out_name} and {out_name}.certificate.json" in out
    assert f"account: {account};" in out


MALFORMED = {
    "deep list": "[" * 100_000 + "]" * 100_000,
    "deep object": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "long integer": '{"variance_gap": [' + "9" * 5000 + '], "mean_gap": [0]}',
    "large integer": '{"variance_gap": [' + "9" * 400 + '], "mean_gap": [0]}',
    "not text": "\udcff",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_json_ends_with_one_line(run: Run, folder: Path, name: str) -> None:
    (folder / "bad.json").write_text(MALFORMED[name], encoding="utf-8", errors="surrogateescape")
    for words in (
        ("delta", "bad.json", "--epsilon", 1),
        ("audit", "bad.json", "--data", "in.csv", "--claim", "1,0.5"),
        (
            "budget",
            "new",
            "l",
            "--account",
            "a",
            "--epsilon",
            3,
            "--delta",
            1e-5,
            "--rule",
            "planned",
            "--plan",
            "bad.json",
        ),
    ):
        code, out, err = run(*words)
        assert (code, out) == (2, "")
        assert err.startswith("error GV107: ")
        assert len(err) < 400


def test_read_json_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(FormatError, match=r"bad\.json.*nested"):
        read_json(path)
    path.write_text('{"a": [1, 2.5]}', encoding="utf-8")
    assert read_json(path) == {"a": [1, 2.5]}
