"""A copy before any cluster is contacted: names, remaining offsets, and invalid command lines."""

from pathlib import Path

import pytest
from command_line import drlib, error_line

from drlib.cli.mirror.copy import parse_cluster
from drlib.config.settings import load_client_file, load_client_settings
from drlib.config.start_rule import Start
from drlib.errors import LeaseHeld, UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.credentials import Password
from drlib.mirror.copy_topics import Copy, CopyRequest, remaining, settings_for
from drlib.mirror.status.worker_status import FlowStatus, LaneStatus, WorkerStatus
from drlib.model import TopicPartition

A, B = ClusterSettings("west", ("127.0.0.1:1",)), ClusterSettings("east", ("127.0.0.1:2",))


def test_settings_for_uses_cluster_ids_and_keeps_names() -> None:
    settings = settings_for(CopyRequest(A, B, ("orders.*",)), "idA", "idB")
    (flow,) = settings.enabled_flows
    assert str(flow.flow) == "idA->idB"
    assert settings.clusters["idA"].bootstrap_servers == A.bootstrap_servers
    assert flow.policy.remote_topic("idA", "orders") == "orders"
    assert flow.policy.journal_topic("idA") == "__drlib-journal.idA.internal"
    assert [t for t in ("orders", "orders.v1", "payments") if flow.mirrors_topic(t)] == ["orders", "orders.v1"]
    assert not flow.mirrors_group("any")


def test_settings_for_prefix_changes_topic_names_only() -> None:
    (flow,) = settings_for(CopyRequest(A, B, (".*",), prefix="old"), "idA", "idB").flows
    assert flow.policy.remote_topic("idA", "orders") == "old.orders"
    assert flow.policy.journal_topic("idA") == "__drlib-journal.idA.internal"


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "mm2-configs.A.internal", "heartbeats", "A.heartbeats", "A.checkpoints.internal"]
)
@pytest.mark.parametrize("prefix", [None, "old"])
def test_settings_for_excludes_internal_topics(topic: str, prefix: str | None) -> None:
    (flow,) = settings_for(CopyRequest(A, B, (".*",), prefix=prefix), "idA", "idB").flows
    assert not flow.mirrors_topic(topic)


def test_remaining_counts_from_the_log_start() -> None:
    full, empty, begun = (TopicPartition("t", number) for number in range(3))
    starts, ends = {full: 10, empty: 50, begun: 0}, {full: 30, empty: 50, begun: 8}
    assert remaining(starts, ends, {}) == {full: 20, begun: 8}
    assert remaining(starts, ends, {full: 30, begun: 5}) == {begun: 3}
    assert remaining(starts, ends, {full: 31, begun: 9}) == {}


def test_cluster_argument_is_an_address_or_an_alias() -> None:
    assert parse_cluster("h:1, g:2", "--from", None) == ClusterSettings("h:1, g:2", ("h:1", "g:2"))
    for text in ("west", "h:", ":1", "h:0", "h:1,g", ""):
        with pytest.raises(UsageError, match="--from"):
            parse_cluster(text, "--from", None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "west", "--to", "127.0.0.1:1", "--topics", "a"], "--from west names no cluster"),
        (["--from", "127.0.0.1:1", "--to", "127.0.0.1:2", "--topics", " "], "--topics is empty"),
        (["--from", "127.0.0.1:1", "--to", "127.0.0.1:2", "--topics", "("], "never closed"),
        (["--from", "127.0.0.1:1", "--to", "127.0.0.1:2", "--topics", "a", "--prefix", "a b"], "--prefix 'a b'"),
    ],
)
def test_copy_invalid_command_line_is_refused(arguments: list[str], words: str) -> None:
    assert words in error_line(drlib("copy", *arguments), 2)


def test_prepare_names_both_unreachable_clusters() -> None:
    result = drlib("copy", "--from", "127.0.0.1:1", "--to", "127.0.0.1:2", "--topics", "a")
    assert result.returncode == 11
    (line,) = result.stderr.splitlines()  # of the worker's log
    assert "127.0.0.1:1 and 127.0.0.1:2 cannot be reached" in line


def test_cluster_argument_client_file_sets_security(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nacks=all\nbootstrap.servers=elsewhere:1\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";\n'
    )
    settings, notices = load_client_settings(file, "h:1", ("h:1",))
    assert (settings.bootstrap_servers, settings.secured) == (("h:1",), True)
    assert settings.connection().sasl == Password("PLAIN", "u", "p")
    assert [(n.line, n.key) for n in notices] == [(3, "acks"), (4, "bootstrap.servers")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("security.protocol=TLS", "is not a protocol"),
        ("sasl.mechanisms=PLAIN", "Did you mean sasl.mechanism?"),
        ("ssl.engine.factory.class=my.Own", "is not allowed"),
    ],
)
def test_cluster_argument_invalid_client_file_is_refused_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# mine\n{line}\n")
    arguments = ("--from", "127.0.0.1:1", "--from-config", str(file), "--to", "127.0.0.1:2", "--topics", "a")
    said = error_line(drlib("copy", *arguments), 2)
    assert words in said
    assert f"{file}:2" in said


def test_cluster_argument_alias_rejects_a_client_file(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n")
    arguments = ("--from", "A", "--from-config", str(file), "--to", "B", "--topics", "a", str(file))
    assert "--from-config does not go with the alias A" in error_line(drlib("copy", *arguments), 2)


def test_copy_lanes_missing_briefly_do_not_stop_it() -> None:
    now = 100.0
    request = CopyRequest(A, B, ("t",))
    copy = Copy(request, settings_for(request, "idA", "idB"), {}, {}, now=lambda: now)
    whole = tuple(LaneStatus(n, "running", 1, 0) for n in range(2))

    def over(lanes: tuple[LaneStatus, ...]) -> bool:
        return copy._should_stop(WorkerStatus(1, 0, "running", (FlowStatus("idA->idB", lanes, (), 0, 0),)))

    assert not over(())
    now += 19.0
    assert not over(whole[:1])
    assert not over(whole)
    now += 19.0
    assert not over(whole[:1])
    now += 21.0
    assert over(whole[:1])
    assert isinstance(copy.problem, LeaseHeld)


def test_load_client_file_of_mirror_maker_1_has_addresses_security_and_start(tmp_path: Path) -> None:
    """As kafka-mirror-maker.sh takes it with --consumer.config."""
    file = tmp_path / "consumer.properties"
    file.write_text(
        "bootstrap.servers=a:9092, b:9093\ngroup.id=mirror\nauto.offset.reset=latest\n"
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nclient.id=x\n"
    )
    found = load_client_file(file)
    assert found.cluster.bootstrap_servers == ("a:9092", "b:9093")
    assert found.cluster.alias == "a:9092,b:9093"
    assert found.cluster.security == {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    assert found.start is not None
    assert found.start.kind is Start.LATEST
    assert [notice.key for notice in found.notices] == ["group.id", "client.id"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("group.id=x", "bootstrap.servers is not set"),
        ("bootstrap.servers=a", "not host:port"),
        ("bootstrap.servers=a:1\nauto.offset.reset=never", "it is not earliest"),
    ],
)
def test_load_client_file_without_usable_addresses_is_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        load_client_file(file)
    assert why in str(refused.value)
