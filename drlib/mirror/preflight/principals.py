"""Derive the Kafka principal from client settings, for the command that grants a missing right.

Rules: only where it is certain: a listener without authentication sees User:ANONYMOUS; a literal user name in
`sasl.jaas.config` is the principal. For certificates, tokens and tickets only the broker knows it. Nothing but the user name is
read from the login.
"""

from __future__ import annotations

import re
from typing import Final

from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.preflight.required_acls import ANONYMOUS, UNKNOWN_PRINCIPAL

_USER: Final = re.compile(r"""\busername\s*=\s*(?:"([^"\\$]+)"|'([^'\\$]+)'|([^\s;"'$]+))""")


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
