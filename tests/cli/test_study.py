"""Every study runs at its smallest size through the command; its verdict has the expected lines; results are kept."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gaussveil_studies.catalogue import names, study_named
from gaussveil_studies.errata.records import records
from gaussveil_studies.study import Verdict

Run = Callable[..., tuple[int, str, str]]

# Lines that must be there, those of the papers with the verdict of their record.
JUDGED = {
    "ndis": {
        "lemma-2",
        "lemma-3",
        "theorem-4-2",
        "figure-2-least",
        "figure-5-variance",
        "n2-delta",
        "n3-ptr",
        "n5-rank",
    },
    "class": {"figure-2", "figure-4-order", "k1-one-sided", "k2-surrogate", "k4-algorithm-1", "k5-forecast"},
    "gmm": {"figure-1", "figure-5-gmm", "figure-9-gmm", "g-a-wishart", "g-b-composition", "g-c-noise", "g-d-mass"},
    "spectral": {"figure-3-time", "figure-3-spectra", "s1-calibration", "s4b-stream", "s6-hours", "s6-decibels"},
    "peers": set(),
    "simulator": set(),
}
AGREES = {"peers": {"calibration-dp-accounting"}, "simulator": {"simulator.mean"}}
PRESENT = {
    "ndis": {"theorem-5-2", "n4-ridge", "breast-cancer-score", "linnerud-score"},
    "class": {"figure-3", "figure-4", "figure-4-white", "figure-2-order"},
    "gmm": {
        "figure-2-gmm",
        "figure-3-gmm",
        "figure-4-gmm",
        "figure-7-gmm",
        "figure-7-uneven",
        "figure-10",
        "example-3",
    },
    "spectral": {"table-2-spdp", "table-3-week", "section-4-c", "section-4-users"},
    "peers": {"calibration-diffprivlib", "accountant-prv-accountant", "forms-gx2", "forms-davies"},
    "simulator": set(),
}
NO_DATA = {"class": "synthetic", "gmm": "iris", "spectral": "calibration"}  # steps that need none


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of what studies computed, so that the steps without data are computed once."""
    return tmp_path_factory.mktemp("caches")


# Those that work on real data, ask peers or take long: their other steps are in every run, as are the tests of the
# studies' parts.
LONG = pytest.mark.full


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONG if name in (*NO_DATA, "ndis", "peers") else ()) for name in names()]
)
def test_a_study_runs_is_kept_and_ends_in_its_verdict(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, real_data: Path, caches: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # no environments of peers there: only what is installed beside us answers
    arguments = ("study", name, "--tiny", "--data", real_data, "--cache", caches / name)
    code, out, err = run(*arguments, "--out", tmp_path / "one")
    assert (code, err) == (0, "")
    assert "Verdict" in out
    folder = tmp_path / "one" / f"study-{name}"
    with (folder / "verdict.csv").open(encoding="utf-8") as stream:
        verdict = {line["key"]: line for line in csv.DictReader(stream)}
    assert {*JUDGED[name], *AGREES.get(name, ()), *PRESENT[name]} <= set(verdict)
    for key in JUDGED[name]:
        assert verdict[key]["verdict"] == records()[key].verdict, verdict[key]
    for key in AGREES.get(name, ()):
        assert verdict[key]["verdict"] == Verdict.AGREES, verdict[key]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert len(list(folder.glob("*.svg"))) == page.count("<figure>")

    # What is kept is what is shown: a word changed in the cache appears, and all else is the same to the byte.
    kept = sorted((caches / name).glob(f"{name}-*.json"))[0]
    part = json.loads(kept.read_text(encoding="utf-8"))
    old, part["title"] = part["title"], "Read from the cache"
    kept.write_text(json.dumps(part), encoding="utf-8")
    assert run(*arguments, "--out", tmp_path / "two")[0] == 0
    for file in folder.iterdir():
        again = (tmp_path / "two" / folder.name / file.name).read_text(encoding="utf-8")
        assert again.replace("Read from the cache", _escaped(old)) == file.read_text(encoding="utf-8")
        assert ("Read from the cache" in again) == (file.name == "report.html")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("'", "&#39;")


@pytest.mark.parametrize("name", [pytest.param("gmm", marks=LONG), "class", "spectral"])
def test_without_its_data_a_study_says_what_is_missing_and_shows_the_rest(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, caches: Path
) -> None:
    monkeypatch.delenv("GAUSSVEIL_DATA", raising=False)
    kept = ("--no-cache",) if name == "class" else ("--cache", caches / name)
    code, out, err = run("study", name, "--tiny", *kept, "--out", tmp_path, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["missing"]
    assert any(table.startswith(NO_DATA[name]) for table in answer["tables"])
    assert all(missing in Path(answer["report"]).read_text(encoding="utf-8") for missing in answer["missing"])


def test_the_list_names_every_study(run: Run) -> None:
    code, out, _ = run("study", "list")
    assert code == 0
    assert all(name in out for name in ("ndis", "class", "gmm", "spectral", "peers", "simulator"))
    listed = json.loads(run("study", "--json")[1])["studies"]
    assert [study["name"] for study in listed] == names()
    assert [study["data"] for study in listed] == [study_named(name).files for name in names()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ndsi",), "there is no study 'ndsi'"),
        (("ndis", "--full", "--tiny"), "exclude each other"),
        (("ndis", "--data", "nowhere"), "is no folder"),
        (("ndis", "--resume"), "--resume continues a run with --full"),
        (("ndis", "--steps", "figurs"), "--steps must be among"),
    ],
)
def test_mistakes_are_named(run: Run, arguments: tuple[str, ...], words: str) -> None:
    code, _, err = run("study", *arguments)
    assert code == 2
    assert words in err


def test_a_study_can_be_run_in_part(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("study", "gmm", "--tiny", "--no-cache", "--steps", "refutations", "--out", tmp_path, "--json")
    answer = json.loads(out)
    assert (code, answer["steps"]) == (0, ["refutations"])
    assert list(answer["tables"]) == ["refutations-wishart"]


def test_without_its_package_the_command_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "gaussveil_studies.command", None)  # what Python itself uses for "cannot be found"
    code, out, err = run("study", "ndis", "--full", "--out", tmp_path)
    assert (code != 0, out) == (True, "")
    assert err.endswith("study needs gaussveil_studies: pip install ./studies in a checkout of gaussveil\n")
