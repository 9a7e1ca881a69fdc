"""The common shape of studies: what names a cached part, and how values are shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gaussveil_studies.study import Options, Part, Picture, Progress, Size, Step, Study, Table, Verdict, judged, shown
from gaussveil_studies.study_output import write_outcome
from gaussveil_studies.study_run import MOST_KEPT, content_key, run_study

CALLS: list[int] = []


def compute(options: Options, progress: Progress) -> Part:
    CALLS.append(options.seed)
    progress("half", 0.5)
    table = Table.of("t", [{"a": np.float64(1.5), "b": np.int64(2), "c": None}], "a: A; b; c: C, of c")
    claim = judged("k", "a <claim>", "0", "1", refuted=True, because="so")
    return Part("Title", ("text",), (table,), (Picture("p", "<svg ></svg>", "caption"),), (claim,))


STEP = Step("s", "step", compute, files=("rows.csv",))
STUDY = Study("toy", "Toy", "A toy.", (STEP,))


def silent(_word: str, _share: float) -> None:
    return None


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("1\n", encoding="utf-8")
    return tmp_path


def test_a_part_read_back_equals_the_one_computed(data: Path) -> None:
    CALLS.clear()
    one, two = (run_study(STUDY, Options(data), data / "cache", silent) for _ in range(2))
    assert CALLS == [0]
    assert one == two
    assert one.parts["s"].tables[0].rows == ((1.5, 2, None),)
    assert one.claims[0].verdict is Verdict.REFUTED


def test_a_damaged_part_is_computed_again(data: Path) -> None:
    run_study(STUDY, Options(data), data / "cache", silent)
    (kept,) = (data / "cache").iterdir()
    for damage in ("", "{}", "[1]", '{"title": 1, "paragraphs": 2}'):
        kept.write_text(damage, encoding="utf-8")
        CALLS.clear()
        run_study(STUDY, Options(data), data / "cache", silent)
        assert CALLS == [0]


def test_old_results_are_dropped(data: Path) -> None:
    for seed in range(MOST_KEPT + 3):
        run_study(STUDY, Options(data, seed=seed), data / "cache", silent)
    assert len(list((data / "cache").iterdir())) == MOST_KEPT
    CALLS.clear()
    run_study(STUDY, Options(data, seed=MOST_KEPT + 2), data / "cache", silent)
    assert CALLS == []


def test_the_name_changes_with_everything_a_result_depends_on(data: Path) -> None:
    keys = [content_key(STUDY, STEP, Options(data))]
    assert content_key(STUDY, STEP, Options(data)) == keys[0]
    keys.append(content_key(STUDY, STEP, Options(data, seed=1)))
    keys.append(content_key(STUDY, STEP, Options(data, Size.FULL)))
    keys.append(content_key(STUDY, replace(STEP, name="other"), Options(data)))
    keys.append(content_key(STUDY, replace(STEP, surroundings=lambda: "R: absent"), Options(data)))
    (data / "rows.csv").write_text("2\n", encoding="utf-8")
    keys.append(content_key(STUDY, STEP, Options(data)))
    assert len(set(keys)) == len(keys)


def test_without_files_a_step_is_not_run(tmp_path: Path) -> None:
    CALLS.clear()
    found = run_study(STUDY, Options(tmp_path), None, silent)
    assert CALLS == []
    assert found.missing == ("rows.csv",)
    assert "GAUSSVEIL_DATA" in found.parts["s"].paragraphs[0]


def test_progress_goes_from_nought_to_one(data: Path) -> None:
    heard: list[tuple[str, float]] = []
    run_study(STUDY, Options(data), None, lambda word, share: heard.append((word, share)))
    assert heard == [("step", 0.0), ("step: half", 0.5), ("", 1.0)]


def test_everything_is_written_and_text_is_escaped(data: Path) -> None:
    page = write_outcome(run_study(STUDY, Options(data), None, silent), data / "out")
    folder = page.parent
    assert {path.name for path in folder.iterdir()} == {
        "report.html",
        "s-t.csv",
        "s-p.svg",
        "study.json",
        "verdict.csv",
    }
    assert "a &lt;claim&gt;" in page.read_text(encoding="utf-8")
    assert (folder / "s-t.csv").read_text(encoding="utf-8") == 'A,b,"C, of c"\n1.5,2,\n'
    assert json.loads((folder / "study.json").read_text(encoding="utf-8"))["verdict"][0]["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (3, "3"),
        ("x", "x"),
        (0.12345, "0.123"),
        (12345.6, "12346"),
        (2.5e7, "2.5e7"),
        (1e-6, "1e-6"),
        (0.9999999, "1-1e-7"),
        (1.0, "1"),
        (float("inf"), "inf"),
    ],
)
def test_values_for_people(value: float | str | None, text: str) -> None:
    assert shown(value) == text
