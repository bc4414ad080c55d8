"""Which of a cluster's addresses is used."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from testbed_peer import listening

from drlib.errors import DrlibError
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.credentials import Security, Tls
from drlib.kafka.security.errors import Fault, SecurityFault
from drlib.lab.brokers.certificates import Authority


async def test_broker_whose_certificate_is_refused_does_not_keep_others_from_being_asked(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    asked = asyncio.Event()

    async def asks_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        asked.set()

    def server(authority: Authority) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(authority.issue("broker"))
        return made

    async with listening(asks_nothing, server(others)) as bad, listening(asks_nothing, server(ours)) as good:
        security = Security(tls=Tls(ca_pem=ours.certificate.read_text()))
        client = ClusterClient([f"127.0.0.1:{bad}", f"127.0.0.1:{good}"], security=security, timeout_s=5)
        with pytest.raises(DrlibError) as met:  # the other one is no broker
            await client.connect()
        assert asked.is_set()
        await client.close()
        assert isinstance(met.value, SecurityFault)
        assert met.value.fault is Fault.UNKNOWN_CA
