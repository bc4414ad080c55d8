"""Every protocol and mechanism of Kafka between two secured clusters, every fault by its name, and no secret anywhere.

One broker a cluster with a listener for each case; PLAIN_TEXT is where checkers read what came out.
"""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import javaproperties
import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization
from fix_engine import Engine, create_topic, latest_offsets, produce, read_all, wait_for

from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import gate
from drlib.errors import ReadinessError, UsageError
from drlib.kafka.admin.cluster import Cluster as Handle
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.java_formats.properties import read as read_properties
from drlib.kafka.java_formats.references import resolve
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import CANNOT_USE, Fault, SecurityFault
from drlib.lab.brokers.cluster import Cluster
from drlib.lab.brokers.security import BROKER, USER, LabSecurity
from drlib.lab.lab import Lab
from drlib.mirror.mm2 import writer
from drlib.mirror.mm2.records import OffsetSync
from drlib.mirror.mm2.writer import Mm2Writer
from drlib.mirror.status import worker_status as status
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition as Partition

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
OPEN = "PLAIN_TEXT"
SECURITY = LabSecurity(
    more={
        OPEN: "PLAINTEXT",
        "TLS": "SSL",
        "MUTUAL": "SSL",
        "LOGIN": "SASL_PLAINTEXT",
        "EXPIRED": "SSL",
        "ELSEWHERE": "SSL",
        "ONLY_SCRAM": "SASL_SSL",
        "SHORT": "SASL_SSL",
    },
)
SESSION_MS = 1500
SPELLINGS = ("127.0.0.1", "localhost")
CASES = [
    *((OPEN, ""), ("TLS", ""), ("MUTUAL", "")),
    *(("LOGIN", mechanism) for mechanism in MECHANISMS),
    *(("CLIENT", "PLAIN"), ("CLIENT", "SCRAM-SHA-256"), ("LINK", "SCRAM-SHA-512"), ("CLIENT", "OAUTHBEARER")),
]
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@dataclass(frozen=True, slots=True)
class Strangers:
    """PEM files of an authority that no broker of the lab trusts. Two listeners present its certificates."""

    authority: Path
    expired: Path
    elsewhere: Path
    client: Path


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Strangers:
    folder, authority = tmp_path_factory.mktemp("strangers"), trustme.CA()

    def store(name: str, host: str, not_after: datetime | None = None) -> Path:
        """A key store as Java reads it: the private key in PKCS #8, the certificate, its authority's."""
        leaf = authority.issue_cert(host, not_after=not_after)
        key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        chain = (*(blob.bytes() for blob in leaf.cert_chain_pems), authority.cert_pem.bytes())
        (folder / f"{name}.pem").write_bytes(b"".join((key.private_bytes(*form), *chain)))
        return folder / f"{name}.pem"

    authority.cert_pem.write_to_path(folder / "ca.pem")
    return Strangers(
        authority=folder / "ca.pem",
        expired=store("expired", "127.0.0.1", datetime.now(UTC) - timedelta(days=1)),
        elsewhere=store("elsewhere", "elsewhere.example"),
        client=store("client", "127.0.0.1"),
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, strangers: Strangers) -> Iterator[Lab]:
    extra = {
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.only_scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
    }
    for name, store in (("expired", strangers.expired), ("elsewhere", strangers.elsewhere)):
        extra[f"listener.name.{name}.ssl.keystore.type"] = "PEM"
        extra[f"listener.name.{name}.ssl.keystore.location"] = str(store)
    with Lab(tmp_path_factory.mktemp("secured"), extra=extra, security=SECURITY) as lab:
        yield lab


def reach(cluster: Cluster, listener: str, mechanism: str = "", **keys: str) -> ClusterSettings:
    """Settings for one listener; `keys` (with _ for .) replace Java's."""
    settings = cluster.settings(listener, mechanism)
    if listener == "MUTUAL":
        keys = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(_client(cluster)), **keys}
    changed = {key.replace("_", "."): value for key, value in keys.items()}
    return replace(settings, security={**settings.security, **changed})


