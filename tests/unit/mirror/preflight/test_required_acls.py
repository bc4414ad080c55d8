"""The pure parts of what is looked at before a flow begins: rights, names, clocks, who we are."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.config.patterns.missing_topics import distance, missing_topics
from drlib.kafka.net.authorized_operations import TOLERANCE_MS, skew
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.preflight.required_acls import UNKNOWN_PRINCIPAL, Right, command, missing, principal_of


def test_missing_rights_are_only_those_not_granted() -> None:
    wanted = Right("topic", "orders", ("WRITE", "READ", "DESCRIBE"))
    assert missing(wanted, {"WRITE"}) == Right("topic", "orders", ("READ",))  # WRITE implies DESCRIBE
    assert missing(wanted, {"WRITE", "READ"}) is None
    assert missing(wanted, {"ALL"}) is None
    assert missing(wanted, ()) == wanted
    assert missing(Right("cluster", "", ("DESCRIBE_CONFIGS", "DESCRIBE")), {"ALTER_CONFIGS", "ALTER"}) is None


def test_acl_command_can_be_pasted() -> None:
    right = Right("topic", "orders.v1", ("READ", "DESCRIBE_CONFIGS"))
    assert command(right, "User:mirror", ["a:1", "b:2"]) == (
        "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal User:mirror "
        "--operation Read --operation DescribeConfigs --topic orders.v1"
    )
    assert command(Right("cluster", "", ("CREATE",)), "User:m", ["a:1"]).endswith("--operation Create --cluster")
    prefixed = Right("transactional-id", "drlib-", ("WRITE", "DESCRIBE"), prefixed=True)
    assert command(prefixed, "User:m", ["a:1"]).endswith("--transactional-id drlib- --resource-pattern-type prefixed")
    assert [str(one) for one in (right, prefixed, Right("cluster", "", ("CREATE",)))] == [
        "READ and DESCRIBE_CONFIGS on topic orders.v1",
        "WRITE and DESCRIBE on transactional-id drlib-*",
        "CREATE on cluster",
    ]


def test_acl_command_quotes_a_principal_with_spaces() -> None:
    words = shlex.split(command(Right("group", "g", ("READ",)), "User:CN=a b,O=c", ["a:1"]))
    assert words[words.index("--allow-principal") + 1] == "User:CN=a b,O=c"


@pytest.mark.parametrize(
    ("security", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "PLAINTEXT"}, "User:ANONYMOUS"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": 'x.ScramLoginModule required username="mirror" password="${env:P}";',
            },
            "User:mirror",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'PlainLoginModule required password="username" username="${env:WHO}";',
            },
            UNKNOWN_PRINCIPAL,
        ),
        *(
            (
                {
                    "security.protocol": protocol,
                    "sasl.mechanism": mechanism,
                    "sasl.jaas.config": "PlainLoginModule required username='mirror';",
                },
                principal,
            )
            for protocol, mechanism, principal in (
                ("SASL_SSL", "PLAIN", "User:mirror"),
                ("sasl_ssl ", " plain", "User:mirror"),
                ("SASL_SSL", "GSSAPI", UNKNOWN_PRINCIPAL),
                ("SSL", "PLAIN", UNKNOWN_PRINCIPAL),  # the certificate's name counts, and the login is not used
            )
        ),
        ({"security.protocol": "SSL"}, UNKNOWN_PRINCIPAL),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, UNKNOWN_PRINCIPAL),
    ],
)
def test_principal_is_named_only_where_certain(security: dict[str, str], principal: str) -> None:
    assert principal_of(ClusterSettings("A", ("a:1",), security)) == principal


def test_literal_topic_names_that_do_not_exist_get_suggestions() -> None:
    topics = {"orders", "payments", "audit.v1"}
    assert missing_topics(["orders", "paymnts", "audit.v1", "flights.*", "nowhere"], topics) == {
        "paymnts": "payments",
        "nowhere": None,
    }
    assert missing_topics([".*", "a|b", "x[0-9]"], topics) == {}


def test_distance_swapped_letters_count_once() -> None:
    assert distance("oredrs", "orders") == 1
    assert distance("", "ab") == 2


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distance_is_symmetric_and_zero_only_for_equals(one: str, other: str) -> None:
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)
    assert abs(len(one) - len(other)) <= distance(one, other) <= max(len(one), len(other))


@given(st.integers(-(10**9), 10**9), st.integers(0, 10_000), st.integers(0, 10_000))
def test_skew_bounds_contain_the_true_skew(true: int, there: int, back: int) -> None:
    asked = 10**12
    found = skew(asked, asked + there + true, asked + there + back)
    assert found.low <= true <= found.high
    if found.beyond_tolerance:
        assert abs(true) > TOLERANCE_MS


def test_skew_text_has_seconds_and_direction() -> None:
    assert str(skew(1000, 61_010, 1020)) == "60.0 s ahead of this machine's (to within 0.0 s)"
    assert "behind" in str(skew(100_000, 40_000, 100_100))
    assert not skew(0, 500, 3000).beyond_tolerance
