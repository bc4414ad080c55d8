"""Certificates of a lab's own authority: for this machine's names, and valid for as long as was asked for."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from drlib.lab.brokers.certificates import HERE, Authority


def shown(file: Path, *options: str) -> str:
    done = subprocess.run(
        ["openssl", "x509", "-in", str(file), "-noout", *options], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def verdict(authority: Authority, file: Path) -> str:
    command = ["openssl", "verify", "-CAfile", str(authority.certificate), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_certificate_that_is_asked_for_until_a_second_expires_then(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    until = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    gone = authority.issue("broker", file="broker-LEFT-1", until=until)
    valid = authority.issue("broker", file="broker-LEFT-2")
    assert gone.name == "broker-LEFT-1.pem"
    assert ssl.cert_time_to_seconds(shown(gone, "-enddate").partition("=")[2]) == until.timestamp()
    assert "certificate has expired" in verdict(authority, gone)
    assert verdict(authority, valid) == f"{valid}: OK\n"
    for file in (gone, valid):
        assert "CN = broker" in shown(file, "-subject")
        names = shown(file, "-ext", "subjectAltName")
        assert all(name.partition(":")[2] in names for name in HERE)


def test_certificates_with_one_subject_do_not_hinder_each_other_and_leave_nothing_behind(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    until = datetime.now(UTC) + timedelta(hours=1)
    made = [authority.issue("broker", file=f"broker-{number}", until=until) for number in range(3)]
    assert authority.issue("broker", file="broker-0") == made[0]
    assert len({shown(file, "-serial") for file in made}) == 3
    left = {path.name for path in authority.folder.iterdir()} - {file.name for file in made}
    assert left == {"ca.pem", "ca.key"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (authority.folder, *authority.folder.iterdir()))
