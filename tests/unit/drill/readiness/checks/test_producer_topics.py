"""Findings about topics that producers write to, where there are several, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_observation import CONTEXT, FLOW, producer_topics

from drlib.drill.readiness.checks import producer_topics as checks
from drlib.drill.readiness.checks.observations import ProducerTopics
from drlib.drill.readiness.score import Severity
from drlib.kafka.admin.descriptions import Quota
from drlib.kafka.admin.errors import ClusterRefused

NONE = replace(producer_topics(), names=())
QUOTA = ((Quota((("user", "shop"),), 9.0), None),)


@pytest.mark.parametrize(
    ("both", "evidence"),
    [
        (producer_topics(), "1 topic exist on the target, with settings, ACLs and quotas to write"),
        (NONE, "no topic is mirrored, so none is written to after a failover"),
        (replace(NONE, names=None), "there is no other topic to write to"),
    ],
)
def test_producer_topics_that_are_all_there_or_none_are_ok(both: ProducerTopics, evidence: str) -> None:
    ((_, severity, said, _),) = checks.producer_topics(both, FLOW, CONTEXT)
    assert severity is Severity.OK
    assert evidence in said


def test_quota_that_the_target_lacks_is_a_warning_with_and_without_topics() -> None:
    for both in (producer_topics(), NONE):
        ((who, severity, _, _),) = checks.producer_topics(replace(both, quotas=QUOTA), FLOW, CONTEXT)
        assert (who, severity) == ("user shop", Severity.WARN)


def test_missing_topic_is_created_with_the_settings_of_the_source_where_they_are_known() -> None:
    known = producer_topics(None, here={"retention.ms": "5", "cleanup.policy": "compact", "flush.ms": "1"})
    ((_, _, _, fix),) = checks.producer_topics(known, FLOW, CONTEXT)
    assert "--config cleanup.policy=compact --config retention.ms=5" in fix
    assert "flush.ms" not in fix
    refused = ClusterRefused("describing", "not authorized", "Grant it.", code="TOPIC_AUTHORIZATION_FAILED")
    ((_, severity, _, fix),) = checks.producer_topics(
        replace(known, source_settings={"orders": refused}), FLOW, CONTEXT
    )
    assert severity is Severity.WARN
    assert "--partitions 1" in fix
    assert "--config " not in fix
