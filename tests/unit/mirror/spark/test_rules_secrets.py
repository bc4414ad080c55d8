"""Secrets in a properties file that would be sent to executors."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.kafka.java_formats.properties import parse
from drlib.mirror.spark.rules import secrets_in


@pytest.mark.parametrize(
    ("line", "has_secret"),
    [
        ("A.ssl.keystore.password = hunter2", True),
        ("A.ssl.keystore.password = ${env:PASSWORD}", False),
        ("A.ssl.keystore.password = ${file:/etc/x:key}", False),
        ("A.ssl.keystore.password = p${env:PASSWORD}", True),
        ("A.ssl.keystore.password = ", False),
        ("A.sasl.jaas.config = ", False),
        ('A.sasl.jaas.config = org.Plain required username="u" password="${env:PASSWORD}";', False),
        ('A.sasl.jaas.config = org.Plain required username="u" password="hunter2";', True),
        ("A.sasl.jaas.config = broken hunter2", True),
        ("A.bootstrap.servers = h:1", False),
        ("# password hunter2", False),
    ],
)
def test_secrets_in_literal_secrets_only(line: str, has_secret: bool) -> None:
    file = parse(f"clusters = A, B\n{line}\n", Path("m.properties"))
    assert bool(secrets_in(file)) is has_secret
    assert "hunter2" not in "".join(secrets_in(file))
    if not has_secret:
        assert "hunter2" not in repr(file)  # comments are no entries
