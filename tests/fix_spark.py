"""One Spark session for all tests that need one: starting it takes longer than any of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from drlib.analysis.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("drlib tests") as session:
        yield session
