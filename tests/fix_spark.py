"""One Spark session for all tests that need one: starting it takes longer than any of them.

PySpark leaves the local sockets over which results arrive to the garbage collector. Tests of this fixture say so here,
once, and collect them before the next test, so that everywhere else an unclosed socket stays an error.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from drlib.analysis.spark.session import spark_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"))


@pytest.fixture(scope="session")
def _spark_session() -> Iterator[SparkSession]:
    with spark_session("drlib tests") as session:
        yield session


@pytest.fixture
def spark(_spark_session: SparkSession) -> Iterator[SparkSession]:
    """The session; on two local cores, with nothing in it that outlives a test."""
    yield _spark_session
    gc.collect()
