"""`ssl.enabled.protocols` binds librdkafka as well, against a server that offers one version of TLS only."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from drlib.kafka.security.credentials import Security, Tls
from drlib.kafka.security.java_keys import librdkafka


@contextlib.contextmanager
def server(version: ssl.TLSVersion, authority: trustme.CA) -> Iterator[tuple[int, list[str]]]:
    """A port that offers `version`, and what came of each connection: the version agreed on, or the reason for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.minimum_version = context.maximum_version = version
    outcomes: list[str] = []

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                connection.settimeout(10)
                try:
                    with context.wrap_socket(connection, server_side=True) as secured:
                        outcomes.append(secured.version() or "none")
                except ssl.SSLError as error:
                    outcomes.append(error.reason or "none")
                    connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            yield listening.getsockname()[1], outcomes
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(20)


@pytest.mark.parametrize(
    ("enabled", "offered", "agreed"),
    [
        (("TLSv1.3",), ssl.TLSVersion.TLSv1_2, "NO_SHARED_CIPHER"),
        (("TLSv1.3",), ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
        (("TLSv1.2", "TLSv1.3"), ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
        (("TLSv1.2", "TLSv1.3"), ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
    ],
)
def test_librdkafka_agrees_on_enabled_versions_of_tls_only(
    enabled: tuple[str, ...], offered: ssl.TLSVersion, agreed: str
) -> None:
    authority = trustme.CA()
    tls = Tls(ca_pem=authority.cert_pem.bytes().decode(), protocols=enabled)
    with server(offered, authority) as (port, outcomes):
        settings = librdkafka(Security(tls))
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, **settings})
        with pytest.raises(KafkaException):  # nothing behind the handshake
            admin.list_topics(timeout=2)
        del admin
    # a connection that the client gave up before it was agreed on anything says nothing about versions
    assert {outcome for outcome in outcomes if outcome != "UNEXPECTED_EOF_WHILE_READING"} == {agreed}
