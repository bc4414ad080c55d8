"""Secured listeners of a lab: certificates, users with random passwords, and the configuration of brokers and clients.

Rules: CLIENT, LINK, APPS and further listeners have the requested protocol; brokers authenticate to each other and to their
controllers with SASL and a password of their own. Every password is random and stored in one 0600 file; all other places hold
a reference to it (`${file:...}`), which Kafka and drlib resolve alike; none is an argument of a process. With `acls` clients
are authorized: each role has a user, the brokers and `ADMIN` are super users, and listeners offer the chosen mechanism only.
Source: Kafka's `listener.name.*` overrides, KIP-84 (SCRAM), KIP-421 (references in a broker's file), KIP-371 (names of
certificates as principals).
Not for: which rights a role has (`drlib.lab.brokers.acls`).
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
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

USER: Final = "mirror"  # the user of CLIENT, LINK, APPS and further listeners
BROKER: Final = "broker"  # the user of brokers and controllers, and of the lab itself
ADMIN: Final = "admin"  # with `acls`, a super user for people and for what a lab does at CLIENT
APPLICATION: Final = "application"
DRILL: Final = "drill"
ROLES: Final = (USER, DRILL, "doctor", "audit", APPLICATION)  # the users with rights of their own
INTERNAL: Final = "INTERNAL"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_BEARER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
_PROVIDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
)
_OURS: Final = ("SASL_PLAINTEXT", "PLAIN")  # between brokers, on 127.0.0.1


@dataclass(frozen=True, slots=True)
class LabSecurity:
    """What the listeners of a lab require. SASL listeners offer every mechanism; `mechanism` is the one clients use.

    `more`: further listeners by name (capitals), for example `{"PLAIN_TEXT": "PLAINTEXT"}`. `acls`: clients are authorized.
    """

    protocol: str = "SASL_SSL"
    mechanism: str = "SCRAM-SHA-512"
    client_certificates: bool = False  # ssl.client.auth=required on TLS listeners
    more: Mapping[str, str] = field(default_factory=dict)
    acls: bool = False

    @property
    def users(self) -> tuple[str, ...]:
        """The users of clients."""
        return (*ROLES, ADMIN) if self.acls else (USER,)

    @property
    def listeners(self) -> dict[str, Protocol]:
        """The listeners for clients, by name."""
        named = {**dict.fromkeys(("CLIENT", "LINK", "APPS"), self.protocol), **self.more}
        return {name: Protocol(protocol) for name, protocol in named.items()}


# What `drlib lab up --secured MODE` sets up. Clients of `tls` have no name, so no rule could tell them apart.
MODES: Final[Mapping[str, LabSecurity]] = MappingProxyType(
    {
        "tls": LabSecurity("SSL"),
        "mtls": LabSecurity("SSL", client_certificates=True, acls=True),
        "plain": LabSecurity(mechanism="PLAIN", acls=True),
        "scram": LabSecurity(acls=True),
        "oauthbearer": LabSecurity(mechanism="OAUTHBEARER", acls=True),
    }
)


class Vault:
    """The certificates and passwords of one lab, in its folder."""

    def __init__(self, root: Path, security: LabSecurity) -> None:
        self.security = security
        self.passwords = root / "passwords.properties"
        self.authority = Authority(root / "certificates")
        self._clients = root / "clients"

    def prepare(self) -> None:
        """Create missing passwords and certificates. Raises `MissingDependency`."""
        if not self.passwords.exists():
            made = {user: secrets.token_urlsafe(24) for user in (*self.security.users, BROKER)}
            write_whole(self.passwords, javaproperties.dumps(made, timestamp=None))
        for name in ("broker", *(self._certificate(user) for user in self.security.users)):
            self.authority.issue(name)

    def default_user(self, listener: str) -> str:
        """Whom a client of `listener` logs in as unless it is said: the mirror at LINK, the lab's admin elsewhere."""
        return USER if listener == "LINK" or not self.security.acls else ADMIN

    def broker_properties(self) -> dict[str, str]:
        """The broker configuration of the listeners, without addresses."""
        ours = self._reference(BROKER)
        theirs = " ".join(f'user_{user}="{self._reference(user)}"' for user in self.security.users)
        mechanisms = (self.security.mechanism,) if self.security.acls else MECHANISMS
        protocols = {**self.security.listeners, INTERNAL: Protocol(_OURS[0]), "CONTROLLER": Protocol(_OURS[0])}
        made = {
            **_PROVIDER,
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": INTERNAL,
            "sasl.mechanism.inter.broker.protocol": _OURS[1],
            "sasl.mechanism.controller.protocol": _OURS[1],
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.issue("broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
        }
        if self.security.acls:
            made |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:{BROKER};User:{ADMIN}",
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
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
            made[f"{at}.sasl.enabled.mechanisms"] = ",".join(mechanisms)
            made[f"{at}.plain.sasl.jaas.config"] = f"{_PLAIN} {theirs};"
            made[f"{at}.scram-sha-256.sasl.jaas.config"] = f"{_SCRAM};"
            made[f"{at}.scram-sha-512.sasl.jaas.config"] = f"{_SCRAM};"
            made[f"{at}.oauthbearer.sasl.jaas.config"] = f'{_BEARER} unsecuredLoginStringClaim_sub="{BROKER}";'
        return made

    def client_properties(self, listener: str = "CLIENT", mechanism: str = "", user: str = "") -> dict[str, str]:
        """Java's security keys for a client of `listener` that logs in as `user`, passwords as references."""
        user = user or self.default_user(listener)
        protocol = self.security.listeners[listener]
        made = {"security.protocol": str(protocol)}
        if protocol.encrypted:
            made |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.certificate)}
            if self.security.client_certificates:
                made |= {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.location": str(self.authority.issue(self._certificate(user))),
                }
        if protocol.authenticated:
            made["sasl.mechanism"] = mechanism = mechanism or self.security.mechanism
            made["sasl.jaas.config"] = {
                "PLAIN": f'{_PLAIN} username="{user}" password="{self._reference(user)}";',
                "OAUTHBEARER": f'{_BEARER} unsecuredLoginStringClaim_sub="{user}";',
            }.get(mechanism, f'{_SCRAM} username="{user}" password="{self._reference(user)}";')
        return made

    def client_file(self, user: str) -> Path:
        """A properties file of Java's clients, without an address, for a client of CLIENT that logs in as `user`."""
        path = self._clients / f"{user}.properties"
        if not path.exists():
            self._clients.mkdir(mode=0o700, exist_ok=True)
            write_whole(path, javaproperties.dumps({**_PROVIDER, **self.client_properties(user=user)}, timestamp=None))
        return path

    @property
    def application(self) -> str:
        """The user of the lab's applications."""
        return APPLICATION if self.security.acls else USER

    def broker_client(self) -> dict[str, object]:
        """librdkafka's configuration for INTERNAL, without addresses: for the lab's own requests."""
        jaas = f'{_PLAIN} username="{BROKER}" password="{self._reference(BROKER)}";'
        keys = {"security.protocol": _OURS[0], "sasl.mechanism": _OURS[1], "sasl.jaas.config": jaas}
        return librdkafka(read_security("lab", keys))

    def make_users(self, internal: str) -> None:
        """Create the users' SCRAM credentials through the INTERNAL listener `internal` (host:port). Raises `Unreachable`."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

        if not any(protocol.authenticated for protocol in self.security.listeners.values()):
            return
        users = self.security.users
        stored = read_properties(self.passwords).effective()
        admin = AdminClient({"bootstrap.servers": internal, "log_level": 0, **self.broker_client()})
        kinds: Iterable[Any] = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        for kind in kinds:  # a request can change each user once
            wanted = [
                UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), stored[user].value.encode())
                for user in users
            ]
            for changed in admin.alter_user_scram_credentials(wanted).values():
                changed.result(30)

        def known() -> bool:
            """Whether the broker has read the credentials from the controller's log."""
            try:
                found = [asked.result(10) for asked in admin.describe_user_scram_credentials(list(users)).values()]
            except KafkaException:
                return False
            return all(len(description.scram_credential_infos) == 2 for description in found)

        if not wait_until(known, 30):
            raise Unreachable(
                f"users {', '.join(users)} of the lab were not created",
                "the broker does not know them after 30 s",
                "Take the lab down and up: drlib lab down.",
            )

    def _certificate(self, user: str) -> str:
        """The name of the certificate of `user`."""
        return user if self.security.acls else "client"

    def _reference(self, user: str) -> str:
        return f"${{file:{self.passwords}:{user}}}"


def as_state(security: LabSecurity | None) -> dict[str, Any] | None:
    """The security settings in the lab's state file, which holds no secret."""
    return None if security is None else asdict(security)
