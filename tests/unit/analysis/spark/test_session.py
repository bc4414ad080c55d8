"""What of Spark's settings is on the command line of its JVM, which every user of the machine can list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drlib.analysis.spark import session
from drlib.errors import MissingDependency, UsageError


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The settings with which a JVM would be started; none is."""
    from pyspark import SparkContext, java_gateway

    made: list[dict[str, str]] = []

    def launch(conf: Any, _: object) -> None:
        made.append(dict(conf.getAll()))
        raise OSError("no JVM here")

    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    monkeypatch.setattr(session, "_java_home", lambda: Path("/nowhere"))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    return made


def test_setting_that_is_a_reference_is_not_on_the_command_line(
    launched: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRLIB_TEST_SECRET", "c4n4ry")
    given = {"spark.authenticate.secret": "${env:DRLIB_TEST_SECRET}", "spark.authenticate": "true"}
    with pytest.raises(MissingDependency, match="Spark did not start"):
        session.spark_session("a", connector=False, settings=given)
    (settings,) = launched
    assert settings["spark.authenticate"] == "true"
    assert "spark.authenticate.secret" not in settings
    assert "c4n4ry" not in str(settings)


def test_setting_whose_reference_has_no_value_starts_no_jvm(launched: list[dict[str, str]]) -> None:
    with pytest.raises(UsageError, match=r"spark\.x: \$\{env:DRLIB_TEST_NONE\} has no value"):
        session.spark_session("a", connector=False, settings={"spark.x": "${env:DRLIB_TEST_NONE}"})
    assert launched == []
