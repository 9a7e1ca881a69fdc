"""Options and fixtures that every room's tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("gaussveil", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("gaussveil")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the same test bodies at the sizes the issues name")


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether to run at full size."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real data sets; a test that needs it says so where it is absent."""
    folder = os.environ.get("GAUSSVEIL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the real data sets: set GAUSSVEIL_DATA to their folder")
    return Path(folder)
