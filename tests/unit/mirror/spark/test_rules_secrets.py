"""What of a properties file is sent to executors, and which secrets in it keep it here."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.config.settings import from_file
from drlib.kafka.java_formats.properties import PropertiesFile, parse
from drlib.mirror.spark.rules import secrets_in, sent_file

ALIASES = ("A", "B")
NOT_SENT = (
    "A.api.key", "A.consumer.api.key", "A->B.producer.override.access.key", "A.basic.auth.user.info", "user.info", "A.auth",
    "A.ssl.keystore.pasword", "A.schema.registry.url", "connection.string", "A->B.webhook", "transforms.mask.salt",
    "A.value.converter.schema.registry.basic.auth.user.info", "response.http.headers.config", "A.ssl.secret.provider",
    "C.topics", "A.x.topics", "A.sasl.kerberos.kinit.cmd", "some.plugin.password",
)  # fmt: skip


def made(*lines: str) -> PropertiesFile:
    return parse("\n".join(("clusters = A, B", *lines)), Path("m.properties"))


@pytest.mark.parametrize(
    ("line", "has_secret"),
    [
        ("A.ssl.keystore.password = hunter2", True),
        ("ssl.keystore.password = hunter2", True),
        ("A.ssl.keystore.password = ${env:PASSWORD}", False),
        ("A.ssl.keystore.password = ${file:/etc/x:key}", False),
        ("A.ssl.keystore.password = p${env:PASSWORD}", True),
        ("A.ssl.keystore.password = ", False),
        ("A.sasl.jaas.config = ", False),
        ('A.sasl.jaas.config = org.Plain required username="u" password="${env:PASSWORD}";', False),
        ('A.sasl.jaas.config = org.Plain required username="u" password="hunter2";', True),
        ('A.sasl.jaas.config = org.Plain required username="u" password="${env:P}" apiKey="hunter2";', True),
        ("A.sasl.jaas.config = broken hunter2", True),
        ("A.sasl.oauthbearer.token.endpoint.url = https://me:hunter2@idp/token", True),
        ("A.bootstrap.servers = h:1", False),
        ("# password hunter2", False),
        *((f"{key} = hunter2", False) for key in NOT_SENT),
    ],
)
def test_secrets_in_literal_secrets_only(line: str, has_secret: bool) -> None:
    file = made(line)
    assert bool(secrets_in(file, ALIASES)) is has_secret
    assert "hunter2" not in "".join(secrets_in(file, ALIASES))
    assert "hunter2" not in repr(file)
    if not has_secret:
        assert not any("hunter2" in entry.value for entry in sent_file(file, ALIASES).entries)


def test_sent_file_gives_the_same_settings() -> None:
    file = made(
        "A.bootstrap.servers = h:1",
        "B.bootstrap.servers = i:1",
        "B.security.protocol = SASL_SSL",
        'B.sasl.jaas.config = org.Plain required username="u" password="${env:PASSWORD}";',
        "A->B.enabled = true",
        "A->B.topics = t.*",
        "topics = ignored",
        "A.consumer.client.id = reader",
        "B.producer.client.id = writer",
        "B.offset.storage.topic = offsets",
        "tasks.max = 4",
        "some.plugin.setting = 1",
    )
    sent = sent_file(file, ALIASES)
    assert {entry.key for entry in file.entries} - {entry.key for entry in sent.entries} == {
        "tasks.max",
        "some.plugin.setting",
    }
    here, there = from_file(file), from_file(sent)
    assert (there.clusters, there.flows) == (here.clusters, here.flows)
