"""What the driver refuses once Spark runs and before anything is sent to executors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from drlib.errors import UsageError
from drlib.mirror.spark.driver import SparkMirrorOptions, mirror_on_spark


class Session:
    """Spark as far as it is used before the first job, with the settings that its installation adds."""

    def __init__(self, effective: Mapping[str, str]) -> None:
        self.stopped = False
        conf = SimpleNamespace(getAll=lambda: list(effective.items()))
        self.sparkContext = SimpleNamespace(getConf=lambda: conf)

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("effective", [{}, {"spark.authenticate": "true"}])
def test_open_connections_are_refused_before_a_token_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effective: dict[str, str]
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python")  # it would be set
    path = tmp_path / "m.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = i:1\nA->B.enabled = true\n")
    session = Session(effective)
    options = SparkMirrorOptions(path, "yarn", 1, 256 << 20, None, {})
    with pytest.raises(UsageError, match="Spark's connections are open to others"):
        mirror_on_spark(
            options,
            start_session=lambda *_, **__: session,
            report=lambda _: None,
            on_state=lambda *_: None,
        )
    assert session.stopped
