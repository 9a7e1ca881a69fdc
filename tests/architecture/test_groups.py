"""Tests of one group run on one worker, so that there is one Spark session and one browser."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("spark")
def test_pytest_tells_workers_the_groups(request: pytest.FixtureRequest) -> None:
    grouping = bool(getattr(request.config.option, "loadgroup", False))  # only on a worker, with --dist loadgroup
    assert request.node.nodeid.endswith("@spark") == grouping


def test_tests_of_a_file_share_a_worker(request: pytest.FixtureRequest) -> None:
    grouping = bool(getattr(request.config.option, "loadgroup", False))
    assert request.node.nodeid.endswith("@architecture/test_groups.py") == grouping
