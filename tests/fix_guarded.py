"""A cluster with an authorizer, and Kafka's own kafka-acls.sh to change what it allows.

Its listeners know no names, so everybody is User:ANONYMOUS: a resource that has an ACL is open to those it names only.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence

import pytest

from drlib.lab import jars
from drlib.lab.lab import Lab

ACL_COMMAND = "org.apache.kafka.tools.AclCommand"  # what kafka-acls.sh runs
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def kafka_acls(arguments: Sequence[str]) -> str:
    """What kafka-acls.sh does with these arguments."""
    classpath = os.pathsep.join(map(str, jars.classpath("kafka")))
    argv = [str(jars.java().path), "-Xmx128m", "-cp", classpath, ACL_COMMAND, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One cluster, GUARDED, with an authorizer, which tests may stop and whose logs they may damage: it runs when they end."""
    with Lab(tmp_path_factory.mktemp("guarded"), ("GUARDED",), extra=GUARDED) as lab:
        yield lab
