"""Share groups of one secured broker: what each right allows, and what is delivered again without the right to write states."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import create_topic, wait_for
from testbed_share_groups import consume, in_group, write

from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.actions.groups.share_groups import rules
from drlib.drill.actions.groups.share_groups.rules import ShareMove
from drlib.drill.plan.progress import Reach
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.kafka.share_groups import admin
from drlib.kafka.share_groups.messages import DescribedGroup
from drlib.kafka.share_groups.state import ShareState
from drlib.lab.brokers.acls import grant
from drlib.lab.brokers.security import DRILL, LabSecurity
from drlib.lab.lab import Lab
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.share_groups.known import combined
from drlib.model import TopicPartition, TranslationKind

GROUP, TOPIC = "packers", "orders"
PARTITION = TopicPartition(TOPIC, 0)
VALUES = [b"%02d" % n for n in range(20)]
COMPLETE = ((5, 7), (8, 12))
RIGHTS = (
    Right("group", GROUP, ("READ", "DELETE")),
    Right("topic", TOPIC, ("READ",)),
    Right("topic", "__share_group_state", ("READ",)),
)
MAY_WRITE_STATES = Right("cluster", "", ("CLUSTER_ACTION",))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    security = LabSecurity("SASL_PLAINTEXT", "PLAIN", more={"OPEN": "PLAINTEXT"}, acls=True)
    extra = {"super.users": "User:broker;User:admin;User:ANONYMOUS"}  # who comes over OPEN
    with Lab(tmp_path_factory.mktemp("lab"), ("ONE",), extra=extra, security=security) as lab:
        yield lab


def move(before: int | None = None) -> ShareMove:
    return ShareMove(
        GROUP, PARTITION, 30, 6, PARTITION, 3, COMPLETE, TranslationKind.EXACT, 0, as_of_ms=0, before=before
    )


@pytest.mark.long
@pytest.mark.timeout(120)
def test_share_group_state_is_written_with_cluster_action_and_predicted_without(secured: Lab) -> None:
    cluster = secured.clusters["ONE"]
    is_open, limited = cluster.at("OPEN"), cluster.settings(user=DRILL)
    create_topic(is_open, TOPIC, 1)
    write(is_open, TOPIC, VALUES)
    grant(cluster, DRILL, RIGHTS)

    def state() -> ShareState | None:
        return share_moves.read_states(cluster.settings(), [GROUP]).get((GROUP, PARTITION))

    (refused,) = share_moves.write(limited, [move()])
    assert (refused.carried, refused.redelivered) == (False, 6)
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.why_not
    assert state() == ShareState(3)
    again = share_moves.delivered_again(limited, [refused])
    assert again == {GROUP: 6}
    (check,) = rules.checks([refused], again, {})
    assert "6 are delivered again: CLUSTER_AUTHORIZATION_FAILED" in check.evidence
    assert share_moves.reached(limited, [refused]) is Reach.PARTLY
    share_moves.put_back(limited, [refused])
    assert state() is None

    grant(cluster, DRILL, [MAY_WRITE_STATES])
    wait_for("the right is in effect", lambda: share_moves.write(limited, [move()])[0].carried is True)
    (written,) = share_moves.write(limited, [move()])
    assert state() == ShareState(3, COMPLETE)
    assert share_moves.delivered_again(limited, [written]) == {GROUP: 0}

    with in_group(is_open, GROUP, TOPIC) as consumer:
        expected = {value for n, value in enumerate(VALUES) if n >= 3 and not any(a <= n < b for a, b in COMPLETE)}
        seen = consume(consumer, lambda _: AcknowledgeType.ACCEPT, lambda seen: expected <= seen.keys())
        with pytest.raises(GroupNotEmpty):
            admin.set_starts(limited, GROUP, {PARTITION: 3}, 10.0)
    assert seen == dict.fromkeys(expected, 1)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_share_group_keeps_what_it_read_of_a_partition_that_has_lost_its_leader(tmp_path: Path) -> None:
    with Lab(tmp_path, ("ONE",), brokers=3) as lab:
        cluster = lab.clusters["ONE"]
        settings, nodes = cluster.settings(), [broker.spec.node_id for broker in cluster.brokers]
        placed = NewTopic(TOPIC, num_partitions=2, replica_assignment=[nodes[:1], nodes[2:]])
        topics = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics.create_topics([placed])[TOPIC].result(20)
        gone = TopicPartition(TOPIC, 1)
        starts = {PARTITION: 3, gone: 4}
        admin.set_starts(settings, GROUP, starts, 20.0)
        expected = {(GROUP, at): ShareState(start) for at, start in starts.items()}

        def read() -> dict[tuple[str, TopicPartition], ShareState]:
            return share_moves.read_states(settings, [GROUP])

        assert read() == expected
        cluster.brokers[2].kill()

        def described() -> DescribedGroup | None:
            found = admin.described(settings, [GROUP], 10.0)[GROUP]
            return found if isinstance(found, DescribedGroup) else None  # while its coordinator moves

        def refused() -> DescribedGroup | None:
            found = described()
            return found if found is not None and gone in found.refused else None

        wait_for("the coordinator answers with an error", lambda: refused() is not None, 60)
        assert read() == expected  # __share_group_state has it
        without = refused()
        assert without is not None
        found = combined({GROUP: without}, None, {}, {}, {}, 0)  # as where it may not be read
        assert [list(each) for each in found] == [[(GROUP, PARTITION)], [], [(GROUP, gone)]]
        began = time.monotonic()
        waited = admin.described(settings, [GROUP], 3.0, lambda key: key.partition == gone.partition)[GROUP]
        assert isinstance(waited, DescribedGroup), waited
        assert (list(waited.offsets), list(waited.refused)) == ([PARTITION], [gone])
        assert time.monotonic() - began >= 3.0
        cluster.brokers[2].restart()
        wait_for("its leader is back", lambda: (found := described()) is not None and not found.refused, 60)
        assert read() == expected
