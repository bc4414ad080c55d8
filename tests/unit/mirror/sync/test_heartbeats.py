"""Heartbeats of a pair whose settings cannot be used: the flows that mirror it report that, and no right is asked for."""

import pytest

from drlib.config.flow_settings import FlowSettings
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status.event_log import EventLog
from drlib.mirror.sync.heartbeats import PairHeartbeats
from drlib.model import Flow


@pytest.mark.parametrize(
    "login",
    [
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "${env:NOPE_NOT_SET}"},
    ],
    ids=["Kerberos", "a variable that is not set"],
)
async def test_heartbeats_with_settings_that_cannot_be_used_open_no_event(login: dict[str, str]) -> None:
    events = EventLog()
    cluster = ClusterSettings("A", ("127.0.0.1:1",), login)
    pair = PairHeartbeats(FlowSettings(flow=Flow("B", "A")), cluster, events, lambda: True)
    assert not await pair.create_topic()
    assert events.snapshot() == ()
