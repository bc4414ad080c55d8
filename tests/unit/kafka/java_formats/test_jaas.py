"""JAAS texts as Kafka reads them, and refusals that never quote a secret."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.kafka.java_formats import jaas

PACKAGE = "org.apache.kafka.common.security"
PLAIN = f"{PACKAGE}.plain.PlainLoginModule"
SCRAM = f"{PACKAGE}.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="s3cret";', {"username": "alice", "password": "s3cret"}),
        (f"{PLAIN} REQUIRED username=alice password='s \"3';", {"username": "alice", "password": 's "3'}),
        (
            f'{PLAIN}\n  required // who\n  username = "a" /* and\n how */ password="b" ;',
            {"username": "a", "password": "b"},
        ),
        (f'{PLAIN} optional password="a\\"b\\\\c\\101\\n=;";', {"password": 'a"b\\cA\n=;'}),
        (f"{SCRAM} required;", {}),
    ],
)
def test_jaas_parse_matches_kafka(text: str, options: dict[str, str]) -> None:
    assert jaas.parse(text, "LEFT.sasl.jaas.config").options == options


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "login module"),
        (f"{PLAIN};", "control flag"),
        (f"{PLAIN} always hush=1;", "not required, requisite"),
        (f'{PLAIN} required username="hush"', "semicolon"),
        (f'{PLAIN} required username="hush;', "quote is not closed"),
        (f"{PLAIN} required username;", "name=value"),
        (f"{PLAIN} required username=hush=2;", "name=value"),
        (f"{PLAIN} required username=a; {SCRAM} required password=hush;", "more than one"),
    ],
)
def test_jaas_parse_invalid_text_is_refused_without_quoting_it(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        jaas.parse(text, "LEFT.sasl.jaas.config")
    assert refused.value.what.startswith("LEFT.sasl.jaas.config")
    assert why in refused.value.why
    assert "hush" not in str(refused.value)
