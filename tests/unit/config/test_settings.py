"""A MirrorMaker 2 file as settings: defaults, precedence and refusals."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from drlib.config.flow_settings import FlowSettings
from drlib.config.patterns.selection import PatternTooSlow
from drlib.config.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.kafka.admin.connect import librdkafka
from drlib.model import Flow

HEAD = """clusters = LEFT, RIGHT
LEFT.bootstrap.servers = 127.0.0.1:19092
RIGHT.bootstrap.servers = PLAINTEXT://127.0.0.1:19093, 127.0.0.1:19094
LEFT->RIGHT.enabled = true
"""

Load = Callable[..., MirrorSettings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write_and_load(text: str = "", head: str = HEAD) -> MirrorSettings:
        path = tmp_path / "mm2.properties"
        path.write_text(head + text)
        return load_mirror_settings(path)

    return write_and_load


def test_settings_defaults_are_those_of_mirror_maker(load: Load) -> None:
    settings = load()
    assert list(settings.clusters) == ["LEFT", "RIGHT"]
    assert settings.clusters["RIGHT"].bootstrap_servers == ("127.0.0.1:19093", "127.0.0.1:19094")
    assert librdkafka(settings.clusters["LEFT"]) == {
        "bootstrap.servers": "127.0.0.1:19092",
        "security.protocol": "PLAINTEXT",
    }
    assert settings.flow("LEFT", "RIGHT") == FlowSettings(flow=Flow("LEFT", "RIGHT"), enabled=True)
    assert settings.flow("RIGHT", "LEFT") == FlowSettings(flow=Flow("RIGHT", "LEFT"), enabled=False)
    assert settings.enabled_flows == (settings.flow("LEFT", "RIGHT"),)
    assert settings.notices == ()


def test_disabled_flow_still_emits_heartbeats(load: Load) -> None:
    assert load().flow("RIGHT", "LEFT").emit_heartbeats
    assert not load("RIGHT->LEFT.emit.heartbeats.enabled = false").flow("RIGHT", "LEFT").emit_heartbeats


def test_every_flow_key_reaches_its_field(load: Load) -> None:
    flow = load(
        """
