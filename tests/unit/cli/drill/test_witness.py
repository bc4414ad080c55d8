"""`drlib witness --certificate --key`: each file that cannot be used is named, with what is wrong with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from drlib.cli.drill.witness import _tls
from drlib.errors import UsageError
from drlib.lab.brokers.certificates import Authority


def refused(certificate: Path, key: Path) -> str:
    with pytest.raises(UsageError) as error:
        _tls(certificate, key)
    return str(error.value)


def test_file_of_tls_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    good, other = authority.issue("witness"), authority.issue("other")
    assert _tls(good, good) is not None
    missing, afile = tmp_path / "missing.pem", tmp_path / "afile"
    afile.write_text("x")
    assert refused(missing, good).startswith(f"--certificate {missing} cannot be read: No such file or directory.")
    assert refused(good, missing).startswith(f"--key {missing} cannot be read: No such file or directory.")
    assert refused(good, tmp_path).startswith(f"--key {tmp_path} cannot be read: ")
    assert refused(afile, afile).startswith(
        f"--certificate {afile} has no certificate: it has no line -----BEGIN CERTIFICATE-----."
    )
    assert refused(good, afile).startswith(f"--key {afile} has no private key: ")
    assert refused(good, authority.certificate).startswith(f"--key {authority.certificate} has no private key: ")
    assert refused(good, other).startswith(f"--key {other} cannot be used: it is not the key of {good}.")
    torn = tmp_path / "torn.pem"
    torn.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    assert refused(torn, good).startswith(f"--certificate {torn} cannot be used: it is damaged")
    torn.write_text("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n")
    assert refused(good, torn).startswith(f"--key {torn} cannot be used: it is damaged")
    encrypted = tmp_path / "encrypted.pem"
    words = ("openssl", "pkcs8", "-topk8", "-in", good, "-out", encrypted, "-passout", "pass:hush")
    subprocess.run(words, check=True, capture_output=True)
    assert refused(good, encrypted).startswith(f"--key {encrypted} cannot be used: it is encrypted.")
