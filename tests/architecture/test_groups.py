"""Tests of one group run on one worker, so that there is one Spark session and one browser."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("spark")
def test_pytest_tells_workers_the_groups(request: pytest.FixtureRequest) -> None:
    grouping = bool(getattr(request.config.option, "loadgroup", False))  # only on a worker, with --dist loadgroup
    assert request.node.nodeid.endswith("@spark") == grouping