topics = orders, pay.*
topics.exclude = .*-tmp
groups = g.*
groups.exclude = g-old
replication.policy.separator = _
replication.policy.internal.topic.separator.enabled = false
replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 2
offset-syncs.topic.replication.factor = -1
refresh.topics.enabled = FALSE
refresh.topics.interval.seconds = 5
refresh.groups.interval.seconds = 6
emit.checkpoints.interval.seconds = 7
emit.heartbeats.interval.seconds = 8
heartbeats.replication.enabled = false
emit.offset-syncs.enabled = false
offset.lag.max = 0
offset-syncs.topic.location = target
sync.topic.configs.interval.seconds = 9
config.properties.exclude = a, b
LEFT->RIGHT.use.defaults.from = source
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 10
admin.timeout.ms = 11
drlib.lanes = 12
drlib.metrics.address = 127.0.0.1:9464
drlib.group.positions.poll.ms = 13
drlib.session.timeout.ms = 14
drlib.remirror.topics = gone, away
LEFT.consumer.client.id = quota-a
LEFT->RIGHT.source.consumer.client.rack = eu-1a
LEFT->RIGHT.producer.override.client.id = quota-b
"""
    ).flow("LEFT", "RIGHT")
    assert flow == FlowSettings(
        flow=Flow("LEFT", "RIGHT"),
        enabled=True,
        topics=("orders", "pay.*"),
        topics_exclude=(".*-tmp",),
        groups=("g.*",),
        groups_exclude=("g-old",),
        policy=DefaultReplicationPolicy(separator="_", internal_separator_enabled=False),
        replication_factor=1,
        journal_replication_factor=1,
        heartbeats_replication_factor=1,
        checkpoints_replication_factor=2,
        offset_syncs_replication_factor=-1,
        refresh_topics=False,
        refresh_topics_s=5,
        refresh_groups_s=6,
        emit_checkpoints_s=7,
        emit_heartbeats_s=8,
        heartbeats_replication=False,
        emit_offset_syncs=False,
        offset_lag_max=0,
        offset_syncs_location="target",
        sync_topic_configs_s=9,
        config_properties_exclude=("a", "b"),
        use_defaults_from="source",
        sync_group_offsets=True,
        sync_group_offsets_s=10,
        admin_timeout_ms=11,
        lanes=12,
        metrics_address="127.0.0.1:9464",
        group_positions_poll_ms=13,
        session_timeout_ms=14,
        source_client_id="quota-a",
        source_rack="eu-1a",
        target_client_id="quota-b",
        remirror_topics=("gone", "away"),
    )
    assert flow.offset_syncs_topic == "mm2-offset-syncs.LEFT.internal"


def test_identity_policy_has_the_flows_source(load: Load) -> None:
    text = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert load(text).flow("LEFT", "RIGHT").policy == IdentityReplicationPolicy(source_alias="LEFT")
    assert load(text).flow("RIGHT", "LEFT").policy == IdentityReplicationPolicy(source_alias="RIGHT")


def test_flow_key_overrides_the_top_and_is_not_read_under_a_cluster(load: Load) -> None:
    lines = (
        "offset.lag.max = 3",
        "LEFT.offset.lag.max = 4",
        "RIGHT.offset.lag.max = 5",
        "LEFT->RIGHT.offset.lag.max = 6",
    )
    for count, expected in enumerate((3, 3, 3, 6), 1):
        assert load("\n".join(lines[:count])).flow("LEFT", "RIGHT").offset_lag_max == expected
    assert [n.key for n in load("\n".join(lines)).notices] == ["LEFT.offset.lag.max", "RIGHT.offset.lag.max"]


def test_client_id_order_is_flow_then_cluster_then_connector(load: Load) -> None:
    lines = (
        "LEFT->RIGHT.consumer.client.id = a",
        "LEFT.consumer.client.id = b",
        "LEFT->RIGHT.source.consumer.client.id = c",
    )
    for count, expected in enumerate("abc", 1):
        assert load("\n".join(lines[:count])).flow("LEFT", "RIGHT").client_id("LEFT") == f"{expected}|drlib-LEFT"
    settings = load("\n".join([*lines, "RIGHT.producer.client.id = d"]))
    assert settings.flow("LEFT", "RIGHT").client_id("RIGHT") == "d|drlib-RIGHT"
    assert settings.flow("RIGHT", "LEFT").client_id("LEFT") == "drlib-LEFT"
    assert settings.notices == ()


def test_drlib_key_order_is_flow_target_source_top(load: Load) -> None:
    lines = ("drlib.lanes = 3", "LEFT.drlib.lanes = 4", "RIGHT.drlib.lanes = 5", "LEFT->RIGHT.drlib.lanes = 6")
    for count, expected in enumerate((3, 4, 5, 6), 1):
        assert load("\n".join(lines[:count])).flow("LEFT", "RIGHT").lanes == expected
    assert load("\n".join(lines)).flow("RIGHT", "LEFT").lanes == 4


def test_negative_interval_switches_the_task_off(load: Load) -> None:
    flow = load("emit.heartbeats.interval.seconds = -1").flow("LEFT", "RIGHT")
    assert not flow.emit_heartbeats


def test_flow_selects_topics_groups_and_configs(load: Load) -> None:
    flow = load("topics = orders.*").flow("LEFT", "RIGHT")
    assert flow.mirrors_topic("orders")
    assert flow.mirrors_topic("heartbeats")
    assert not flow.mirrors_topic("RIGHT.orders")
    assert not flow.mirrors_topic("payments")
    assert flow.mirrors_group("g")
    assert not flow.mirrors_group("connect-x")
    assert flow.mirrors_config("retention.ms")
    assert not flow.mirrors_config("min.insync.replicas")


@pytest.mark.parametrize(
    ("policy", "mirrors"),
    [
        ("Default", ["LEFT.orders", "LEFT.heartbeats"]),
        ("Identity", ["orders", "LEFT.heartbeats"]),  # of which cluster a topic is does not show in its name
    ],
)
def test_mirrors_on_the_target_are_those_of_topics_that_the_flow_mirrors(
    load: Load, policy: str, mirrors: list[str]
) -> None:
    names = (
        *("orders", "LEFT.orders", "MID.orders", "LEFT.RIGHT.orders", "LEFT.retired", "scratch"),
        *("__consumer_offsets", "heartbeats", "LEFT.heartbeats", "drlib.active.internal", "LEFT.checkpoints.internal"),
    )
    text = f"topics = orders\nreplication.policy.class = org.apache.kafka.connect.mirror.{policy}ReplicationPolicy"
    flow = load(text).flow("LEFT", "RIGHT")
    assert [name for name in names if flow.is_mirror(name)] == mirrors
    proved = [name for name in mirrors if name != "orders"]  # by its name
    assert [name for name in names if flow.is_mirror(name, {"another"})] == proved
    assert [name for name in names if flow.is_mirror(name, {"orders"})] == mirrors
    every = load(text.replace("topics = orders", "topics = .*")).flow("LEFT", "RIGHT")
    assert not every.is_mirror("LEFT.checkpoints.internal")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"clusters = {','.join(f'c{n}' for n in range(31))}", "names 31 clusters, and drlib reads up to 30"),
        (f"LEFT.bootstrap.servers = {','.join(['h:1'] * 101)}", "has 101 addresses, and drlib reads up to 100"),
        (
            f"LEFT->RIGHT.topics = {','.join(map(str, range(20_000)))}",
            "most of them LEFT->RIGHT.topics, and drlib reads up",
        ),
        (f"LEFT->RIGHT.topics = {','.join(['a'] * 10_000)}\ngroups = {','.join(['a'] * 10_000)}", "items together"),
    ],
)
def test_more_than_drlib_can_handle_is_refused(load: Load, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        load(text)


@pytest.mark.parametrize("policy", ["Default", "Identity"])
@pytest.mark.parametrize("topic", ["drlib.active.internal", "drlib.drills.internal", "drlib.tails.internal"])
def test_topics_that_each_cluster_has_of_its_own_are_not_mirrored_whatever_the_filter(
    load: Load, policy: str, topic: str
) -> None:
    text = f"topics = .*\nreplication.policy.class = org.apache.kafka.connect.mirror.{policy}ReplicationPolicy"
    flow = load(text).flow("LEFT", "RIGHT")
    assert not flow.mirrors_topic(topic)
    assert not flow.mirrors_topic(f"LEFT.{topic}")  # a copy that was made before


def test_blank_filters_select_nothing(load: Load) -> None:
    flow = load("topics =\ngroups =").flow("LEFT", "RIGHT")
    assert not flow.mirrors_topic("orders")
    assert not flow.mirrors_group("g")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("offset.lag.max = many", "not a whole number"),
        ("offset.lag.max = -1", "the least value is 0"),
        ("replication.factor = 0", "at least one replica"),
        ("refresh.topics.interval.seconds = 0", "without a pause"),
        ("LEFT->RIGHT.sync.group.offsets.enabled = yes", "not true or false"),
        ("offset-syncs.topic.location = middle", "not one of source, target"),
        ("replication.policy.class = com.example.Policy", "not one of"),
        ("topic.filter.class = com.example.Filter", "not one of"),
        ("replication.policy.separator =", "topic name"),
        ("drlib.lanes = 0", "the least value is 1"),
        ("drlib.lines.of.code = 3", "unknown key"),
        ("drlib.metrics.address = 9464", "not host:port"),
        ("topics = \\\\p{IsGreek}", "IsGreek"),
        ("LEFT.bootstrap.servers = h", "not host:port"),
        ("LEFT.bootstrap.servers = h:99999", "not host:port"),
        ("LEFT.bootstrap.servers = h:\\u00b2", "not host:port"),
        (f"LEFT.bootstrap.servers = h:{'9' * 5000}", "not host:port"),
        (f"drlib.metrics.address = h:{'9' * 5000}", "not host:port"),
        ("LEFT.bootstrap.servers = 127.0.0.1:19094", "cannot be mirrored to itself"),
        ("clusters = LEFT, R IGHT", "topic name"),
        ("clusters = LEFT, LEFT", "listed twice"),
        ("topics = ${env:DRLIB_TEST_NOT_SET}", "DRLIB_TEST_NOT_SET is not set"),
        ("topics = ${vault:a:b}", "no provider vault"),
    ],
)
def test_invalid_value_is_refused_with_file_and_line(load: Load, text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(text)
    assert why in refused.value.why
    assert "mm2.properties:" in refused.value.what
    assert refused.value.remedy


def test_missing_or_shared_servers_are_refused(load: Load) -> None:
    with pytest.raises(UsageError, match="clusters is not set"):
        load(head="topics = a\n")
    with pytest.raises(UsageError, match=r"B\.bootstrap\.servers is not set"):
        load(head="clusters = A, B\nA.bootstrap.servers = h:1\n")
    with pytest.raises(UsageError, match="have the same address"):
        load(head="clusters = A, B\nbootstrap.servers = h:1\n")


def test_alias_with_a_period(load: Load) -> None:
    head = "clusters = eu, eu.west\neu.bootstrap.servers = h:1\neu.west.bootstrap.servers = h:2\n"
    settings = load("eu.west->eu.enabled = true", head=head)
    assert settings.clusters["eu.west"].bootstrap_servers == ("h:2",)
    assert [str(flow.flow) for flow in settings.enabled_flows] == ["eu.west->eu"]
    policy = settings.flow("eu.west", "eu").policy
    assert all(policy.source_of(policy.remote_topic(alias, "orders")) == alias for alias in settings.clusters)


def test_references_are_resolved_when_used_and_never_printed(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("lanes = 7\nbad = hush\n")
    monkeypatch.setenv("DRLIB_TEST_TOPICS", "orders")
    settings = load(
        f"topics = ${{env:DRLIB_TEST_TOPICS}}, pay\n"
        f"drlib.lanes = ${{file:{secrets}:lanes}}\n"
        "LEFT.sasl.jaas.config = ${env:DRLIB_TEST_NOT_SET}\n"
        "LEFT.ssl.key.password = hush\n"
    )
    assert settings.flow("LEFT", "RIGHT").topics == ("orders", "pay")
    assert settings.flow("LEFT", "RIGHT").lanes == 7
    assert settings.clusters["LEFT"].security["sasl.jaas.config"] == "${env:DRLIB_TEST_NOT_SET}"
    assert "hush" not in repr(settings)
    with pytest.raises(UsageError) as refused:
        load(f"drlib.lanes = ${{file:{secrets}:bad}}")
    assert "hush" not in str(refused.value)
    with pytest.raises(UsageError, match="has no key other"):
        load(f"drlib.lanes = ${{file:{secrets}:other}}")
    with pytest.raises(UsageError, match=r"has no value: .*gone cannot be read") as refused:
        load(f"drlib.lanes = ${{file:{tmp_path / 'gone'}:lanes}}")
    assert refused.value.remedy.startswith(f"Write lanes to {tmp_path / 'gone'}")  # and not: give another FILE


def test_flow_unknown_clusters_are_refused(load: Load) -> None:
    with pytest.raises(UsageError, match="LEFT, RIGHT"):
        load().flow("LEFT", "MIDDLE")


def test_flow_pattern_too_slow_for_a_name_raises_or_is_reported_and_not_chosen() -> None:
    slow, hard = ("(qR|qRqR)+c",), "qR" * 60 + "cx"
    everything: dict[str, tuple[str, ...]] = {
        "topics": slow, "groups": slow, "config_properties_exclude": slow, "remirror_topics": slow
    }  # fmt: skip
    flow = FlowSettings(flow=Flow("A", "B"), enabled=True, **everything)  # type: ignore[arg-type]
    choices = ("mirrors_topic", "mirrors_group", "mirrors_config", "remirrors_topic")
    for choice in choices:
        with pytest.raises(PatternTooSlow, match="qR"):
            getattr(flow, choice)(hard)
    reported: list[str] = []
    worker = replace(flow, on_slow_pattern=lambda key, error: reported.append(key))
    assert worker == flow
    assert [getattr(worker, choice)(hard) for choice in choices] == [False] * 4
    assert reported == ["topics", "groups", "config.properties.exclude", "drlib.remirror.topics"]
