"""A lab with Kafka's StandardAuthorizer, and kafka-acls.sh to change its ACLs.

Its listeners do not authenticate, so every client is User:ANONYMOUS; a resource with ACLs is open to their principals only.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from drlib.lab import jars
from drlib.lab.lab import Lab

ME = "User:ANONYMOUS"
ACL_COMMAND = "org.apache.kafka.tools.AclCommand"  # what kafka-acls.sh runs
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def kafka_acls(arguments: Sequence[str]) -> str:
    """Run kafka-acls.sh with these arguments; its output."""
    classpath = os.pathsep.join(map(str, jars.classpath("kafka")))
    argv = [str(jars.java().path), "-Xmx128m", "-cp", classpath, ACL_COMMAND, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def acl(
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    who: str = ME,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, who, "*", operation, permission)


def add_acls(bootstrap: str, *rules: AclBinding) -> None:
    """Create the ACLs one by one, in this order: permissions before denials."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for rule in rules:
        admin.create_acls([rule])[rule].result(10)


def drop_acls(bootstrap: str, kind: ResourceType, name: str) -> None:
    """Delete every ACL of the resource."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    literal, anything = ResourcePatternType.LITERAL, AclPermissionType.ANY
    whole = AclBindingFilter(kind, name, literal, None, None, AclOperation.ANY, anything)
    admin.delete_acls([whole])[whole].result(10)


@pytest.fixture(scope="session")
def authorizer_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One cluster, AUTHORIZED, with an authorizer. Tests may stop it and damage its logs, and leave it running."""
    with Lab(tmp_path_factory.mktemp("authorizer"), ("AUTHORIZED",), extra=AUTHORIZER) as lab:
        yield lab
