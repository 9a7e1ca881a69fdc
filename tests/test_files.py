from __future__ import annotations

import fcntl
import json
import os
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


@pytest.mark.parametrize(("umask", "shared"), [(0o000, 0o666), (0o022, 0o644), (0o077, 0o600)])
def test_the_umask_decides_who_reads_what_is_shared_and_nobody_else_what_is_private(
    umask: int, shared: int, tmp_path: Path
) -> None:
    before = os.umask(umask)
    try:
        for mode, expected in ((PUBLIC, shared), (PRIVATE, 0o600)):
            target = tmp_path / f"{mode}"
            target.write_text("old")
            target.chmod(0o666)
            assert write_whole(target, "e\u0301\n", mode).read_bytes() == b"e\xcc\x81\n"
            assert stat.S_IMODE(target.stat().st_mode) == expected
    finally:
        os.umask(before)


def test_what_killed_writers_left_in_a_folder_is_swept_by_the_next(tmp_path: Path) -> None:
    """Files of any name, but none whose writer lives, that is new, or whose name another program gave."""
    endings = (f"{number:016x}.part" for number in range(4))
    left, other, held, fresh = (
        tmp_path / f".{name}.{ending}" for name, ending in zip(("a*.csv", "b.csv", "a*.csv", "c.csv"), endings)
    )
    foreign = [tmp_path / name for name in (".film.part", ".a*.csv.3.part", "b.0123456789abcdef.part")]
    for path in (left, other, held, fresh, *foreign):
        path.write_text("half")
        os.utime(path, None if path == fresh else (0, 0))
    with held.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_SH)
        write_whole(tmp_path / "a*.csv", "whole")
    kept = {"a*.csv", fresh.name, *(path.name for path in foreign)}
    assert {path.name for path in tmp_path.iterdir()} == {*kept, held.name}
    write_whole(tmp_path / "d.csv", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "d.csv"}


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
