"""Secured listeners of a lab: certificates, users with random passwords, and the configuration of brokers and clients.

Rules: CLIENT, LINK and further listeners have the requested protocol; brokers authenticate to each other and to their
controllers with SASL and a password of their own. Every password is random and stored in one 0600 file; all other places hold
a reference to it (`${file:...}`), which Kafka and drlib resolve alike; none is an argument of a process.
Source: Kafka's `listener.name.*` overrides, KIP-84 (SCRAM), KIP-421 (references in a broker's file).
Not for: ACLs; a lab's users may do everything.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import javaproperties

from drlib.errors import Unreachable
from drlib.files import write_whole
from drlib.kafka.java_formats.properties import read as read_properties
from drlib.kafka.security.credentials import Protocol
from drlib.kafka.security.java_keys import MECHANISMS, librdkafka
from drlib.kafka.security.java_keys import read as read_security
from drlib.lab.brokers.certificates import Authority
from drlib.lab.processes import wait_until

USER: Final = "mirror"  # the user of CLIENT, LINK and further listeners
BROKER: Final = "broker"  # the user of brokers and controllers, and of the lab itself
INTERNAL: Final = "INTERNAL"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_BEARER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
_OURS: Final = ("SASL_PLAINTEXT", "PLAIN")  # between brokers, on 127.0.0.1


@dataclass(frozen=True, slots=True)
class LabSecurity:
    """What the listeners of a lab require. SASL listeners offer every mechanism; `mechanism` is the one clients use.

    `more`: further listeners by name (capitals), for example `{"PLAIN_TEXT": "PLAINTEXT"}`.
    """

    protocol: str = "SASL_SSL"
    mechanism: str = "SCRAM-SHA-512"
    client_certificates: bool = False  # ssl.client.auth=required on TLS listeners
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def listeners(self) -> dict[str, Protocol]:
        """The listeners for clients, by name."""
        named = {"CLIENT": self.protocol, "LINK": self.protocol, **self.more}
        return {name: Protocol(protocol) for name, protocol in named.items()}


class Vault:
    """The certificates and passwords of one lab, in its folder."""

    def __init__(self, root: Path, security: LabSecurity) -> None:
        self.security = security
        self.passwords = root / "passwords.properties"
        self.authority = Authority(root / "certificates")

    def prepare(self) -> None:
        """Create missing passwords and certificates. Raises `MissingDependency`."""
        if not self.passwords.exists():
            made = {user: secrets.token_urlsafe(24) for user in (USER, BROKER)}
            write_whole(self.passwords, javaproperties.dumps(made, timestamp=None))
        for name in ("broker", "client"):
            self.authority.issue(name)

    def broker_properties(self) -> dict[str, str]:
        """The broker configuration of the listeners, without addresses."""
        ours, theirs = self._reference(BROKER), self._reference(USER)
        protocols = {**self.security.listeners, INTERNAL: Protocol(_OURS[0]), "CONTROLLER": Protocol(_OURS[0])}
        made = {
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": INTERNAL,
            "sasl.mechanism.inter.broker.protocol": _OURS[1],
            "sasl.mechanism.controller.protocol": _OURS[1],
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.issue("broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
        }
        for name in (INTERNAL, "CONTROLLER"):
            made[f"listener.name.{name.lower()}.sasl.enabled.mechanisms"] = _OURS[1]
            made[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] = (
                f'{_PLAIN} username="{BROKER}" password="{ours}" user_{BROKER}="{ours}";'
            )
        for name, protocol in self.security.listeners.items():
            at = f"listener.name.{name.lower()}"
            if protocol.encrypted and self.security.client_certificates:
                made[f"{at}.ssl.client.auth"] = "required"
            if not protocol.authenticated:
                continue
            made[f"{at}.sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
            made[f"{at}.plain.sasl.jaas.config"] = f'{_PLAIN} user_{USER}="{theirs}";'
            made[f"{at}.scram-sha-256.sasl.jaas.config"] = f"{_SCRAM};"
            made[f"{at}.scram-sha-512.sasl.jaas.config"] = f"{_SCRAM};"
            made[f"{at}.oauthbearer.sasl.jaas.config"] = f'{_BEARER} unsecuredLoginStringClaim_sub="{BROKER}";'
        return made

    def client_properties(self, listener: str = "CLIENT", mechanism: str = "") -> dict[str, str]:
        """Java's security keys for a client of `listener`, passwords as references."""
        protocol = self.security.listeners[listener]
        made = {"security.protocol": str(protocol)}
        if protocol.encrypted:
            made |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.certificate)}
            if self.security.client_certificates:
                made |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.authority.issue("client"))}
        if protocol.authenticated:
            made["sasl.mechanism"] = mechanism = mechanism or self.security.mechanism
            made["sasl.jaas.config"] = {
                "PLAIN": f'{_PLAIN} username="{USER}" password="{self._reference(USER)}";',
                "OAUTHBEARER": f'{_BEARER} unsecuredLoginStringClaim_sub="{USER}";',
            }.get(mechanism, f'{_SCRAM} username="{USER}" password="{self._reference(USER)}";')
        return made

    def broker_client(self) -> dict[str, object]:
        """librdkafka's configuration for INTERNAL, without addresses: for the lab's own requests."""
        jaas = f'{_PLAIN} username="{BROKER}" password="{self._reference(BROKER)}";'
        keys = {"security.protocol": _OURS[0], "sasl.mechanism": _OURS[1], "sasl.jaas.config": jaas}
        return librdkafka(read_security("lab", keys))

    def make_users(self, internal: str) -> None:
        """Create the SCRAM credentials of `USER` through the INTERNAL listener `internal` (host:port). Raises `Unreachable`."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

        if not any(protocol.authenticated for protocol in self.security.listeners.values()):
            return
        password = read_properties(self.passwords).effective()[USER].value.encode()
        admin = AdminClient({"bootstrap.servers": internal, "log_level": 0, **self.broker_client()})
        kinds: Iterable[Any] = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        for kind in kinds:  # a request can change each user once
            wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(kind, 4096), password)
            admin.alter_user_scram_credentials([wanted])[USER].result(30)

        def known() -> bool:
            """Whether the broker has read the credentials from the controller's log."""
            try:
                description = admin.describe_user_scram_credentials([USER])[USER].result(10)
            except KafkaException:
                return False
            return len(description.scram_credential_infos) == 2

        if not wait_until(known, 30):
            raise Unreachable(
                f"user {USER} of the lab was not created",
                "the broker does not know it after 30 s",
                "Take the lab down and up: drlib lab down.",
            )

    def _reference(self, user: str) -> str:
        return f"${{file:{self.passwords}:{user}}}"


def as_state(security: LabSecurity | None) -> dict[str, Any] | None:
    """The security settings in the lab's state file, which holds no secret."""
    return None if security is None else asdict(security)
