"""Carries out the moves of `drlib.training.incidents.rules.moves` on the lab.

Rules: a move knows no cause and succeeds or fails as it would for any operator; it is judged later. It returns when it was
carried out, which may be before it takes effect. An error says what prevented it.
Not for: recording moves.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import KafkaAdminClient

from drlib import clock, decoding
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import clocks
from drlib.lab.brokers.renewal import renew_certificate
from drlib.lab.disk import Disk
from drlib.lab.workload.mirrors import has_crossed, partition_statuses
from drlib.lab.workload.topics import log_ends
from drlib.model import TopicPartition
from drlib.training.incidents.lab.inject import ANSWER_S, configure
from drlib.training.incidents.lab.inspections import ask_broker, describe_group, describe_topic, partitions_of, read_log
from drlib.training.incidents.lab.testbed import FLOW, GATES, PRODUCERS, IncidentTestbed
from drlib.training.incidents.rules.moves import Move

_A_DAY: Final = {"retention.ms": "86400000"}
_MIRRORING_S: Final = 10.0


def apply_move(testbed: IncidentTestbed, move: Move) -> str:
    """Carry out `move`; returns its outcome in words. Raises `DrlibError`."""
    try:
        return _MOVES[move.name](testbed, *move.arguments) or "done"
    except KafkaException as error:
        raise UsageError(f"{move} failed", error.args[0].str(), "Check the site, then try again.") from error


def _restart_broker(testbed: IncidentTestbed, site: str) -> str:
    """A process that is suspended does not react to SIGTERM and is killed, as a service manager does after a while.

    If it continued instead, it would write the requests in its sockets before it stops, without an answer; after its restart
    it knows only the last batch of each producer, refuses the retries of the others, and librdkafka's producers end for good.
    """
    broker = testbed.lab.clusters[site].brokers[0]
    if any(process.name == broker.name and process.paused for process in testbed.lab.status()):
        broker.kill()
    Disk(testbed.lab, site).start_broker()
    return f"the broker of {site} runs"


def _renew_certificate(testbed: IncidentTestbed, site: str) -> str:
    renew_certificate(testbed.lab.clusters[site])
    return f"{site} presents a new certificate; its broker was not restarted"


def _free_disk(testbed: IncidentTestbed, site: str) -> str:
    disk = Disk(testbed.lab, site)
    was_full = disk.full
    disk.free()
    return f"the disk of {site} has free space" + ("" if was_full else ", as it had before")


def _heal_link(testbed: IncidentTestbed, site: str) -> str:
    testbed.lab.proxy.clear(site)
    return f"the link to {site} is repaired"


def _raise_retention(testbed: IncidentTestbed, topic: str) -> str:
    configure(testbed, topic, _A_DAY)
    return f"{topic} retains records for one day"


def _restart_mirror(testbed: IncidentTestbed) -> str:
    testbed.worker.stop()
    testbed.worker.launch()
    return "the worker was restarted"


def _stop_mirror(testbed: IncidentTestbed) -> str:
    testbed.worker.stop()
    return "the worker is stopped"


def _enable_sync(testbed: IncidentTestbed) -> str:
    testbed.write_properties(group_sync=True)
    return _restart_mirror(testbed)


def _abort_transaction(testbed: IncidentTestbed, topic: str) -> str:
    """Find the transactional IDs with an open transaction in `topic` (KIP-664) and fence them.

    The coordinator aborts an open transaction when its transactional ID is initialized again (InitProducerId).
    """
    with testbed.cluster("LEFT") as cluster:
        partitions = partitions_of(cluster, topic)
    admin = KafkaAdminClient(**_of_kafka_python(testbed.settings("LEFT")))
    try:
        states = admin.describe_producers([KafkaTopicPartition(topic, at.partition) for at in partitions])
        listed = admin.list_transactions()
    finally:
        admin.close()
    open_producers = {
        producer.producer_id
        for state in states.values()
        for producer in state.active_producers
        if producer.current_transaction_start_offset >= 0
    }
    transactions = [transaction for of_broker in listed.values() for transaction in of_broker]
    ids = [transaction.transactional_id for transaction in transactions if transaction.producer_id in open_producers]
    for transactional_id in ids:
        Producer({**testbed.client("LEFT"), "transactional.id": transactional_id}).init_transactions(30)
    return f"aborted: {', '.join(ids)}" if ids else f"no transaction is open in {topic}"


def _of_kafka_python(settings: ClusterSettings) -> dict[str, object]:
    """The settings of kafka-python for a site without logins."""
    servers: dict[str, object] = {"bootstrap_servers": list(settings.bootstrap_servers)}
    if not settings.security:
        return servers
    keys = settings.security
    return {**servers, "security_protocol": keys["security.protocol"], "ssl_cafile": keys["ssl.truststore.location"]}


def _remove_acl(testbed: IncidentTestbed, site: str, topic: str) -> str:
    acl_filter = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    admin = AdminClient(testbed.client(site))
    deleted = admin.delete_acls([acl_filter], request_timeout=ANSWER_S)[acl_filter].result(ANSWER_S + 1)
    return f"{len(deleted)} ACLs were deleted"


def _stop_application(testbed: IncidentTestbed, name: str) -> str:
    _require_application(testbed, name)
    testbed.stop_application(name)
    return f"{name} is stopped"


def _start_application(testbed: IncidentTestbed, name: str) -> str:
    if not testbed.start_application(name):
        raise UsageError(
            f"application {name}", "it runs, or it is none of those that work here", "See: drlib incident status"
        )
    return f"{name} is started"


def _set_clock(testbed: IncidentTestbed, name: str) -> str:
    _require_application(testbed, name)
    if name != GATES.name:
        return f"the clock of {name} was right already"
    clocks.set_back(testbed.lab.root, name, 0)
    testbed.start_side_application(name, "gates", "LEFT", GATES.name)  # it may have been stopped
    return f"the clock of {name} is right"


def _point(testbed: IncidentTestbed, name: str, site: str) -> str:
    readers = testbed.readers()
    known = (*PRODUCERS, *readers)
    if name not in known:
        raise UsageError(f"application {name}", "it works at one site only", f"Use one of {', '.join(known)}.")
    if name in readers and site == "RIGHT":
        _wait_mirrored(testbed, readers[name])
    testbed.move_application(name, site)
    return f"{name} works at {site}"


def _move_all(testbed: IncidentTestbed, site: str) -> str:
    for name in PRODUCERS:
        testbed.move_application(name, site)
    for name, topic in testbed.readers().items():
        if site == "RIGHT":
            _wait_mirrored(testbed, topic)
        testbed.move_application(name, site)
    return f"all applications work at {site}"


def _wait_mirrored(testbed: IncidentTestbed, topic: str) -> None:
    """Wait a limited time until `topic` is mirrored: its reader moves to where the mirror topic ends."""
    known = {partition.topic for partition in partition_statuses(testbed.worker.status())}
    if topic in known and testbed.mirror_runs():
        try:
            testbed.wait(f"{topic} is mirrored", lambda: is_mirrored(testbed, topic), _MIRRORING_S)
        except DrlibError:
            return  # source or link are down: the remaining records stay on LEFT


def is_mirrored(testbed: IncidentTestbed, topic: str) -> bool:
    """Report whether the worker has mirrored `topic` up to its end offsets on LEFT. Raises `Unreachable`."""
    return has_crossed(testbed.worker.status(), FLOW, log_ends(testbed.lab.clusters["LEFT"], [topic], timeout_s=2.0))


def _add_partitions(testbed: IncidentTestbed, site: str, topic: str) -> str:
    with testbed.cluster("LEFT") as left, testbed.cluster(site) as cluster:
        wanted, count = len(partitions_of(left, topic)), len(partitions_of(cluster, topic, site))
        if count >= wanted:
            return f"{topic} has {count} partitions on {site} already"
        cluster.create_partitions(topic, wanted)
    return f"{topic} has {wanted} partitions on {site}"


def _move_group(testbed: IncidentTestbed, group: str, topic: str, *, to_end: bool) -> str:
    with testbed.cluster("LEFT") as left:
        partitions = partitions_of(left, topic)
        offsets = left.log_ends(partitions) if to_end else left.log_starts(partitions)
        left.alter_group_offsets(group, {p: CommittedOffset(offset) for p, offset in offsets.items()})
    return f"{group} is at the {'end' if to_end else 'start'} of {topic}"


def _skip_record(testbed: IncidentTestbed, group: str, topic: str, partition: str) -> str:
    at = TopicPartition(topic, decoding.integer(partition.encode()))
    with testbed.cluster("LEFT") as left:
        committed = left.group_offsets(group)
        if at not in committed:
            raise UsageError(
                f"group {group}", f"it has no committed offset in {topic}-{partition}", "See: describe-group LEFT GROUP"
            )
        left.alter_group_offsets(group, {at: CommittedOffset(committed[at].offset + 1)})
    return f"{group} continues at offset {committed[at].offset + 1} of {topic}-{partition}"


def _move_group_back(testbed: IncidentTestbed, group: str, seconds: str) -> str:
    at_ms = clock.now_ms() - decoding.integer(seconds.encode()) * 1000
    with testbed.cluster("LEFT") as left:
        committed = left.group_offsets(group)
        if not committed:
            raise UsageError(f"group {group}", "it has no committed offsets on LEFT", "See: drlib incident status")
        found = left.offsets_at(committed, at_ms)
        earlier = {p: at for p, at in found.items() if 0 <= at < committed[p].offset}
        left.alter_group_offsets(group, {p: CommittedOffset(at) for p, at in earlier.items()})
    behind = sum(committed[p].offset - at for p, at in earlier.items())
    return f"{group} is {behind:,} records further back"


def _delete_topic(testbed: IncidentTestbed, site: str, topic: str) -> str:
    with testbed.cluster(site) as cluster:
        return f"{topic} is deleted" if cluster.delete_topic(topic) else f"{topic} did not exist"


def _require_application(testbed: IncidentTestbed, name: str) -> None:
    if name not in testbed.application_names():
        known = ", ".join(testbed.application_names())
        raise UsageError(f"application {name}", "there is no application of that name", f"Use one of {known}.")


_MOVES: Final[Mapping[str, Callable[..., str]]] = MappingProxyType(
    {
        "acknowledge": lambda _: "recorded",
        "describe-topic": describe_topic,
        "describe-group": describe_group,
        "read-log": read_log,
        "ask-broker": ask_broker,
        "restart-broker": _restart_broker,
        "renew-certificate": _renew_certificate,
        "free-disk": _free_disk,
        "heal-link": _heal_link,
        "raise-retention": _raise_retention,
        "restart-mirror": _restart_mirror,
        "enable-group-sync": _enable_sync,
        "abort-transaction": _abort_transaction,
        "remove-acl": _remove_acl,
        "stop-application": _stop_application,
        "start-application": _start_application,
        "set-clock": _set_clock,
        "point-application": _point,
        "grow-topic": _add_partitions,
        "group-to-start": lambda testbed, group, topic: _move_group(testbed, group, topic, to_end=False),
        "group-to-end": lambda testbed, group, topic: _move_group(testbed, group, topic, to_end=True),
        "move-applications": _move_all,
        "stop-mirror": _stop_mirror,
        "group-back": _move_group_back,
        "skip-record": _skip_record,
        "delete-topic": _delete_topic,
    }
)
