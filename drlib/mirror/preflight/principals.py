"""Who a broker takes us for, as far as our own settings tell: for the command that grants a missing right.

Rules: a name is told only where it is certain: a listener without authentication sees User:ANONYMOUS, a user name that
stands literally in `sasl.jaas.config` is one. A certificate's subject, a token's or a ticket's owner are the broker's to
name. Nothing but the user name is ever taken out of the login.
"""

from __future__ import annotations

import re
from typing import Final

from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.preflight.required_acls import ANONYMOUS, UNKNOWN_PRINCIPAL

_USER: Final = re.compile(r"""\busername\s*=\s*(?:"([^"\\$]+)"|'([^'\\$]+)'|([^\s;"'$]+))""")


def principal_of(cluster: ClusterSettings) -> str:
    """Such as `User:ANONYMOUS`; `UNKNOWN_PRINCIPAL` where only the broker knows."""
    protocol = cluster.security.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol == "PLAINTEXT":
        return ANONYMOUS
    mechanism = cluster.security.get("sasl.mechanism", "GSSAPI").strip().upper()
    if protocol.startswith("SASL") and (mechanism == "PLAIN" or mechanism.startswith("SCRAM-")):
        found = _USER.search(cluster.security.get("sasl.jaas.config", ""))
        if found is not None:
            return f"User:{next(filter(None, found.groups()))}"
    return UNKNOWN_PRINCIPAL
