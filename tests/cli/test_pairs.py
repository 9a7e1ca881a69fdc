from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gaussveil.errors import FormatError, GaussveilError, NotPositiveDefiniteError, ShapeError, SourceError
from gaussveil.report.pair_files import read_pair
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose


@pytest.mark.parametrize("ending", ["json", "npz", "csv"])
def test_every_format_holds_the_same_pair(pair_files: dict[str, Path], ending: str) -> None:
    expected = GaussianPair([0.3, 0.0], [[1.2, 0.1], [0.1, 1.0]], [0.0, 0.0], [[1.0, 0.1], [0.1, 1.0]])
    loss = read_pair(pair_files[ending])
    assert loss.delta(0.7) == expected.delta(0.7)
    assert loss.reversed().delta(0.7) == expected.reversed().delta(0.7)


def test_reduced_form_is_read_in_order(pair_files: dict[str, Path], tmp_path: Path) -> None:
    expected = GaussianPair.from_reduced([0.2, -0.1], [0.5, 0.0])
    assert read_pair(pair_files["other"]).delta(0.3) == expected.delta(0.3)
    path = tmp_path / "reduced.json"
    path.write_text('{"variance_gap": [0.2, -0.1], "mean_gap": [0.5, 0]}', encoding="utf-8")
    assert read_pair(path).delta(0.3) == expected.delta(0.3)


def test_what_the_library_writes_can_be_read_back(tmp_path: Path) -> None:
    loss: PrivacyLoss = compose(GaussianPair.mean_shift(0.5), GaussianPair.from_reduced([0.2], [0.1])) ** 3
    path = tmp_path / "composed.json"
    path.write_text(json.dumps(loss.to_dict()), encoding="utf-8")
    assert read_pair(path).delta(1.0) == loss.delta(1.0)


def test_upper_case_endings_are_accepted(pair_files: dict[str, Path]) -> None:
    assert read_pair(pair_files["json"].rename(pair_files["json"].with_suffix(".JSON"))).delta(1.0) > 0.0


BROKEN = {
    "empty.json": ("", FormatError, "JSON"),
    "list.json": ("[1, 2]", FormatError, "object"),
    "keys.json": ('{"mean_x": [0], "covariance": [[1]]}', FormatError, "cov_x"),
    "extra.json": ('{"variance_gap": [0], "mean_gap": [1], "note": 1}', FormatError, "note"),
    "text.json": ('{"variance_gap": ["a"], "mean_gap": [1]}', FormatError, "variance_gap"),
    "quoted.json": ('{"variance_gap": ["0.1"], "mean_gap": [1]}', FormatError, "text"),
    "null.json": ('{"variance_gap": {"a": 1}, "mean_gap": [1]}', FormatError, "variance_gap"),
    "ragged.json": ('{"variance_gap": [[1, 2], [3]], "mean_gap": [1]}', FormatError, "rectangular"),
    "batch.json": ('{"variance_gap": [[0.1], [0.2]], "mean_gap": [[0], [1]]}', ShapeError, "one pair"),
    "singular.json": (
        '{"mean_x": [0, 0], "cov_x": [[1, 1], [1, 1]], "mean_y": [0, 0], "cov_y": [[1, 0], [0, 1]]}',
        NotPositiveDefiniteError,
        "cov_x",
    ),
    "empty.csv": ("", FormatError, "first line"),
    "header.csv": ("gap,mean\n1,2\n", FormatError, "variance_gap,mean_gap"),
    "cells.csv": ("variance_gap,mean_gap\n0.1\n", ShapeError, "line 2"),
    "word.csv": ("variance_gap,mean_gap\n0.1,zero\n", FormatError, "line 2"),
    "rows.csv": ("distribution,mean,cov_1\nX,0,1\n", ShapeError, "start with X"),
    "order.csv": ("distribution,mean,cov_1\nY,0,1\nX,0,1\n", ShapeError, "start with X"),
    "pair.npz": ("not a zip file", FormatError, "numpy.savez"),
    "pair.txt": ("", FormatError, ".json, .npz or .csv"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_named_with_the_rule(tmp_path: Path, name: str) -> None:
    content, error, words = BROKEN[name]
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(error) as caught:
        read_pair(path)
    assert words in str(caught.value)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        read_pair(tmp_path / "absent.json")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(SourceError, match="cannot be read"):
        read_pair(folder)


def test_arrays_that_would_execute_code_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pickled.npz"
    np.savez(path, mean_x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(GaussveilError, match="plain arrays"):
        read_pair(path)
