"""The keys of a file: those without effect, misspelt ones, and those that would be unsafe."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.config.notices import Notice, check_keys
from drlib.errors import UsageError
from drlib.kafka.java_formats.properties import parse

FILE = Path("mm2.properties")
HEAD = """clusters = LEFT, RIGHT
LEFT.bootstrap.servers = 127.0.0.1:19092
RIGHT.bootstrap.servers = 127.0.0.1:19093
LEFT->RIGHT.enabled = true
"""


def check(text: str) -> tuple[Notice, ...]:
    """The notices of a valid file to which `text` is added, from line 5."""
    return check_keys(parse(HEAD + text, FILE), ("LEFT", "RIGHT"))


def test_check_keys_a_workers_topic_counts_at_the_top_and_under_the_target() -> None:
    assert check("offset.storage.topic = a\nRIGHT.config.storage.topic = b\n") == ()


def test_check_keys_of_aliases_that_begin_with_another_one_belong_to_the_longest() -> None:
    text = "lon.x.bootstrap.servers = h:1\nparis->lon.x.enabled = true\nlon.x->paris.topics = t\nparis->lon.enabled = true\n"
    for aliases in (("paris", "lon", "lon.x"), ("lon.x", "lon", "paris")):
        assert check_keys(parse(text, FILE), aliases) == ()


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("lon.x->rome.enabled", r"lon\.x->rome: rome is not in clusters"),
        ("rome->lon.x.enabled", r"rome->lon\.x: rome is not in clusters"),
        ("lon.x->lon.x.enabled", r"lon\.x->lon\.x names one cluster twice"),
    ],
)
def test_check_keys_of_no_flow_names_aliases_with_a_period_in_full(key: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_keys(parse(f"{key} = true\n", FILE), ("lon", "lon.x"))


def test_check_keys_reports_keys_without_effect_with_line_and_reason() -> None:
    expected = {
        "tasks.max": "drlib.lanes",
        "consumer.client.id": "under a cluster or a flow only",
        "LEFT.source.consumer.client.id": "A.consumer.",
        "LEFT->RIGHT.client.id": "under consumer. or producer. only",
        "LEFT.client.rack": "under consumer. or producer. only",  # MirrorMaker 2 drops it, too
        "LEFT->RIGHT.target.consumer.client.id": "A->B.source.consumer.",
        "LEFT->RIGHT.producer.client.id": "A->B.producer.override.",
        "LEFT.consumer.fetch.max.bytes": "the engine sizes fetch requests",
        "LEFT.consumer.receive.buffer.bytes": "the operating system",
        "LEFT->RIGHT.consumer.isolation.level": "only committed records",
        "LEFT->RIGHT.consumer.enable.auto.commit": "positions are kept in the journal",
        "RIGHT.producer.override.linger.ms": "as the source holds them",
        "RIGHT.producer.acks": "idempotent",
        "LEFT->RIGHT.admin.request.timeout.ms": "fencing relies on",
        "LEFT.consumer.max.poll.records": "drlib.session.timeout.ms",
        "LEFT->RIGHT.source.cluster.security.protocol": "under the cluster's alias",
        "offset.storage.replication.factor": "no Connect worker",
        "RIGHT.offset.flush.interval.ms": "no Connect worker",
        "RIGHT.exactly.once.source.support": "no Connect worker",
        "RIGHT.replication.factor": "never under a cluster",
        "use.defaults.from": "under a flow only",
        "enabled": "its own key",
        "topic.creation.enable": "no Connect worker",
        "LEFT.ssl.cipher.suites": "no such setting",
        "LEFT->RIGHT.offset.storage.topic": "under the target",
        "topics.blacklist": "topics.exclude",
        "some.plugin.setting": "unknown key: neither Kafka nor drlib has it",
        "LEFT->RIGHT.bootstrap.servers": "under its alias",
        "LEFT.clusters": "only at the top of the file",
        "transforms.x.type": "never converted",
    }
    values = {"LEFT->RIGHT.source.cluster.security.protocol": "PLAINTEXT", "LEFT->RIGHT.bootstrap.servers": "h:1"}
    notices = check("".join(f"{key} = {values.get(key, 'hush')}\n" for key in expected) + "topics = a\ntopics = b\n")
    assert [notice.key for notice in notices] == [*expected, "topics"]
    assert [notice.line for notice in notices] == list(range(5, 5 + len(notices)))
    assert {n.key: n.text for n in notices if expected.get(n.key, "line ") not in n.text} == {}
    assert not any("hush" in str(notice) for notice in notices)


@pytest.mark.parametrize(("value", "warned"), [("true", True), ("${env:ALLOW}", True), ("false", False)])
def test_check_keys_reports_an_endpoint_without_encryption(value: str, warned: bool) -> None:
    notices = check(f"LEFT.sasl.oauthbearer.token.endpoint.plain.http = {value}\n")
    assert [notice.text.startswith("the client's secret is sent without encryption") for notice in notices] == [
        True
    ] * warned


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("topic = a", "topics"),
        ("topics.exlude = a", "topics.exclude"),
        ("LEFT->RIGHT.enabeld = true", "LEFT->RIGHT.enabled"),
        ("RIGHT.bootstrap.server = h:1", "RIGHT.bootstrap.servers"),
        ("task.max = 3", "tasks.max"),
        ("emit.checkpoint.interval.seconds = 3", "emit.checkpoints.interval.seconds"),
        ("consumer.fetch.max.byte = 3", "consumer.fetch.max.bytes"),
        ("LEFT->RIGHT.producer.linger.sm = 3", "LEFT->RIGHT.producer.linger.ms"),
        ("replication.policy.seperator = _", "replication.policy.separator"),
        ("drlib.lane = 3", "drlib.lanes"),
    ],
)
def test_check_keys_misspelt_key_is_refused_with_a_suggestion(line: str, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(line)
    assert "mm2.properties:5" in refused.value.what
    assert refused.value.remedy == f"Did you mean {meant}?"
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("drlib.lines.of.code = 3", "unknown key"),
        ("security.protocol = TLS", "Kafka has PLAINTEXT, SSL"),
        ("LEFT->RIGHT.consumer.security.protocol = SASL_SSL", "under the cluster's alias"),
        ("consumer.security.protocol = SASL_SSL", "under the cluster's alias"),
        ("LEFT.sasl.kerberos.kinit.cmd = /bin/sh", "run a command"),
        ("LEFT->RIGHT.producer.plugin.library.paths = ./x", "load code"),
        ("LEFT->MIDDLE.enabled = true", "LEFT->MIDDLE: MIDDLE is not in clusters (LEFT, RIGHT)"),
        ("LEFT->LEFT.enabled = true", "LEFT->LEFT names one cluster twice"),
        ("RIHGT.bootstrap.servers = h:1", "the cluster RIHGT is not in clusters (LEFT, RIGHT)"),
        (
            "LEFT -> RIGHT.topics = orders",
            "it is an alias and no key",
        ),  # a key ends at a space, so `topics` would stay .*
        ("LEFT ->RIGHT.topics = orders", "it is an alias and no key"),
        ("LEFT=>RIGHT.enabled = true", "it is an alias and no key"),
        ("LEFT-> RIGHT.enabled = true", "is not in clusters (LEFT, RIGHT)"),
        ("LEFT→RIGHT.enabled = true", "a flow is written with ->"),
    ],
)
def test_check_keys_unsafe_or_unknown_key_is_refused_with_its_line(line: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(line)
    assert why in refused.value.why
    assert refused.value.what.startswith("mm2.properties:5: ")
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("alias", "remedy"),
    [
        ("Rigth", "Did you mean RIGHT? Correct the alias, or add Rigth to clusters."),
        ("NORTH", "Correct the alias, or add NORTH to clusters."),
    ],
)
def test_check_keys_unknown_cluster_gets_a_suggestion_where_one_is_close(alias: str, remedy: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(f"{alias}.bootstrap.servers = h:1")
    assert refused.value.remedy == remedy


def test_check_keys_of_a_flow_between_aliases_with_periods_is_recognized() -> None:
    head = "clusters = eu, eu.west\neu.bootstrap.servers = h:1\neu.west.bootstrap.servers = h:2\n"
    text = f"{head}eu.west->eu.offset.lag.max = 3\neu.west.offset.lag.max = 4\n"
    (notice,) = check_keys(parse(text, FILE), ("eu", "eu.west"))
    assert (notice.line, notice.key) == (5, "eu.west.offset.lag.max")
    assert "never under a cluster" in notice.text


def test_check_keys_names_the_other_logins_of_a_cluster_whose_file_logs_in_with_msk_iam() -> None:
    with pytest.raises(UsageError, match="AWS_MSK_IAM is a mechanism of Amazon's Java library") as met:
        check("LEFT.sasl.client.callback.handler.class = software.amazon.msk.auth.iam.IAMClientCallbackHandler")
    assert "port 9096, sasl.mechanism = SCRAM-SHA-512" in met.value.remedy
