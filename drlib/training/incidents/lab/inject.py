"""Injects the causes of incidents: each is a real fault on the lab's clusters.

Rules: a literal table, one function for each cause. A fault lives in clusters, links and processes of the lab, so the
process that injected it may end. Faults of a broker or a link are injected last, because others may need them.
`inject_faults` returns when the faults are in place, which may be before they have symptoms.
Not for: recording an injection (`record`), nor undoing a fault (`moves`).
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from drlib.client import pointer_file
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net import requests
from drlib.lab import clocks
from drlib.lab.brokers.renewal import renew_certificate
from drlib.lab.brokers.security import LabSecurity
from drlib.lab.disk import Disk
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import acknowledged, create_topics, log_ends
from drlib.training.incidents.lab.java_application import CATERING
from drlib.training.incidents.lab.testbed import (
    GATES,
    GUARDED,
    LOADERS,
    MENUS,
    PRODUCERS,
    READERS,
    TLS,
    VOUCHERS,
    IncidentTestbed,
)
from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.moves import SITES
from drlib.training.incidents.rules.seed import causes_of

_LAST: Final = ("slow-link-retention", "link-cut-one-way", "full-disk", "broker-killed")
_OTHER_MENUS: Final = 40
_UNREAD: Final = 200
_AHEAD: Final = 12
_RETRIES: Final = 4
_AVRO: Final = b"\x00\x00\x00\x00\x07\x06AA1\x08"  # magic byte, schema ID, and a value of that schema
_LATEST_S: Final = 30.0
ANSWER_S: Final = 15.0  # of an admin client, which answers that it timed out: its futures alone say nothing
_VALID_S: Final = 2  # a certificate counts in seconds
EXPIRED: Final = "expired-certificate"
_RETENTION_MS: Final = {"retention.ms": "60000", "segment.ms": "5000"}
_SHORT_SEGMENTS: Final = {"segment.ms": "2000"}  # only a closed segment is deleted
ANALYTICS: Final = "User:analytics"


def require_suitable_lab(lab: Lab, causes: Collection[InjectedCause], level: int | None = None) -> None:
    """Raises `UsageError` if one of `causes` cannot be injected into `lab`, which was started for another purpose, or if it
    lacks the security that the labs of `level` have. Faults and moves are those of sites with one broker."""
    lab.require(SITES)
    names = {injected.cause for injected in causes}
    needs_tls = EXPIRED in names or (level is not None and needed_security(level) is not None)
    lacking = ""
    if any(len(cluster.brokers) > 1 for cluster in lab.clusters.values()):
        lacking = "it needs clusters of one broker each, and the lab's have more"
    elif "wrong-acl" in names and not _has_authorizer(lab):
        lacking = "it needs clusters with an authorizer, and the lab's brokers have none"
    elif "wrong-acl" in names and lab.operator:
        lacking = "it takes a right from a user without rights of its own, and this lab's users have rights by role"
    elif needs_tls and not lab.secured:
        lacking = "it needs clusters with TLS, and the lab's listeners have none"
    if lacking:
        raise UsageError(
            "this incident cannot use the lab",
            lacking,
            "Leave --lab-dir (lab_dir) out: the incident starts a suitable lab.",
        )


def needed_security(level: int) -> LabSecurity | None:
    """What the lab of an incident of `level` is started with: the same for each of its causes, so that it names none."""
    return TLS if EXPIRED in causes_of(level) else None


def _has_authorizer(lab: Lab) -> bool:
    key = "authorizer.class.name"
    texts = [
        (lab.root / broker.name / "server.properties").read_text()
        for cluster in lab.clusters.values()
        for broker in cluster.brokers
    ]
    return all(f"{key}={GUARDED[key]}" in text.replace(" ", "") for text in texts)


def inject_faults(testbed: IncidentTestbed, causes: Iterable[InjectedCause]) -> None:
    """Inject all of `causes`. Raises what the lab or a broker raises."""
    for injected in sorted(causes, key=lambda cause: _LAST.index(cause.cause) if cause.cause in _LAST else -1):
        _INJECTORS[injected.cause](testbed, injected)


def _kill_broker(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    testbed.lab.clusters[injected.where].kill()


def _cut_link(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    direction = "requests" if injected.how == "requests" else "responses"
    testbed.lab.proxy.set(injected.where, direction=direction, blackhole=True)  # type: ignore[arg-type]


def _slow_link(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    configure(testbed, "flights", _RETENTION_MS)
    testbed.lab.proxy.set(injected.where, direction="responses", bandwidth=float(injected.how))


def _recreate_topic(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    with testbed.cluster("LEFT") as left:
        left.delete_topic(MENUS.name)
        testbed.wait("the topic is deleted", lambda: not left.topics([MENUS.name]))
    create_topics(testbed.settings("LEFT"), [MENUS])
    testbed.write_menus(_OTHER_MENUS)


def _add_partitions(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    with testbed.cluster("LEFT") as left:
        left.create_partitions(injected.where, left.topics([injected.where])[injected.where].partitions + 2)


def _open_transaction(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    testbed.start_side_application("fare-import", "import", "LEFT", injected.where)


def _stop_sync(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    testbed.worker.stop()
    testbed.write_properties(group_sync=False)
    testbed.worker.launch()


def _write_foreign(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    testbed.start_side_application(injected.how, "writer", "RIGHT", f"LEFT.{injected.where}")


def _create_acl(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    acl = AclBinding(
        ResourceType.TOPIC,
        f"LEFT.{injected.where}",
        ResourcePatternType.LITERAL,
        ANALYTICS,
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    # The variable keeps the client alive: its destruction would end the call.
    admin = AdminClient(testbed.client("RIGHT"))
    admin.create_acls([acl], request_timeout=ANSWER_S)[acl].result(ANSWER_S + 1)


def _fill_disk(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    Disk(testbed.lab, injected.where).fill()


def _skew_clock(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    clocks.set_back(testbed.lab.root, GATES.name, int(injected.how) * 60_000)


def _set_clock_ahead(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    clocks.set_back(testbed.lab.root, injected.where, -int(injected.how) * 60_000)


def _split(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    """Move all applications but the producer of bookings and its reader, without waiting for unreplicated records."""
    testbed.move_application("flights", "RIGHT")
    testbed.wait("flights works at RIGHT", lambda: _works_at(testbed, "flights", "RIGHT"))
    for name, topic in READERS.items():
        if topic != injected.where:
            testbed.move_application(name, "RIGHT")


def _cut_retention(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    configure(testbed, injected.where, {"retention.ms": injected.how, **_SHORT_SEGMENTS})


def _collide(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    """Two producers with one producer ID: the first writes to LEFT, and its address then leads to RIGHT, where the second is.

    The first comes with a sequence that is among the last five of the second (a broker takes those for retries), and the
    second continues when the first is five and more ahead.
    """
    for site in SITES:
        create_topics(testbed.settings(site), [VOUCHERS])
    _assign_same_next_producer_id(testbed)
    first, second = LOADERS
    done = testbed.applications.done
    testbed.start_loader(second, "RIGHT")
    testbed.wait(f"{second} has written", lambda: done(second) >= _AHEAD)
    testbed.applications.pause(second)
    testbed.start_loader(first, "LEFT")
    testbed.wait(f"{first} has written nearly as much", lambda: done(first) >= done(second) - _RETRIES)
    testbed.move_application(first, "RIGHT")
    testbed.wait(f"{first} writes to RIGHT", lambda: done(first) >= done(second) + 2 * _RETRIES)
    testbed.applications.resume(second)


def _assign_same_next_producer_id(testbed: IncidentTestbed) -> None:
    """Use producer IDs up on the site that has assigned fewer."""
    used = {site: _use_producer_id(testbed, site) for site in SITES}
    for site in SITES:
        while used[site] < max(used.values()):
            used[site] = _use_producer_id(testbed, site)


def _use_producer_id(testbed: IncidentTestbed, site: str) -> int:
    async def ask() -> int:
        async with wire_client(testbed.lab.clusters[site].settings(), client_id="loader") as client:
            metadata = await client.metadata([])
            connection = await client.connection(min(metadata.brokers))
            return (await requests.init_producer_id(connection, None, 60_000))[0]

    return blocking(ask())


def _expire_certificate(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    """Give the site a certificate that expires in a moment, and restart one reader when it has."""
    until = datetime.now(UTC) + timedelta(seconds=_VALID_S)
    renew_certificate(testbed.lab.clusters[injected.where], until)
    testbed.wait("the certificate has expired", lambda: datetime.now(UTC) > until + timedelta(seconds=1))
    testbed.applications.stop(injected.how)
    testbed.start_application(injected.how)


def _fail_over_wrongly(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    """Kill RIGHT's broker, then move every application to it, those with a pointer first."""
    pointers = {name: testbed.pointer_to(name, "RIGHT") for name in (*PRODUCERS, *READERS)}
    testbed.lab.clusters["RIGHT"].kill()
    for name, pointer in pointers.items():
        if pointer is not None:
            pointer_file.write_atomic(testbed.pointer_path(name), pointer)
    if testbed.java.present:
        testbed.move_application(CATERING, "RIGHT")


