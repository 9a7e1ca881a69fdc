"""Spark's session, and what is told where it cannot read or work."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module

import pyarrow as pa

from gaussveil.engines.spill import spill_folder
from gaussveil.errors import MissingDependencyError, SourceError, install

try:
    from pyspark.errors import PySparkException, PySparkImportError
    from pyspark.sql import SparkSession
except ImportError as error:
    raise MissingDependencyError(
        f"Spark is not installed: {install('spark')} (and Java 17)."
    ) from error

# Errors of the Java side that PySpark does not translate.
Py4JError: type[Exception] = import_module("py4j.protocol").Py4JError


class _Process:
    """What lives as long as this process, as a session does."""


_OF_THIS_PROCESS = _Process()


def start_session(master: str | None = None) -> SparkSession:
    """A session whose workers run this Python; one that runs already is taken as it is."""
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        return running
    master = master or os.environ.get("GAUSSVEIL_SPARK_MASTER", "local[*]")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("gaussveil")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    if master.startswith("local"):
        # One process: no name look-ups, and no more shuffle partitions than are worth a task.
        options |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
        options |= {"spark.sql.shuffle.partitions": "8"}
        if "SPARK_LOCAL_DIRS" not in os.environ:
            # what does not fit in memory: for the owner alone, and swept
            options |= {"spark.local.dir": spill_folder(_OF_THIS_PROCESS)}
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SourceError(
            f"Spark could not be started ({type(error).__name__}): check its master and that Java 17 or later is there."
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextlib.contextmanager
def readable_table() -> Iterator[None]:
    """Say that a table cannot be read without repeating Spark's message, which may quote a value of it."""
    try:
        yield
    except PySparkImportError:
        raise MissingDependencyError(
            f"Spark needs pandas and pyarrow of its own choice: {install('spark')}."
        ) from None
    except (PySparkException, Py4JError, pa.ArrowException, OSError) as error:
        raise SourceError(
            f"the table could not be read ({type(error).__name__}): "
            "check that it is whole and of the kind its name says."
        ) from None


@contextlib.contextmanager
def working() -> Iterator[None]:
    """Say that a household's task failed for good, without repeating a message that may quote a value of the data."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SourceError(
            f"a task failed on a worker, also when it was tried again ({type(error).__name__}): "
            "call the function on one household's rows here to see why."
        ) from None