def _client(cluster: Cluster) -> Path:
    return Path(cluster.settings("TLS").security["ssl.truststore.location"]).with_name("client.pem")


async def connect(settings: ClusterSettings) -> str:
    client = ClusterClient(settings.bootstrap_servers, security=settings.connection(), timeout_s=10)
    try:
        return (await client.connect()).cluster_id
    finally:
        await client.close()


async def fault_of(settings: ClusterSettings) -> SecurityFault:
    with pytest.raises(SecurityFault) as met:
        await connect(settings)
    assert settings.bootstrap_servers[0] in met.value.what
    assert met.value.why
    assert met.value.remedy
    return met.value


def flow(lab: Lab, root: Path, source: ClusterSettings, target: ClusterSettings) -> Engine:
    """An engine between two listeners; what it copied is read through the open ones."""
    tag = uuid.uuid4().hex[:6]
    left, right = (lab.clusters[alias].at(OPEN) for alias in ("LEFT", "RIGHT"))
    made = Engine(root, left, right, f"SRC{tag}", f"DST{tag}", f"orders-{tag}")
    for alias, settings in ((made.source, source), (made.target, target)):
        made.extra[f"{alias}.bootstrap.servers"] = ",".join(settings.bootstrap_servers)
        made.extra |= {f"{alias}.{key}": value for key, value in settings.security.items()}
    return made


def secrets_of(lab: Lab) -> tuple[str, ...]:
    """Every password of the lab, as it is and as it crosses a wire or a log."""
    words = [entry.value for entry in read_properties(lab.root / "passwords.properties").effective().values()]
    assert len(words) == 2
    assert all(len(word) > 20 for word in words)
    encoded = [base64.b64encode(word.encode()).decode().rstrip("=") for word in words]
    return (*words, *encoded)


def leaks(text: str, secrets: tuple[str, ...]) -> list[str]:
    return [word for word in secrets if word in text]


