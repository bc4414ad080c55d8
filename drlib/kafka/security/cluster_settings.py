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

    @property
    def command_config(self) -> str:
        """What Kafka's tools need as `--command-config` to reach it, "" for nothing."""
        return self.admin_file if self.secured else ""

    @property
    def admin_file(self) -> str:
        """The client file of a user who may alter its ACLs, as commands name it. Clusters have logins of their own."""
        return f"{self.alias}-admin.properties"

    def tool(self, name: str) -> str:
        """How a command of one of Kafka's tools for this cluster begins."""
        config = f" --command-config {self.command_config}" if self.command_config else ""
        return f"{name} --bootstrap-server {','.join(self.bootstrap_servers)}{config}"

    def connection(self) -> Security:
        """`security` with references resolved and stores opened now. Raises `UsageError`."""
        return security.read(self.alias, self.security)
