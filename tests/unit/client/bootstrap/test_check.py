"""Certificates that have the address, or not; clusters that do not answer; what counts as this machine's address."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from drlib.client.bootstrap import check, notes
from drlib.client.bootstrap.check import Own, check_cluster, compare_certificates, refuse_loop
from drlib.client.bootstrap.rules import CertificateName
from drlib.errors import UsageError
from drlib.kafka.net.cluster_client import Broker, ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings

LISTENING = (("127.0.0.1", 9092),)


@contextlib.asynccontextmanager
async def tls_cluster(folder: Path, *names: str) -> AsyncIterator[ClusterSettings]:
    """A server whose certificate has `names`, trusted by the cluster's settings."""
    authority, trusted = trustme.CA(), folder / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    keys = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted)}
    try:
        yield ClusterSettings("paris", (f"127.0.0.1:{server.sockets[0].getsockname()[1]}",), keys)
    finally:
        server.close()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster's own client gets an answer: this is about certificates."""

    async def answer(cluster: ClusterSettings, timeout_s: float) -> ClusterMetadata:
        return ClusterMetadata("id", 1, {1: Broker(1, "127.0.0.1", 1)}, {})

    monkeypatch.setattr(check, "first_answer", answer)


@pytest.mark.usefixtures("answering")
async def test_certificate_without_the_address_is_reported_and_one_with_it_is_not(tmp_path: Path) -> None:
    own = Own(LISTENING, (("kafka.example", 9092),))
    async with tls_cluster(tmp_path, "127.0.0.1") as without:
        (note,) = await check_cluster(without, own)
        assert (note.name, note.cluster) == (notes.CERTIFICATE, "paris")
        assert note.detail == f"{without.bootstrap_servers[0]} is not kafka.example"
    async with tls_cluster(tmp_path, "127.0.0.1", "kafka.example") as having:
        assert await check_cluster(having, own) == []


@pytest.mark.usefixtures("answering")
async def test_certificate_without_an_address_to_compare_is_not_checked_and_said(tmp_path: Path) -> None:
    async with tls_cluster(tmp_path, "127.0.0.1") as cluster:
        (note,) = await check_cluster(cluster, Own(LISTENING))
        assert note.name == notes.NOT_CHECKED
        assert "--address" in note.detail


@pytest.mark.usefixtures("answering")
async def test_certificate_of_a_server_that_is_not_trusted_is_another_fault(tmp_path: Path) -> None:
    """Clients say so themselves; the name is not what is wrong."""
    async with tls_cluster(tmp_path, "127.0.0.1") as cluster:
        trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
        assert await check_cluster(cluster, Own(LISTENING, (("kafka.example", 9092),))) == []


async def test_check_cluster_that_does_not_answer_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "CHECK_S", 0.2)
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    cluster = ClusterSettings("paris", (f"127.0.0.1:{silent.sockets[0].getsockname()[1]}",))
    (note,) = await check_cluster(cluster, Own(LISTENING))
    silent.close()
    assert note.name == notes.NOT_CHECKED
    assert note.detail.startswith("paris gave no answer")


@pytest.mark.parametrize(
    ("server", "listening", "leads_here"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092), True),
        ("localhost:9092", ("127.0.0.1", 9092), True),
        ("127.0.0.1:9093", ("127.0.0.1", 9092), False),
        ("127.0.0.1:9092", ("0.0.0.0", 9092), True),
        ("127.0.0.9:9092", ("0.0.0.0", 9092), True),
        ("192.0.2.1:9092", ("0.0.0.0", 9092), False),
        ("[::1]:9092", ("::", 9092), True),
        ("name.test.invalid:9092", ("127.0.0.1", 9092), False),
    ],
)
async def test_refuse_loop_compares_what_names_resolve_to(
    server: str, listening: tuple[str, int], leads_here: bool
) -> None:
    clusters = [ClusterSettings("paris", (server,))]
    if leads_here:
        with pytest.raises(UsageError, match="listens itself"):
            await refuse_loop(clusters, Own((listening,)))
    else:
        await refuse_loop(clusters, Own((listening,)))


async def test_certificates_compared_with_every_name_say_what_is_not_known(tmp_path: Path) -> None:
    async with tls_cluster(tmp_path, "127.0.0.1", "kafka.example") as cluster:
        compared = await compare_certificates(cluster, ["kafka.example", "other.example", "kafka.example"])
        (server,) = cluster.bootstrap_servers
        assert compared == (
            CertificateName(server, "kafka.example", named=True),
            CertificateName(server, "other.example", named=False),
        )
        trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
        (unknown,) = await compare_certificates(cluster, ["kafka.example"])
        assert unknown.named is None
        assert "its certificate is refused: " in unknown.why
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    (silent,) = await compare_certificates(cluster, ["kafka.example"])
    assert (silent.named, silent.why.startswith("no answer: ")) == (None, True)
    assert await compare_certificates(ClusterSettings("lyon", ("127.0.0.1:1",)), ["kafka.example"]) == ()