def command_lines() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def together(cases: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """The cases in as few lists as files can hold: two aliases of one file have no address in common."""
    rest = list(cases)
    while rest:
        taken: list[tuple[str, str]] = []
        for case in rest:
            if [listener for listener, _ in taken].count(case[0]) < len(SPELLINGS):
                taken.append(case)
        rest = [case for case in rest if case not in taken]
        yield taken


FILES = sorted(together(CASES), key=len)


@pytest.mark.parametrize(
    "cases",
    [FILES[0], *(pytest.param(cases, marks=pytest.mark.long) for cases in FILES[1:])],
    ids=lambda cases: f"{len(cases)}-flows",
)
def test_secured_mirror_copies_records_and_prints_no_secret(
    secured: Lab, tmp_path: Path, cases: list[tuple[str, str]]
) -> None:
    """One worker, a flow from each case to the next one: each is met once on either side."""
    left, right = secured.clusters["LEFT"], secured.clusters["RIGHT"]
    tag = uuid.uuid4().hex[:6]
    sources, targets = ([f"{side}{n}{tag}" for n in range(len(cases))] for side in ("S", "T"))
    extra = {"clusters": ", ".join((*sources, *targets))}
    for aliases, cluster in ((sources, left), (targets, right)):
        spelled: Counter[str] = Counter()
        for alias, case in zip(aliases, cases, strict=True):
            settings = reach(cluster, *case)
            host = SPELLINGS[spelled[case[0]]]
            spelled[case[0]] += 1
            extra[f"{alias}.bootstrap.servers"] = settings.bootstrap_servers[0].replace(SPELLINGS[0], host)
            extra |= {f"{alias}.{key}": value for key, value in settings.security.items()}
    engine = Engine(tmp_path, left.at(OPEN), right.at(OPEN), sources[0], targets[0], "none", extra)
    extra[f"{sources[0]}->{targets[0]}.enabled"] = "false"
    topics: dict[str, str] = {}
    for number, source in enumerate(sources):
        to = (number + 1) % len(cases)
        topics[source] = ".".join(filter(None, (*cases[number], "to", *cases[to], tag)))
        extra |= {f"{source}->{targets[to]}.enabled": "true", f"{source}->{targets[to]}.topics": topics[source]}
        create_topic(engine.left, topics[source], 2)
        produce(engine.left, topics[source], 300, partitions=2)
    try:
        engine.start()
        for topic in topics.values():
            engine.wait_caught_up(topic, 2)
        everything = command_lines()
        assert f"drlib.cli mirror {tmp_path / 'mm2.properties'}" in everything
        for source, topic in topics.items():
            replace(engine, source=source).assert_same(topic, 2)
        assert engine.stop(engine.processes[0]) == 0
    finally:
        engine.close()
    everything += "".join(path.read_text() for path in tmp_path.iterdir())
    assert not leaks(everything, secrets_of(secured))


def test_secured_mirror_through_the_link_proxy(secured: Lab, tmp_path: Path) -> None:
    path = secured.write_properties(tmp_path / "mm2.properties", topics="none")
    text = path.read_text()
    assert "LEFT.security.protocol=SASL_SSL" in text
    assert "${file:" in text.replace("\\:", ":")
    for alias in ("LEFT", "RIGHT"):
        cluster = secured.clusters[alias]
        engine_side = reach(cluster, "LINK")
        assert ",".join(engine_side.bootstrap_servers) == cluster.link_bootstrap
        assert asyncio.run(connect(engine_side)) == cluster.cluster_id
    assert Lab.attach(secured.root).clusters["LEFT"].settings() == secured.clusters["LEFT"].settings()


def test_cluster_handle_supports_every_mechanism(secured: Lab) -> None:
    left = secured.clusters["LEFT"]
    for listener, mechanism in CASES:
        with Handle(reach(left, listener, mechanism)) as cluster:
            assert cluster.cluster_id() == left.cluster_id


async def test_invalid_certificates_raise_distinct_faults(secured: Lab, strangers: Strangers) -> None:
    left = secured.clusters["LEFT"]
    trusting = {"ssl_truststore_location": str(strangers.authority)}
    foreign = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(strangers.client)}
    expected = [
        (reach(left, "EXPIRED", **trusting), Fault.CERTIFICATE_EXPIRED, "its certificate has expired"),
        (reach(left, "ELSEWHERE", **trusting), Fault.WRONG_HOST_NAME, "for another host name"),
        (reach(left, "TLS", **trusting), Fault.UNKNOWN_CA, "not issued by an authority that drlib trusts"),
        (reach(left, "TLS", ssl_truststore_location=""), Fault.UNKNOWN_CA, "not issued by an authority"),
        (reach(left, "MUTUAL", **foreign), Fault.CLIENT_CERTIFICATE_REFUSED, "does not accept the client certificate"),
        (reach(left, "MUTUAL", ssl_keystore_location=""), Fault.CLIENT_CERTIFICATE_REQUIRED, "none was presented"),
        (
            reach(left, "MUTUAL", ssl_keystore_location="", ssl_enabled_protocols="TLSv1.2"),
            Fault.CLIENT_CERTIFICATE_REQUIRED,
            "none was presented",
        ),
    ]
    for settings, fault, why in expected:
        met = await fault_of(settings)
        assert met.fault is fault
        assert why in met.why
    unchecked = reach(left, "ELSEWHERE", ssl_endpoint_identification_algorithm="", **trusting)
    assert await connect(unchecked) == left.cluster_id


async def test_cluster_is_reached_although_its_first_address_has_a_certificate_that_is_refused(secured: Lab) -> None:
    left = secured.clusters["LEFT"]
    good = reach(left, "TLS")
    bad = reach(left, "EXPIRED").bootstrap_servers
    settings = replace(good, bootstrap_servers=(*bad, *good.bootstrap_servers))
    assert await connect(settings) == left.cluster_id
    met = await fault_of(replace(good, bootstrap_servers=bad))
    assert met.fault in (Fault.UNKNOWN_CA, Fault.CERTIFICATE_EXPIRED)


