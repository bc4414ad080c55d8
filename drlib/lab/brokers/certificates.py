"""Certificates of a lab: its own authority, and certificates for 127.0.0.1 and localhost.

Rules: made by the `openssl` program (P-256, no passwords, files 0600 in a 0700 folder); only the lab's clients trust its
authority, which is removed with the lab's folder. Raises `MissingDependency` where there is no openssl.
Not for: production certificates.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from drlib.errors import MissingDependency
from drlib.files import write_whole
from drlib.outgoing.environment import child_environment

DAYS: Final = 825
HERE: Final = ("IP:127.0.0.1", "DNS:localhost")  # subject alternative names
# What `openssl ca` wants to write down, for one certificate.
_DATABASE: Final = """[ca]
default_ca=lab
[lab]
database={folder}/index.txt
serial={folder}/serial
new_certs_dir={folder}
default_md=sha256
policy=any
[any]
commonName=supplied
"""
_CURVE: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority in `folder`, created at its first use."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """The authority's certificate (PEM), for truststores."""
        return self.folder / "ca.pem"

    def prepare(self) -> None:
        """Create the authority's own certificate unless it exists."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.certificate.exists():
            return
        certificate = self.folder / "ca.draft"
        subject = ("-subj", f"/CN=drlib lab authority {os.urandom(4).hex()}", "-days", str(DAYS))
        _openssl("req", "-x509", *_CURVE, "-keyout", str(self._key), "-out", str(certificate), *subject)
        certificate.rename(self.certificate)

    def issue(self, name: str, *, file: str = "", until: datetime | None = None) -> Path:
        """One PEM file with the private key (PKCS8), the certificate for this machine's names, and the authority's.

        `file`: its name without `.pem`, if it is not `name`, which is the subject. `until`: when the certificate expires.
        """
        self.prepare()
        made = self.folder / f"{file or name}.pem"
        if made.exists():
            return made
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".issue-") as scratch:
            place = Path(scratch)
            key, request, signed = (place / part for part in ("key", "csr", "crt"))
            write_whole(place / "ext", f"subjectAltName={','.join(HERE)}\nextendedKeyUsage=serverAuth,clientAuth\n")
            _openssl("req", *_CURVE, "-keyout", str(key), "-out", str(request), "-subj", f"/CN={name}")
            made_by = ("-in", str(request), "-out", str(signed), "-extfile", str(place / "ext"))
            if until is None:
                authority = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial")
                _openssl("x509", "-req", *authority, "-days", str(DAYS), *made_by)
            else:  # `x509` counts in days
                write_whole(place / "ca.cnf", _DATABASE.format(folder=place))
                write_whole(place / "index.txt", "")
                begins = until - timedelta(days=DAYS)
                dates = ("-startdate", f"{begins:%Y%m%d%H%M%SZ}", "-enddate", f"{until:%Y%m%d%H%M%SZ}")
                authority = ("-cert", str(self.certificate), "-keyfile", str(self._key), "-rand_serial")
                _openssl("ca", "-batch", "-notext", "-config", str(place / "ca.cnf"), *authority, *dates, *made_by)
            write_whole(made, key.read_text() + signed.read_text() + self.certificate.read_text())
        return made

    @property
    def _key(self) -> Path:
        return self.folder / "ca.key"


def _openssl(*arguments: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise MissingDependency(
            "a lab's certificates cannot be made", "there is no openssl program on PATH", "Install openssl."
        )
    done = subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        umask=0o077,
        env=child_environment(),
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise MissingDependency(f"openssl {arguments[0]} failed", last[0], "Use OpenSSL 1.1.1 or newer.")
