"""How to connect to one cluster: its addresses, and its security keys with unresolved references.

Rules: secrets are resolved when a client is made, and never printed.
Not for: files (`drlib.config.settings`), librdkafka's configuration (`drlib.kafka.admin.connect`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drlib.kafka.security import java_keys as security
from drlib.kafka.security.credentials import Protocol, Security


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How to connect to one cluster. `security` holds Java's keys with unresolved references and is never printed."""

    alias: str
    bootstrap_servers: tuple[str, ...]
    security: Mapping[str, str] = field(default_factory=dict, repr=False)
    cluster_id: str = ""  # the required cluster ID; "" for any

    @property
    def secured(self) -> bool:
        """Whether connections use TLS or a login."""
        return security.protocol(self.alias, self.security) is not Protocol.PLAINTEXT

    def connection(self) -> Security:
        """`security` with references resolved and stores opened now. Raises `UsageError`."""
        return security.read(self.alias, self.security)