async def test_refused_logins_raise_distinct_faults(secured: Lab) -> None:
    left = secured.clusters["LEFT"]
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        right_one = left.settings("LOGIN", mechanism).security["sasl.jaas.config"]
        wrong = right_one[: right_one.index("password=")] + 'password="Not-The-Password";'
        met = await fault_of(reach(left, "LOGIN", mechanism, sasl_jaas_config=wrong))
        assert met.fault is Fault.WRONG_CREDENTIALS
        assert mechanism in met.why
        assert "Not-The-Password" not in str(met)
    stale = f'{BEARER} unsecuredLoginStringClaim_sub="{USER}" unsecuredLoginLifetimeSeconds="-100";'
    assert (
        await fault_of(reach(left, "LOGIN", "OAUTHBEARER", sasl_jaas_config=stale))
    ).fault is Fault.WRONG_CREDENTIALS
    met = await fault_of(reach(left, "ONLY_SCRAM", "PLAIN"))
    assert met.fault is Fault.UNSUPPORTED_MECHANISM
    assert "sasl.mechanism PLAIN, only SCRAM-SHA-512" in met.why


@pytest.fixture
def renewed_login(secured: Lab, tmp_path: Path) -> tuple[ClusterSettings, Callable[[], object]]:
    """Settings whose password is in a file, not the right one yet; and what writes the right one there."""
    left, secret = secured.clusters["LEFT"], tmp_path / "secret.properties"
    jaas = left.settings("LOGIN", "SCRAM-SHA-256").security["sasl.jaas.config"]
    found = re.search(r'password="(.*?)"', jaas)
    assert found is not None
    secret.write_text("password=stale\n")
    good = f"password={resolve(found[1], 'the lab')}\n"
    changed = jaas.replace(found[1], f"${{file:{secret}:password}}")
    settings = reach(left, "LOGIN", "SCRAM-SHA-256", sasl_jaas_config=changed)
    return settings, lambda: secret.write_text(good)


async def test_client_that_runs_uses_secrets_and_certificates_that_were_renewed(
    secured: Lab, strangers: Strangers, tmp_path: Path, renewed_login: tuple[ClusterSettings, Callable[[], object]]
) -> None:
    left, store = secured.clusters["LEFT"], tmp_path / "client.pem"
    store.write_bytes(strangers.client.read_bytes())
    login, renew_password = renewed_login
    mutual = reach(left, "MUTUAL", ssl_keystore_location=str(store))
    renewals: list[tuple[ClusterSettings, Callable[[], object]]] = [
        (login, renew_password),
        (mutual, lambda: store.write_bytes(_client(left).read_bytes())),
    ]
    for settings, renew in renewals:
        async with wire_client(settings, client_id="for-months") as client:
            with pytest.raises(SecurityFault):
                await client.connect()
            renew()
            assert (await client.connect()).cluster_id == left.cluster_id


