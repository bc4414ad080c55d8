"""What a broker of a lab is started with."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from drlib.lab.brokers.broker import Broker, BrokerSpec, server_properties
from drlib.lab.processes import ProcessRegistry


class Started:
    """Keeps the command line of what would be started."""

    def __init__(self) -> None:
        self.argv: list[str] = []

    def start(self, _: str, argv: list[str], **__: object) -> None:
        self.argv = argv


def spec(folder: Path, brokers: int) -> BrokerSpec:
    return BrokerSpec("LEFT", 1, "id", str(folder), 1, 2, 3, 4, "1@127.0.0.1:4", brokers)


@pytest.mark.parametrize(("brokers", "session_ms"), [(1, "9000"), (3, "3000")])
def test_broker_alone_may_miss_heartbeats_as_long_as_kafka_lets_it(
    tmp_path: Path, brokers: int, session_ms: str
) -> None:
    properties = server_properties(spec(tmp_path, brokers), {})
    assert properties["broker.session.timeout.ms"] == session_ms
    given = server_properties(spec(tmp_path, brokers), {"broker.session.timeout.ms": "5000"})
    assert given["broker.session.timeout.ms"] == "5000"


@pytest.mark.parametrize("brokers", [1, 3])
def test_broker_alone_that_has_run_before_registers_soon(tmp_path: Path, brokers: int) -> None:
    """After SIGKILL it can register only when its former session has expired."""
    started = Started()
    broker = Broker(spec(tmp_path, brokers), cast(ProcessRegistry, started), die_with_parent=False)
    broker.launch(jvm=())
    assert "--override" not in started.argv
    (tmp_path / "data" / "__cluster_metadata-0").mkdir(parents=True)
    broker.launch(jvm=())
    overrides = started.argv[started.argv.index("--override") :] if "--override" in started.argv else []
    assert overrides == (["--override", "broker.session.timeout.ms=3000"] if brokers == 1 else [])
