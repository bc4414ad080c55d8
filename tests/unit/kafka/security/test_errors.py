"""Why TLS failed, from what OpenSSL says of real certificates."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
from pathlib import Path

import pytest

from drlib.kafka.security.credentials import Tls
from drlib.kafka.security.errors import Fault, of_tls
from drlib.kafka.security.tls import context


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """A folder with root.pem, which issued middle.pem, which issued broker.pem; broker.chain is the last two."""
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    (tmp_path / "ca").write_text("basicConstraints=critical,CA:TRUE\n")
    (tmp_path / "names").write_text("subjectAltName=DNS:localhost\n")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=60)

    openssl("req", "-x509", *new_key, "-subj", "/CN=root", "-keyout", "root.key", "-out", "root.pem")
    for name, issuer, extensions in (("middle", "root", "ca"), ("broker", "middle", "names")):
        openssl("req", *new_key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        issued_by = ("-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key", "-CAcreateserial", "-extfile", extensions)
        openssl("x509", "-req", "-in", f"{name}.csr", *issued_by, "-out", f"{name}.pem")
    (tmp_path / "broker.chain").write_text(
        (tmp_path / "broker.pem").read_text() + (tmp_path / "middle.pem").read_text()
    )
    return tmp_path


def handshake(folder: Path, certificates: str, trusted: str) -> ssl.SSLError | None:
    """What a client that trusts `trusted` says to a broker that presents `certificates`."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / certificates, folder / "broker.key")
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(Tls(ca_pem=(folder / trusted).read_text())).wrap_bio(here, there, server_hostname="localhost")
    broker = server.wrap_bio(there, here, server_side=True)
    try:
        for _ in range(4):
            for side in (client, broker):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
    except ssl.SSLError as error:
        return error
    return None


def test_of_tls_names_the_authorities_that_are_missing_above_one_that_is_trusted(chain: Path) -> None:
    assert handshake(chain, "broker.chain", "root.pem") is None
    for certificates, trusted in (
        ("broker.chain", "middle.pem"),
        ("broker.pem", "middle.pem"),
        ("broker.pem", "broker.pem"),
    ):
        fault = of_tls(handshake(chain, certificates, trusted), "b:9093", "SSL", presented=False)
        assert fault is not None, (certificates, trusted)
        assert fault.fault is Fault.UNKNOWN_CA, (certificates, trusted, str(fault))
        assert "up to the root" in fault.remedy
