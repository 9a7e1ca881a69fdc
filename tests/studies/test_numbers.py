"""README and docs hold the figures of docs/numbers.json, and the script that writes them does what it says."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from gaussveil_studies.catalogue import study_named

ROOT = Path(__file__).parents[2]


# Pages that a benchmark, or the build of the pages, writes whole (as it does docs/api, maybe at this moment).
MEASURED = {
    "docs/sizing.md",
    "docs/command-line.md",
    *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/benchmarks/results-*.md")),
}
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if str(path.relative_to(ROOT)) not in MEASURED and path.parent.name != "api"
)
# Tables whose decimals are definitions: promises, versions, shares of a design, numbers of papers. By their headings.
DEFINITIONS = {
    "docs/audit.md": "| claim | found |",
    "docs/citing.md": "| you use | paper |",
    "docs/dependencies.md": "| extra | packages |",
    "docs/math/subsampled.md": ("| step of the argument | doubles |", "| constant | where |"),
    "docs/mechanisms/gp.md": "| (1, 1e-5), l = 1, n = 1 |",
    "docs/mechanisms/meter_stream.md": "| purpose | released |",
    "docs/studio.md": "| page | what it does |",
}


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return loaded(ROOT / "scripts" / "write_numbers.py")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    store = {
        "numbers": {"ndis.a": "0.343"},
        "tables": {"ndis.t": {"columns": ["x", "a|b"], "rows": [["one", "1"]]}},
    }
    (tmp_path / "docs" / "numbers.json").write_text(json.dumps(store), encoding="utf-8")
    text = "delta <!-- number:ndis.a -->?<!-- /number -->.\n\n<!-- table:ndis.t -->\n<!-- /table -->\n"
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    return tmp_path


def test_the_pages_hold_the_stored_figures(script: ModuleType) -> None:
    assert script.check(ROOT) == []


def test_marks_are_filled_and_then_agree(script: ModuleType, repository: Path) -> None:
    assert "README.md: figures differ" in script.check(repository)[0]
    assert script.main(["--fill"], repository) == 0
    text = (repository / "README.md").read_text(encoding="utf-8")
    assert text == (
        "delta <!-- number:ndis.a -->0.343<!-- /number -->.\n\n"
        "<!-- table:ndis.t -->\n| x | a\\|b |\n| --- | --- |\n| one | 1 |\n<!-- /table -->\n"
    )
    assert script.main(["--check"], repository) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<!-- number:ndis.b -->1<!-- /number -->", "unknown number ndis.b"),
        ("<!-- table:ndis.u -->\n<!-- /table -->", "unknown table ndis.u"),
        ("<!-- number:ndis.a -->\n0.343<!-- /number -->", "not closed"),
    ],
)
def test_wrong_marks_are_named(script: ModuleType, repository: Path, text: str, problem: str) -> None:
    page = repository / "docs" / "page.md"
    page.write_text(text, encoding="utf-8")
    assert any(problem in line for line in script.check(repository))
    assert script.main(["--check"], repository) == 1


def test_benchmarks_are_read_where_they_are_kept(script: ModuleType, repository: Path) -> None:
    folder = repository / "docs" / "benchmarks"
    folder.mkdir()
    rows = [{"name": "Fit, d = 4: s", "ours": 0.51234, "peer": None, "ratio": 4.24e6}]
    body = {"benchmarks": {"arma": {"rows": rows}}}
    (folder / "results-some-machine.json").write_text(json.dumps(body), encoding="utf-8")
    (folder / "gpu.json").write_text(json.dumps({"results": [{"seconds": 0.4711}]}), encoding="utf-8")
    store = script.everything(repository)
    assert store["numbers"]["bench.gpu.results.0.seconds"] == "0.471"
    assert script.cell(store, "bench.some-machine.arma/fit-d-4/ours") == "0.512"
    assert script.cell(store, "bench.some-machine.arma/fit-d-4/ratio") == "4,240,000"


@pytest.mark.parametrize(
    ("commit", "quoted_of_no_commit"),
    [("0123456789ab", False), ("0123456789ab-dirty", True), ("unknown", True)],
)
def test_what_was_measured_of_no_commit_is_not_quoted(
    script: ModuleType, repository: Path, commit: str, quoted_of_no_commit: bool
) -> None:
    folder = repository / "docs" / "benchmarks"
    folder.mkdir()
    rows = [{"name": "Fit", "ours": 0.5, "peer": None, "ratio": 2.0}]
    body = {"benchmarks": {"arma": {"commit": commit, "rows": rows}, "other": {"commit": "x-dirty", "rows": rows}}}
    (folder / "results-some-machine.json").write_text(json.dumps(body), encoding="utf-8")
    page = repository / "README.md"
    page.write_text("<!-- number:bench.some-machine.arma/fit/ours -->0.5<!-- /number -->\n", encoding="utf-8")
    named = [line for line in script.check(repository) if "quotes bench.some-machine.arma" in line]
    assert bool(named) == quoted_of_no_commit


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("t/one-1/b", "3"),
        ("t/one-2/b", "4"),
        ("t/one/b", None),  # two rows begin so
        ("t/on/b", None),  # no row has that word
        ("t/one-1/c", None),
        ("u/one-1/b", None),
    ],
)
def test_a_number_may_be_one_cell(script: ModuleType, key: str, value: str | None) -> None:
    table = {"columns": ["name", "a", "b"], "rows": [["One", "1", "3"], ["one", "2", "4"], ["onerous", "1", "5"]]}
    assert script.cell({"numbers": {}, "tables": {"t": table}}, key) == value


def test_figures_that_are_gone_are_forgotten_unless_something_was_missing(script: ModuleType, repository: Path) -> None:
    new = {"numbers": {"ndis.b": "2"}, "tables": {}}
    script.keep(repository, new, instead_of=None)
    assert script.kept(repository)["numbers"] == {"ndis.a": "0.343", "ndis.b": "2"}
    script.keep(repository, new, instead_of="ndis.")
    assert script.kept(repository) == {"numbers": {"ndis.b": "2"}, "tables": {}}


def test_a_table_may_be_shown_in_part(script: ModuleType) -> None:
    rows = [["a", "1", "5"], ["b", "1", "6"], ["c", "2", "7"], ["d", "3", "8"]]
    store = {"numbers": {}, "tables": {"t": {"columns": ["name", "The rho", "y"], "rows": rows}}}
    problems: list[str] = []
    text = "<!-- table:t/the-rho=1,3/y=6,8 -->\n<!-- /table -->"
    shown = script.filled(text, store, problems)
    assert "| b | 1 | 6 |" in shown
    assert "| d | 3 | 8 |" in shown
    assert "| a |" not in shown
    assert not problems
    for mark in ("t/the-rho=4", "t/eta=1"):
        script.filled(f"<!-- table:{mark} -->\n<!-- /table -->", store, problems)
    assert len(problems) == 2


def test_a_run_at_the_papers_size_stands_for_the_quick_one(script: ModuleType, repository: Path) -> None:
    claim = {"key": "a", "claim": "c", "printed": "1", "ours": "0.35", "verdict": "loose", "because": "b"}
    body = {
        "study": "ndis",
        "size": "full",
        "seed": 7,
        "steps": [step.name for step in study_named("ndis").steps],
        "missing": [],
        "made": {"commit": "0123456789", "machine": "some"},
        "verdict": [claim],
        "tables": {"t": [{"n": 2, "x": 0.123456}]},
    }
    path = repository / "full.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    assert script.main(["--full", str(path)], repository) == 0
    store = script.kept(repository)
    assert store["numbers"] == {"ndis.a": "0.35", "ndis.a.printed": "1"}
    assert store["tables"]["ndis.t"] == {"columns": ["n", "x"], "rows": [["2", "0.123"]]}
    assert "study ndis --full`: seed 7, commit 0123456, some." in script.made_by(store, "ndis")
    path.write_text(json.dumps(body | {"missing": ["profiles"]}), encoding="utf-8")
    with pytest.raises(ValueError, match="with all its data"):
        script.main(["--full", str(path)], repository)
    assert script.kept(repository) == store
    part = body | {"steps": body["steps"][:1], "verdict": [claim | {"ours": "0.36"}], "tables": {"u": [{"n": 3}]}}
    path.write_text(json.dumps(part), encoding="utf-8")
    assert script.main(["--full", str(path)], repository) == 0
    some = script.kept(repository)
    assert some["numbers"]["ndis.a"] == "0.36"
    assert [row[2] for row in some["tables"]["ndis.verdict"]["rows"]] == ["0.36"]
    assert {"ndis.t", "ndis.u"} <= set(some["tables"])
    told = f"{body['steps'][0]}: seed 7, commit 0123456, some. The rest: seed 7, commit 0123456, some."
    assert told in script.made_by(some, "ndis")


def written_by_hand(text: str) -> str:
    """A page without its code and its marked places."""
    for pattern in (r"^```.*?^```$", r"<!-- (number|table):[\w./,=-]+ -->.*?<!-- /\1 -->", r"`[^`\n]*`"):
        text = re.sub(pattern, "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def tables_by_hand(text: str) -> list[str]:
    """Headings of the tables that hold decimal figures outside marks."""
    tables = re.findall(r"(?:^\|.*\n)+", written_by_hand(text), re.MULTILINE)
    return [table.splitlines()[0] for table in tables if re.search(r"(?<![\w.])\d*\.\d|\de[-+]?\d", table)]


def times_and_sizes_by_hand(text: str) -> list[str]:
    """Durations and bytes in prose, outside marks."""
    prose = re.sub(r"^\|.*$", "", written_by_hand(text), flags=re.MULTILINE)
    return re.findall(r"(?<![\w.^-])[\d.,]*\d(?:e[-+]?\d+)? ?(?:m?s|[uµ]s|CPU|seconds?|[kMG]i?B)\b", prose)


def test_what_stands_by_hand_is_found() -> None:
    text = (
        "| a | b |\n|---|---|\n| x | 0.25 |\n\n"
        "It took 12.5 ms and <!-- number:bench.x -->3 s<!-- /number -->, `sleep 3 s`, in 2 GiB; 3 steps.\n\n"
        "<!-- table:t -->\n| c |\n| 0.5 |\n<!-- /table -->\n\n| d |\n|---|\n| 2 |\n\n| e |\n|---|\n| 1e-5 |\n"
    )
    assert tables_by_hand(text) == ["| a | b |", "| e |"]
    assert times_and_sizes_by_hand(text) == ["12.5 ms", "2 GiB"]


@pytest.mark.parametrize("page", PAGES)
def test_no_figure_stands_on_a_page_by_hand(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    definitions = DEFINITIONS.get(page, "none")
    assert [heading for heading in tables_by_hand(text) if not heading.startswith(definitions)] == []
    assert times_and_sizes_by_hand(text) == []


def test_pages_that_benchmarks_write_are_what_they_wrote() -> None:
    run = loaded(ROOT / "benchmarks" / "run.py")
    results = sorted((ROOT / "docs" / "benchmarks").glob("results-*.json"))
    assert results
    for path in results:
        body = json.loads(path.read_text(encoding="utf-8"))
        assert path.with_suffix(".md").read_text(encoding="utf-8") == run.markdown(body)
    assert "Written by `python benchmarks/bench_sizing.py" in (ROOT / "docs" / "sizing.md").read_text(encoding="utf-8")


def test_a_wrong_option_is_answered_with_the_usage(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--chek"]) == 2
    assert "usage:" in capsys.readouterr().err


def test_a_picture_of_other_figures_than_the_stored_ones_is_noticed(script: ModuleType, repository: Path) -> None:
    table = {"columns": ["", "real homes", "largest deviation of a town"], "rows": [["mean power", "1.8", "+4.6%"]]}
    stored = script.kept(repository)
    stored["tables"]["simulator.resemblance-resemblance"] = table
    (repository / "docs" / "numbers.json").write_text(json.dumps(stored), encoding="utf-8")
    (repository / "README.md").write_text("nothing\n", encoding="utf-8")
    assert script.fill(repository) == []
    assert script.check(repository) == []
    picture = repository / "docs" / "images" / "results-simulator.svg"
    assert "mean power" in picture.read_text(encoding="utf-8")
    table["rows"][0][2] = "+4.7%"
    (repository / "docs" / "numbers.json").write_text(json.dumps(stored), encoding="utf-8")
    wrong = script.check(repository)
    assert any("results-simulator.svg" in line for line in wrong)
    assert any("resemblance-resemblance.csv" in line for line in wrong)
    before = picture.read_text(encoding="utf-8")
    assert script.fill(repository) == []
    assert picture.read_text(encoding="utf-8") != before
