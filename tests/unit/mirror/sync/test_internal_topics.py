"""Internal topics that a cluster refuses: what is tried without, and which commands are left."""

from __future__ import annotations

from drlib.config.flow_settings import FlowSettings
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.sync.internal_topics import JOURNAL_LOG, _bare, heartbeats_topic, journal_topic, not_created
from drlib.model import Flow

SETTINGS = FlowSettings(flow=Flow("A", "B"))
TARGET = ClusterSettings("B", ("b:9092",))


def refused(code: str, remedy: str) -> ClusterRefused:
    return ClusterRefused("creating a topic on B was refused", f"{code}: why", remedy, code=code)


def test_journal_without_what_a_cluster_refuses_is_still_compacted() -> None:
    assert journal_topic(SETTINGS).config == {"cleanup.policy": "compact", **JOURNAL_LOG}
    assert _bare(journal_topic(SETTINGS)).config == {"cleanup.policy": "compact"}
    assert _bare(heartbeats_topic(SETTINGS)) == heartbeats_topic(SETTINGS)  # is not tried twice


def test_topics_that_may_not_be_created_are_one_error_with_every_command() -> None:
    journal, heartbeats = journal_topic(SETTINGS), heartbeats_topic(SETTINGS)
    commands = [topic.command(TARGET.bootstrap_servers) for topic in (journal, heartbeats)]
    assert commands[0].startswith(
        "kafka-topics.sh --bootstrap-server b:9092 --create --topic __drlib-journal.A.internal "
    )
    assert "--config cleanup.policy=compact --config segment.bytes=4194304" in commands[0]
    policy = [
        (journal, refused("POLICY_VIOLATION", "of one")),
        (heartbeats, refused("POLICY_VIOLATION", "of one")),
    ]
    error = not_created(policy, TARGET)
    assert isinstance(error, ClusterRefused)
    assert (error.code, error.why) == ("POLICY_VIOLATION", "POLICY_VIOLATION: why")
    assert error.remedy.startswith(
        "Let who may create them do so, with what B accepts; topics that exist are used: kafka-topics"
    )
    assert error.remedy.endswith("; ".join(commands))
    error = not_created([(journal, refused("TOPIC_AUTHORIZATION_FAILED", "of one"))], TARGET)
    assert error.remedy.startswith("Grant the right: kafka-acls.sh --bootstrap-server b:9092 --add")
    assert "--operation Create --topic __drlib-journal.A.internal" in error.remedy
    assert error.remedy.endswith(commands[0])
