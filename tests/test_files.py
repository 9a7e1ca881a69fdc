from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from gaussveil.errors import SourceError
from gaussveil.files import PRIVATE, PUBLIC, json_values, replacing, reserved, write_whole


def test_an_interrupted_write_leaves_the_older_file_and_nothing_else(tmp_path: Path) -> None:
    target = write_whole(tmp_path / "kept.json", "old")

    def write_half() -> None:
        with replacing(target) as stream:
            stream.write(b"half of the ne")
            stream.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("mode", [PUBLIC, PRIVATE])
def test_a_file_has_the_mode_asked_for_whatever_the_older_one_had(mode: int, tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    target.chmod(0o666)
    assert write_whole(target, "e\u0301\n", mode).read_bytes() == b"e\xcc\x81\n"
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_no_room_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no room for it"), reserved(tmp_path / "a", 1 << 62):
        pytest.fail("the block must not begin")
    with pytest.raises(SourceError, match="cannot be written"), reserved(tmp_path / "no folder" / "a"):
        pytest.fail("the block must not begin")
    with reserved(tmp_path / "a", 4096) as stream:
        stream.write(b"short")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"short")]


def test_numbers_that_json_does_not_have() -> None:
    record = {"a": [np.float64("inf"), -np.inf], 2: (np.nan, 1), "array": np.array([0.5, np.inf])}
    assert json_values(record) == {"a": ["inf", "-inf"], "2": ["nan", 1], "array": [0.5, "inf"]}
    nothing = json_values(record, not_finite_as_null=True)
    assert nothing == {"a": [None, None], "2": [None, 1], "array": [0.5, None]}
    assert json.loads(json.dumps(nothing, allow_nan=False)) == nothing
