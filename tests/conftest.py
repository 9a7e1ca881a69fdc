"""Options and fixtures that every room's tests share."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import shlex
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from .fixed_draws import FixedDraws
from .passed_tests import PassedTests, passed_before

if TYPE_CHECKING:
    from playwright.sync_api import Browser

settings.register_profile("gaussveil", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("gaussveil")
DRAWS = pytest.StashKey[FixedDraws]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the same test bodies at the sizes the issues name")
    parser.addoption("--go-on", metavar="FILE", help="leave out tests that FILE names; name those that pass there")
    parser.addoption(
        "--slow-pages", type=float, default=1.0, help="pages think so many times slower and wait for answers"
    )
    parser.addoption("--draws", default="", help="any word: other secure noise than that of the tests' names alone")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[DRAWS] = FixedDraws(config.getoption("--draws"))
    if config.getoption("--go-on") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(PassedTests(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """One worker reads the files alone and leaves them compiled, then the others read them in half the time.

    What is read stays for the whole run: Python need not look among millions of its objects for what can go.
    """
    folder = os.open(session.config.rootpath, os.O_RDONLY)
    gc.disable()
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(folder, fcntl.LOCK_SH)
        return (yield)
    finally:
        os.close(folder)
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # a test's own objects are few, and most of them go by themselves
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """What a file draws while it is read follows from its name."""
    with collector.config.stash[DRAWS].named(collector.nodeid):
        return (yield)


@contextmanager
def log_as_it_was() -> Iterator[None]:
    """Commands that run for long log to the stderr of their own test; the next test's commands must not."""
    log = logging.getLogger("gaussveil")
    level, handlers, propagate = log.level, list(log.handlers), log.propagate
    try:
        yield
    finally:
        log.setLevel(level)
        log.handlers[:], log.propagate = handlers, propagate


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test fails in each run or in none: its secure noise follows from its name."""
    name = f"{item.location[0]}::{item.name}"
    draws = item.config.stash[DRAWS].named(None if item.get_closest_marker("operating_system") else name)
    with draws, log_as_it_was():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """What tests share is the same whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    with request.config.stash[DRAWS].named(f"{fixturedef.baseid}::{fixturedef.argname}::{request.param_index}"):
        return (yield)


# Spark's machine lives for minutes: the thorough compiler, the parallel collector and proofs that each of Spark's own
# classes is well formed would cost more than they save; so would collecting again and again while it still grows.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-XX:MetaspaceSize=256m -Xmn300m",
)
# Java looks for each of twenty thousand classes in one archive after the other: first in these of 280, which hold most.
SPARK_FIRST = ("spark-catalyst", "scala-library", "spark-core", "scala-reflect", "spark-sql-api", "spark-sql_")

# What takes longest begins first, so that no worker is left alone with it at the end. Workers take two groups
# each: two of them mostly wait for a browser and for Spark, and leave their cores to the others.
LONGEST = (
    "browser",
    "spectrum/test_subsampled.py",
    "spark",
    "attacks/test_certificates.py",
    "postgres",
    "streaming/test_kafka.py",
    "studio",
    "mechanisms/test_table.py",
    "attacks/test_mechanisms.py",
    "cli/test_study.py",
    "warm processes",
    "engines/test_whole_files.py",
    "streaming",
    "spectrum/test_training.py",
    "accounting/test_drop_ins.py",
    "laws",
    "studies",
    "mechanisms",
    "spectrum",
    "cli",
    "docs",
    "attacks",
    "accounting",
)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Send tests that share what is slow to build to one worker: those of a file, and the laws of a mechanism."""
    if not config.getoption("--full"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full")])
        items[:] = [item for item in items if not item.get_closest_marker("full")]
    passed = passed_before(config)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]
    ranks: dict[str, int] = {}
    for item in items:
        *_, folder, file = item.path.parts
        marked = item.get_closest_marker("xdist_group")
        group = marked.args[0] if marked else f"{folder}/{file}"
        if marked is None and group == "laws/test_laws.py":
            group = f"laws of {item.callspec.params['case'].name}"  # type: ignore[attr-defined]
        if marked is None:
            item.add_marker(pytest.mark.xdist_group(group))
        ranks[item.nodeid] = next((n for n, name in enumerate(LONGEST) if name in (group, folder)), len(LONGEST))
    items.sort(key=lambda item: ranks[item.nodeid])


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether to run at full size."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session; tests that use it belong to the xdist group "spark"."""
    import pyspark

    from gaussveil.engines.spark_session import start_session

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "spark_workers"), prepend=os.pathsep)
        archives = Path(pyspark.__file__).with_name("jars")
        first = os.pathsep.join(str(path) for name in SPARK_FIRST for path in archives.glob(f"{name}*.jar"))
        options = f"--driver-class-path {shlex.quote(first)} --conf spark.python.daemon.module=warm_daemon"
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{options} pyspark-shell")
        session = start_session("local[2,3]")  # two cores; a task may fail twice
    yield session
    session.stop()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real data sets; a test that needs it says so where it is absent."""
    folder = os.environ.get("GAUSSVEIL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the real data sets: set GAUSSVEIL_DATA to their folder")
    return Path(folder)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium through Playwright; tests that use it belong to the xdist group "browser": one runs."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    assert program is not None, "chromium is missing: apt-get install chromium (`make components` lists what is needed)"
    with sync_playwright() as play:
        # Chromium's own sandbox does not start as root, as in containers; every page here is one that we wrote.
        opened = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()