def test_heartbeats_are_written_again_once_the_password_was_renewed(
    secured: Lab,
    tmp_path: Path,
    renewed_login: tuple[ClusterSettings, Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their client, librdkafka's, does not say that a login is refused: records are just not answered."""
    monkeypatch.setattr(writer, "MESSAGE_TIMEOUT_MS", 1500, raising=False)
    monkeypatch.setattr(writer, "RENEW_S", 0.5, raising=False)
    login, renew = renewed_login
    engine = flow(secured, tmp_path, login, secured.clusters["RIGHT"].settings("TLS"))
    engine.extra["replication.policy.separator"] = "-"
    settings = load_mirror_settings(engine.properties).flow(engine.source, engine.target)
    where = secured.clusters["LEFT"].at(OPEN)
    create_topic(where, settings.offset_syncs_topic, 1)
    syncs = Mm2Writer(settings, login, secured.clusters["RIGHT"].settings("TLS"), EventLog())

    def write() -> None:
        syncs.offset_syncs([OffsetSync(Partition("orders", 0), 1, 1)])
        syncs.poll()

    def unanswered() -> bool:
        write()
        return syncs.failures > 0

    wait_for("they are not answered", unanswered, 30)
    renew()

    def written() -> bool:
        write()
        return latest_offsets(where, settings.offset_syncs_topic, 1) != {0: 0}

    wait_for("they are written", written, 20)
    syncs.close(1.0)


async def test_wrong_protocol_names_the_protocol_of_the_port(secured: Lab) -> None:
    left = secured.clusters["LEFT"]
    login = dict(left.settings("CLIENT").security)
    expected: Mapping[tuple[str, str], Fault] = {
        ("PLAINTEXT", "TLS"): Fault.PLAINTEXT_TO_TLS,
        ("SASL_PLAINTEXT", "CLIENT"): Fault.PLAINTEXT_TO_TLS,
        ("SSL", OPEN): Fault.TLS_TO_PLAINTEXT,
        ("SASL_SSL", "LOGIN"): Fault.TLS_TO_PLAINTEXT,
        ("PLAINTEXT", "LOGIN"): Fault.SASL_REQUIRED,
        ("SSL", "CLIENT"): Fault.SASL_REQUIRED,
        ("SASL_PLAINTEXT", OPEN): Fault.SASL_NOT_OFFERED,
        ("SASL_SSL", "TLS"): Fault.SASL_NOT_OFFERED,
    }
    for (protocol, listener), fault in expected.items():
        settings = replace(left.settings(listener), security={**login, "security.protocol": protocol})
        met = await fault_of(settings)
        assert met.fault is fault, (protocol, listener, str(met))
        assert protocol in met.why


def test_cluster_handle_and_command_report_the_same_fault(secured: Lab, tmp_path: Path) -> None:
    left, right = secured.clusters["LEFT"], secured.clusters["RIGHT"]
    jaas = left.settings("LOGIN", "PLAIN").security["sasl.jaas.config"]
    wrong = reach(left, "LOGIN", "PLAIN", sasl_jaas_config=jaas.replace(f'"{USER}"', '"nobody"'))
    began = time.monotonic()
    with pytest.raises(SecurityFault) as met, Handle(wrong) as cluster:
        cluster.cluster_id()
    assert met.value.fault is Fault.WRONG_CREDENTIALS
    assert time.monotonic() - began < 5  # librdkafka alone would go on trying until the time is up
    plain_to_tls = replace(left.settings("TLS"), security={})
    with pytest.raises(SecurityFault) as met, Handle(plain_to_tls, timeout_s=1.0) as cluster:
        cluster.cluster_id()
    assert met.value.fault is Fault.PLAINTEXT_TO_TLS
    engine = flow(secured, tmp_path, wrong, reach(right, "LOGIN", "PLAIN"))
    try:
        assert engine.start().wait(30) == SecurityFault.exit_code
    finally:
        engine.close()
    assert "it refused the login by PLAIN" in engine.log()
    assert "Traceback" not in engine.log()
    assert not leaks(engine.log(), secrets_of(secured))


def test_doctor_names_what_a_cluster_refuses_and_takes_it_for_no_dead_one(
    secured: Lab, strangers: Strangers, tmp_path: Path
) -> None:
    """A login, an authority or a host name that is refused: no restart of a broker helps, and no failover is due."""
    left, right = secured.clusters["LEFT"], secured.clusters["RIGHT"]
    jaas = left.settings("LOGIN", "PLAIN").security["sasl.jaas.config"]
    login = reach(left, "LOGIN", "PLAIN", sasl_jaas_config=jaas.replace(f'"{USER}"', '"stranger"'))
    elsewhere = reach(left, "ELSEWHERE", ssl_truststore_location=str(strangers.authority))
    good, refused = right.settings("TLS"), "sasl.jaas.config"
    cases = (
        (login, good, "source", refused),
        (reach(left, "EXPIRED"), good, "source", "ssl.truststore.location"),
        (elsewhere, good, "source", "bootstrap.servers"),
        (good, login, "target", refused),
    )
    for number, (source, target, side, setting) in enumerate(cases):
        root = tmp_path / str(number)
        root.mkdir()
        engine = flow(secured, root, source, target)
        (readiness,) = doctor(load_mirror_settings(engine.properties), runs=root)
        found = {finding.check: finding for finding in readiness.findings}
        assert setting in found[f"{side}-answers"].fix
        assert setting in found["cluster-ids"].fix
        about = [each for each in readiness.findings if CANNOT_USE in each.evidence]
        assert len(about) > 5, readiness.findings
        wrong = [each for each in readiness.findings if "Restore" in each.fix or "does not answer" in each.evidence]
        assert not wrong
        assert not readiness.source_lost
        with pytest.raises(ReadinessError) as closed:
            gate([readiness], 80)
        assert "emergency" not in str(closed.value)
        engine.close()


def test_session_is_renewed_under_the_same_claim(secured: Lab, tmp_path: Path) -> None:
    """A broker closes what was not renewed in time; a claim that ended with its connection would show a later epoch."""
    left, right = secured.clusters["LEFT"], secured.clusters["RIGHT"]
    engine = flow(secured, tmp_path, reach(left, "SHORT", "SCRAM-SHA-256"), reach(right, "SHORT"))
    try:
        create_topic(engine.left, engine.topics, 2)
        produce(engine.left, engine.topics, 100, partitions=2)
        engine.start()
        engine.wait_caught_up(engine.topics, 2)
        began, sent = time.monotonic(), 100
        while time.monotonic() - began < 2.2 * SESSION_MS / 1000:
            produce(engine.left, engine.topics, 50, partitions=2, first=sent)
            sent += 50
        engine.wait_caught_up(engine.topics, 2)
        engine.assert_same(engine.topics, 2)
        state = status.read(engine.status_path(0))
        epochs = {lane.epoch for flow_status in state.flows for lane in flow_status.lanes}
        assert epochs == {0}, engine.status_path(0).read_text()
        assert engine.stop(engine.processes[0]) == 0
    finally:
        engine.close()


def set_password(cluster: Cluster, user: str, password: str) -> None:
    """Of SCRAM-SHA-512, for logins and renewed sessions from now on."""
    admin = AdminClient({"bootstrap.servers": cluster.at(OPEN), "log_level": 0})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    changed = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, credential, password.encode())])
    changed[user].result(20)


