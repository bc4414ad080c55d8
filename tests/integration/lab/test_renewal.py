"""A running broker gets another certificate: what is connected stays so, and what connects checks the new one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from fix_engine import wait_for

from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.security.errors import SecurityFault
from drlib.lab.brokers.renewal import renew_certificate
from drlib.lab.brokers.security import MODES
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import TopicSpec, create_topics

pytestmark = pytest.mark.long


def topics(lab: Lab) -> set[str]:
    """Asked for over a new connection."""
    with Cluster(lab.clusters["ONE"].settings(), timeout_s=5) as cluster:
        return set(cluster.topics())


def written(producer: Producer) -> int:
    """The offset of a record that is acknowledged within seconds; -1 without one."""
    offsets: list[int] = []
    producer.produce("orders", b"x", on_delivery=lambda error, at: offsets.append(-1 if error else at.offset()))
    producer.flush(5)
    return offsets[0] if offsets else -1


def test_certificate_that_expires_ends_no_connection_and_its_renewal_needs_no_restart(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", ("ONE",), security=MODES["tls"]) as lab:
        one = lab.clusters["ONE"]
        create_topics(one.settings(), [TopicSpec("orders", 1)])
        producer = Producer({**librdkafka(one.settings()), "log_level": 0})
        assert written(producer) == 0
        until = datetime.now(UTC) + timedelta(seconds=3)
        renew_certificate(one, until)
        wait_for("it has expired", lambda: datetime.now(UTC) > until + timedelta(seconds=1))
        with pytest.raises(SecurityFault, match="certificate has expired"):
            topics(lab)
        assert written(producer) == 1
        renew_certificate(one)
        assert "orders" in topics(lab)
        one.restart()  # it keeps what it was given
        assert "orders" in topics(lab)
        assert written(producer) == 2


def test_cluster_without_tls_has_no_certificate_to_renew(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", ("ONE",)) as lab, pytest.raises(UsageError, match="ONE has no certificate"):
        renew_certificate(lab.clusters["ONE"])
