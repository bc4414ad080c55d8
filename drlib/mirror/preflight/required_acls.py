"""Define the rights that the mirror needs, and the `kafka-acls.sh` command that grants one of them.

Rules: the minimum: the source is only read (except its offset-syncs topic, where the file configures one); a right is on one
topic, group or transactional ID, never on all. READ and WRITE imply DESCRIBE (Kafka's `AclOperation`), which is not listed
then. Commands are quoted for a POSIX shell. The principal is named only where it is certain: a listener without authentication
sees User:ANONYMOUS; a literal user name in `sasl.jaas.config` is the principal, and nothing else is read from the login. For
certificates, tokens and tickets only the broker knows it.
Not for: asking a cluster which rights are granted (`drlib.mirror.preflight.checks`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from drlib.kafka.security.cluster_settings import ClusterSettings

UNKNOWN_PRINCIPAL = "User:PRINCIPAL"  # to be replaced: only the broker knows the name
ANONYMOUS = "User:ANONYMOUS"  # every client of a listener without authentication

Kind = Literal["topic", "group", "cluster", "transactional-id"]
_USER: Final = re.compile(r"""\busername\s*=\s*(?:"([^"\\$]+)"|'([^'\\$]+)'|([^\s;"'$]+))""")
_IMPLIES = {"READ": {"DESCRIBE"}, "WRITE": {"DESCRIBE"}, "DELETE": {"DESCRIBE"}, "ALTER": {"DESCRIBE"}}
_IMPLIES_CONFIGS = {"ALTER_CONFIGS": {"DESCRIBE_CONFIGS"}}


@dataclass(frozen=True, slots=True)
class Right:
    """Operations, named as `AclOperation` does, on one resource; `name` is "" for the cluster."""

    kind: Kind
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False  # on every resource whose name starts with `name`

    def __str__(self) -> str:
        named = f" {self.name}{'*' if self.prefixed else ''}" if self.name else ""
        return f"{' and '.join(self.operations)} on {self.kind}{named}"


def missing(wanted: Right, granted: Iterable[str]) -> Right | None:
    """The part of `wanted` that is not `granted`; None when all of it is."""
    have = set(granted)
    if "ALL" in have:
        return None
    for operation in tuple(have):
        have |= _IMPLIES.get(operation, set()) | _IMPLIES_CONFIGS.get(operation, set())
    lacking = tuple(o for o in wanted.operations if o not in have)
    return Right(wanted.kind, wanted.name, lacking) if lacking else None


def command(
    right: Right, principal: str, bootstrap: Sequence[str], *, config: str = "", also_on: Sequence[str] = ()
) -> str:
    """The command line that grants `right` to `principal` at the cluster behind `bootstrap`.

    `config`: the file with the connection settings of the client that runs it, where it needs one. `also_on`: more resources of
    the right's kind, of which it grants the same.
    """
    arguments = ["kafka-acls.sh", "--bootstrap-server", ",".join(bootstrap)]
    arguments += ["--command-config", config] if config else []
    arguments += ["--add", "--allow-principal", principal]
    for operation in right.operations:
        arguments += ["--operation", _camel(operation)]
    for name in (right.name, *also_on):
        arguments += ["--cluster"] if right.kind == "cluster" else [f"--{right.kind}", name]
    arguments += ["--resource-pattern-type", "prefixed"] if right.prefixed else []
    return shlex.join(arguments)


def _camel(operation: str) -> str:
    """`DESCRIBE_CONFIGS` is `DescribeConfigs` on the command line."""
    return "".join(word.capitalize() for word in operation.split("_"))


def principal_of(cluster: ClusterSettings) -> str:
    """The principal, such as `User:ANONYMOUS`; `UNKNOWN_PRINCIPAL` where only the broker knows it."""
    protocol = cluster.security.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol == "PLAINTEXT":
        return ANONYMOUS
    mechanism = cluster.security.get("sasl.mechanism", "GSSAPI").strip().upper()
    if protocol.startswith("SASL") and (mechanism == "PLAIN" or mechanism.startswith("SCRAM-")):
        match = _USER.search(cluster.security.get("sasl.jaas.config", ""))
        if match is not None:
            return f"User:{next(filter(None, match.groups()))}"
    return UNKNOWN_PRINCIPAL