def test_password_that_is_changed_while_a_mirror_runs_is_named_and_the_renewed_one_is_used(
    secured: Lab, tmp_path: Path
) -> None:
    """First the target's and then the source's: sessions end, and the file has the new one later."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    user, reached, files = f"u{uuid.uuid4().hex[:6]}", [], []
    for alias in ("LEFT", "RIGHT"):
        files.append(tmp_path / f"{alias}.properties")
        set_password(secured.clusters[alias], user, "the-first-Password")
        files[-1].write_text("password=the-first-Password\n")
        jaas = f'{module} username="{user}" password="${{file:{files[-1]}:password}}";'
        reached.append(reach(secured.clusters[alias], "SHORT", "SCRAM-SHA-512", sasl_jaas_config=jaas))
    engine = flow(secured, tmp_path, *reached)
    try:
        create_topic(engine.left, engine.topics, 1)
        produce(engine.left, engine.topics, 100, partitions=1)
        worker, sent = engine.start(), 100
        engine.wait_caught_up(engine.topics, 1)
        for alias, file, name in (("RIGHT", files[1], "LaneFault"), ("LEFT", files[0], "SourceUnreachable")):
            set_password(secured.clusters[alias], user, "the-second-Password")
            produce(engine.left, engine.topics, 50, partitions=1, first=sent)
            sent += 50

            def named(event: str = name) -> bool:
                found = [e for e in engine.events() if e.name == event and e.resolved_ms is None]
                return any("refused the login" in e.detail and "sasl.jaas.config" in e.remedy for e in found)

            wait_for(f"{name} with its remedy", named)
            file.write_text("password=the-second-Password\n")
            engine.wait_caught_up(engine.topics, 1)
        engine.wait_all_resolved()
        engine.assert_same(engine.topics, 1)
        assert engine.stop(worker) == 0
        assert not leaks(engine.log(), ("the-first-Password", "the-second-Password"))
    finally:
        engine.close()


class _TokenEndpoint(http.server.BaseHTTPRequestHandler):
    """An OAuth 2 token endpoint: one client, and tokens that the lab's brokers take."""

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        who = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        good = who == "drlib:endpoint-secret" and "grant_type=client_credentials" in form and "scope=kafka" in form
        claims = {"sub": USER, "scope": "kafka", "iat": time.time(), "exp": time.time() + 60}
        parts = [
            base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in ({"alg": "none"}, claims)
        ]
        body = json.dumps(
            {"access_token": ".".join(parts) + ".", "expires_in": 60} if good else {"error": "no"}
        ).encode()
        self.send_response(200 if good else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silence."""


def test_tokens_are_fetched_from_the_endpoint(secured: Lab) -> None:
    left = secured.clusters["LEFT"]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _TokenEndpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/token"

        def settings(secret: str) -> ClusterSettings:
            jaas = f'{BEARER} clientId="drlib" clientSecret="{secret}" scope="kafka";'
            return reach(left, "CLIENT", "OAUTHBEARER", sasl_jaas_config=jaas, sasl_oauthbearer_token_endpoint_url=url)

        assert asyncio.run(connect(settings("endpoint-secret"))) == left.cluster_id
        with Handle(settings("endpoint-secret")) as cluster:
            assert cluster.cluster_id() == left.cluster_id
        met = asyncio.run(fault_of_token(settings("Wrong-Secret")))
        assert met.fault is Fault.TOKEN_REFUSED
        assert "Wrong-Secret" not in str(met)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


async def fault_of_token(settings: ClusterSettings) -> SecurityFault:
    with pytest.raises(SecurityFault) as met:
        await connect(settings)
    return met.value


def test_java_stores_are_read_whatever_their_type_says(secured: Lab, tmp_path: Path) -> None:
    left = secured.clusters["LEFT"]
    authority = left.settings("TLS").security["ssl.truststore.location"]
    words = {"DRLIB_TEST_STORE": "Store-Password-1", "DRLIB_TEST_KEY": "Key-Password-3"}

    def run(*argv: str) -> None:
        done = subprocess.run(argv, env={"PATH": "/usr/bin:/bin", **words}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    openssl, keytool = shutil.which("openssl"), shutil.which("keytool")
    assert openssl
    assert keytool
    own, trust, old, own_old, older = (
        str(tmp_path / name) for name in ("own.p12", "trust.p12", "trust.jks", "own.jks", "trust.jceks")
    )
    run(openssl, "pkcs12", "-export", "-in", str(_client(left)), "-out", own, "-passout", "env:DRLIB_TEST_STORE")
    common = ("-storepass:env", "DRLIB_TEST_STORE", "-noprompt", "-alias", "ca", "-file", authority)
    run(keytool, "-importcert", "-keystore", trust, "-storetype", "PKCS12", *common)
    run(keytool, "-importcert", "-keystore", old, "-storetype", "JKS", *common)
    run(keytool, "-importcert", "-keystore", older, "-storetype", "JCEKS", *common)
    moved = ("-srcstorepass:env", "DRLIB_TEST_STORE", "-deststorepass:env", "DRLIB_TEST_STORE", "-srcalias", "1")
    run(
        keytool,
        "-importkeystore",
        "-noprompt",
        "-srckeystore",
        own,
        "-destkeystore",
        own_old,
        "-deststoretype",
        "JKS",
        *moved,
        "-srckeypass:env",
        "DRLIB_TEST_STORE",
        "-destkeypass:env",
        "DRLIB_TEST_KEY",
    )
    keys = {
        "ssl_truststore_location": trust,
        "ssl_truststore_type": "JKS",  # Java's default for the type, and it takes PKCS12 under that name as well
        "ssl_truststore_password": words["DRLIB_TEST_STORE"],
        "ssl_keystore_location": own,
        "ssl_keystore_type": "PKCS12",
        "ssl_keystore_password": words["DRLIB_TEST_STORE"],
    }
    assert asyncio.run(connect(reach(left, "MUTUAL", **keys))) == left.cluster_id
    with Handle(reach(left, "MUTUAL", **keys)) as cluster:
        assert cluster.cluster_id() == left.cluster_id
    jks = {
        **keys,
        "ssl_truststore_location": old,
        "ssl_keystore_location": own_old,  # of type PKCS12 by the file, which Java does not mind either
        "ssl_key_password": words["DRLIB_TEST_KEY"],
    }
    assert asyncio.run(connect(reach(left, "MUTUAL", **jks))) == left.cluster_id
    with Handle(reach(left, "MUTUAL", **jks)) as cluster:
        assert cluster.cluster_id() == left.cluster_id
    for base, changed in (
        (keys, {"ssl_truststore_location": older}),
        (keys, {"ssl_keystore_password": "Other-Password-2"}),
        (jks, {"ssl_truststore_password": "Other-Password-2"}),
        (jks, {"ssl_key_password": "Other-Password-2"}),
    ):
        with pytest.raises(UsageError) as refused:
            reach(left, "MUTUAL", **{**base, **changed}).connection()
        assert "-Password-" not in str(refused.value)
        assert ("keytool -importkeystore" in refused.value.remedy) == (older in refused.value.what)


def test_copy_is_secured_by_a_client_file_per_cluster(secured: Lab, tmp_path: Path) -> None:
    left, right = secured.clusters["LEFT"], secured.clusters["RIGHT"]
    topic = f"copied-{uuid.uuid4().hex[:6]}"
    create_topic(left.at(OPEN), topic, 2)
    produce(left.at(OPEN), topic, 200, partitions=2)
    arguments: list[str] = []
    for side, settings in (("from", reach(left, "CLIENT", "SCRAM-SHA-256")), ("to", reach(right, "MUTUAL"))):
        file = tmp_path / f"{side}.properties"
        file.write_text(javaproperties.dumps(dict(settings.security)))
        arguments += [f"--{side}", ",".join(settings.bootstrap_servers), f"--{side}-config", str(file)]
    argv = [sys.executable, "-m", "drlib.cli", "copy", *arguments, "--topics", topic, "--until-caught-up"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert read_all(right.at(OPEN), topic, 2) == read_all(left.at(OPEN), topic, 2)
    assert not leaks(done.stdout + done.stderr, secrets_of(secured))


def test_lab_passwords_are_in_one_private_file_only(secured: Lab) -> None:
    secrets = secrets_of(secured)
    reported = command_lines()
    assert "kafka.Kafka" in reported
    holding = {"ps": reported}
    for path in secured.root.rglob("*"):
        if path.is_file() and path.suffix in {".properties", ".json", ".jsonl", ".log", ".lock", ".pem"}:
            holding[path.name] = path.read_text(errors="replace")
    assert {"server.properties", "broker.log", "state.json", "proxy.log"} <= set(holding)
    assert [name for name, text in holding.items() if leaks(text, secrets)] == ["passwords.properties"]
    for private in (secured.root / "passwords.properties", *(secured.root / "certificates").glob("*.key")):
        assert private.stat().st_mode & 0o777 == 0o600
    assert not leaks(repr(reach(secured.clusters["LEFT"], "CLIENT", "PLAIN").connection()), secrets)
    assert BROKER in read_properties(secured.root / "passwords.properties").effective()