def _suspend_broker(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    testbed.lab.clusters[injected.where].pause()


def _write_poison(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    with acknowledged(testbed.lab.clusters["LEFT"]) as producer:
        producer.produce(injected.where, key=b"AA1", value=_AVRO, partition=int(injected.how))


def _reset_to_latest(testbed: IncidentTestbed, injected: InjectedCause) -> None:
    """While the application is stopped, delete its group and let a consumer of that name start at the end."""
    group, topic = injected.where, READERS[injected.where]
    testbed.applications.stop(group)
    with testbed.cluster("LEFT") as left:
        left.delete_group(group)
    left_alone = sum(log_ends(testbed.lab.clusters["LEFT"], [topic]).values()) + _UNREAD
    testbed.wait(
        "records that nothing reads",
        lambda: sum(log_ends(testbed.lab.clusters["LEFT"], [topic]).values()) >= left_alone,
    )
    _commit_latest(testbed.client("LEFT"), group, topic)
    testbed.start_application(group)


def _commit_latest(client: Mapping[str, object], group: str, topic: str) -> None:
    """Consume as a group without offsets under auto.offset.reset=latest until every partition has one, and commit."""
    settings = {**client, "group.id": group, "auto.offset.reset": "latest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        until = time.monotonic() + _LATEST_S
        while True:
            consumer.poll(0.1)
            positions = consumer.position(consumer.assignment())
            if positions and all(at.offset >= 0 for at in positions):
                break
            if time.monotonic() > until:
                raise Unreachable(f"group {group} read nothing", f"waited {_LATEST_S:g} s", "Start another incident.")
        consumer.commit(offsets=positions, asynchronous=False)
    finally:
        consumer.close()


def _works_at(testbed: IncidentTestbed, name: str, site: str) -> bool:
    status = testbed.applications.status(name)
    return status is not None and status.cluster == site


def configure(testbed: IncidentTestbed, topic: str, settings: Mapping[str, str]) -> None:
    """Set configurations of a topic on LEFT. Raises `KafkaException`."""
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient(testbed.client("LEFT"))
    admin.incremental_alter_configs([resource], request_timeout=ANSWER_S)[resource].result(ANSWER_S + 1)


_INJECTORS: Final[Mapping[str, Callable[[IncidentTestbed, InjectedCause], None]]] = MappingProxyType(
    {
        "broker-killed": _kill_broker,
        "link-cut-one-way": _cut_link,
        "slow-link-retention": _slow_link,
        "topic-recreated": _recreate_topic,
        "partitions-added": _add_partitions,
        "open-transaction": _open_transaction,
        "stopped-group-sync": _stop_sync,
        "foreign-writer": _write_foreign,
        "wrong-acl": _create_acl,
        "full-disk": _fill_disk,
        "clock-skew": _skew_clock,
        "split-brain": _split,
        "retention-cut": _cut_retention,
        "clock-ahead": _set_clock_ahead,
        "reset-to-latest": _reset_to_latest,
        "poison-record": _write_poison,
        "half-dead-source": _suspend_broker,
        "wrong-failover": _fail_over_wrongly,
        "producer-id-collision": _collide,
        EXPIRED: _expire_certificate,
    }
)
