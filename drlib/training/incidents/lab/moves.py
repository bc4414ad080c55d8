"""What an operator does, done: each move of `drlib.training.incidents.rules.moves` on the real lab.

Rules: a move knows no cause and works, or fails, as it would for anybody; right and wrong are judged later. It
returns when it was carried out, which is not yet when it helped. An error says what stood in its way. Not for:
writing down that it was done.
"""

from __future__ import annotations

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
from kafka import TopicPartition as At
from kafka.admin import KafkaAdminClient

from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.lab import clocks
from drlib.lab.disk import Disk
from drlib.lab.workload.mirrors import has_crossed, partition_statuses
from drlib.lab.workload.topics import log_ends
from drlib.model import TopicPartition
from drlib.training.incidents.lab.inject import configure
from drlib.training.incidents.lab.scene import FLOW, GATES, PRODUCERS, READERS, Scene
from drlib.training.incidents.rules.moves import Move

_A_DAY: Final = {"retention.ms": "86400000"}
_CROSSING_S: Final = 10.0


def carry_out(scene: Scene, move: Move) -> str:
    """Do it; returns what came of it in words. Raises `DrlibError`."""
    try:
        return _HOW[move.name](scene, *move.words) or "done"
    except KafkaException as error:
        raise UsageError(str(move), error.args[0].str(), "Look at the site, and try it again.") from error


def _restart_broker(scene: Scene, site: str) -> str:
    Disk(scene.lab, site).start_broker()
    return f"the broker of {site} serves"


def _free_disk(scene: Scene, site: str) -> str:
    disk = Disk(scene.lab, site)
    was = disk.full
    disk.free()
    return "there is room again" if was else "there was room enough"


def _heal_link(scene: Scene, site: str) -> str:
    scene.lab.proxy.clear(site)
    return f"the link to {site} is whole"


def _raise_retention(scene: Scene, topic: str) -> str:
    configure(scene, topic, _A_DAY)
    return f"{topic} keeps records for a day"


def _restart_mirror(scene: Scene) -> str:
    scene.worker.stop()
    scene.start_mirror()
    return "the worker was started again"


def _stop_mirror(scene: Scene) -> str:
    scene.worker.stop()
    return "no worker runs"


def _enable_sync(scene: Scene) -> str:
    scene.write_properties(group_sync=True)
    return _restart_mirror(scene)


def _abort_transaction(scene: Scene, topic: str) -> str:
    """Find who left it open (KIP-664), and fence that transactional ID: the coordinator aborts what is open
    (InitProducerId)."""
    left = scene.bootstrap("LEFT")
    with scene.cluster("LEFT") as cluster:
        found = cluster.topics([topic])
    if topic not in found:
        raise UsageError(f"topic {topic}", "LEFT has none of that name", "See: drlib incident status.")
    admin = KafkaAdminClient(bootstrap_servers=left.split(","))
    try:
        states = admin.describe_producers([At(topic, n) for n in range(found[topic].partitions)])
        listed = admin.list_transactions()
    finally:
        admin.close()
    holders = {
        one.producer_id
        for state in states.values()
        for one in state.active_producers
        if one.current_transaction_start_offset >= 0
    }
    every = [one for there in listed.values() for one in there]
    names = [one.transactional_id for one in every if one.producer_id in holders]
    for name in names:
        Producer({"bootstrap.servers": left, "transactional.id": name, "log_level": 0}).init_transactions(30)
    return f"aborted: {', '.join(names)}" if names else f"no transaction is open in {topic}"


def _remove_acl(scene: Scene, site: str, topic: str) -> str:
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    admin = AdminClient({"bootstrap.servers": scene.bootstrap(site), "log_level": 0})
    gone = admin.delete_acls([wanted])[wanted].result(15)
    return f"{len(gone)} rules were taken away"


def _stop_application(scene: Scene, name: str) -> str:
    _known(scene, name)
    scene.lab.registry.stop(name)
    return f"{name} is stopped"


def _set_clock(scene: Scene, name: str) -> str:
    _known(scene, name)
    if name != GATES.name:
        return f"the clock of {name} was right"
    clocks.set_back(scene.lab.root, name, 0)
    scene.start_bystander(name, "gates", "LEFT", GATES.name)  # where somebody had stopped it
    return f"the clock of {name} is right"


def _point(scene: Scene, name: str, site: str) -> str:
    if name not in (*PRODUCERS, *READERS):
        raise UsageError(
            f"application {name}", "it follows no pointer", f"Those that do: {', '.join((*PRODUCERS, *READERS))}."
        )
    if name in READERS and site == "RIGHT":
        _await_crossing(scene, READERS[name])
    scene.point(name, site)
    return f"{name} works at {site}"


def _move_all(scene: Scene, site: str) -> str:
    for name in PRODUCERS:
        scene.point(name, site)
    for name, topic in READERS.items():
        if site == "RIGHT":
            _await_crossing(scene, topic)
        scene.point(name, site)
    return f"every application works at {site}"


def _await_crossing(scene: Scene, topic: str) -> None:
    """Wait for what has yet to cross, as far as it does: the reader goes over where the mirror ends."""
    mirrored = {partition.topic for partition in partition_statuses(scene.mirror())}
    if topic in mirrored and scene.mirror_runs():
        try:
            scene.wait(f"{topic} has crossed", lambda: crossed(scene, topic), _CROSSING_S)
        except DrlibError:
            return  # the source is gone, or the link: what has not crossed stays behind


def crossed(scene: Scene, topic: str) -> bool:
    """Does the worker say that it has mirrored all that LEFT holds of `topic`? Raises `Unreachable`."""
    return has_crossed(scene.mirror(), FLOW, log_ends(scene.lab.clusters["LEFT"], [topic], timeout_s=2.0))


def _grow(scene: Scene, site: str, topic: str) -> str:
    with scene.cluster("LEFT") as left, scene.cluster(site) as there:
        wanted, found = left.topics([topic]), there.topics([topic])
        if topic not in wanted or topic not in found:
            raise UsageError(f"topic {topic}", "it is not on both sites", "See: drlib incident status.")
        if found[topic].partitions >= wanted[topic].partitions:
            return f"{topic} has {found[topic].partitions} partitions on {site} already"
        there.create_partitions(topic, wanted[topic].partitions)
    return f"{topic} has {wanted[topic].partitions} partitions on {site}"


def _group_to(scene: Scene, group: str, topic: str, *, end: bool) -> str:
    with scene.cluster("LEFT") as left:
        found = left.topics([topic])
        if topic not in found:
            raise UsageError(f"topic {topic}", "LEFT has none of that name", "See: drlib incident status.")
        every = [TopicPartition(topic, n) for n in range(found[topic].partitions)]
        places = left.log_ends(every) if end else left.log_starts(every)
        left.alter_group_offsets(group, {at: CommittedOffset(offset) for at, offset in places.items()})
    return f"{group} stands at the {'end' if end else 'start'} of {topic}"


def _delete_topic(scene: Scene, site: str, topic: str) -> str:
    with scene.cluster(site) as cluster:
        return f"{topic} is gone" if cluster.delete_topic(topic) else f"there was no {topic}"


def _known(scene: Scene, name: str) -> None:
    if name not in scene.application_names():
        known = ", ".join(scene.application_names())
        raise UsageError(f"application {name}", "there is none of that name", f"There are {known}.")


_HOW: Final[Mapping[str, Callable[..., str]]] = MappingProxyType(
    {
        "acknowledge": lambda _: "noted",
        "restart-broker": _restart_broker,
        "free-disk": _free_disk,
        "heal-link": _heal_link,
        "raise-retention": _raise_retention,
        "restart-mirror": _restart_mirror,
        "enable-group-sync": _enable_sync,
        "abort-transaction": _abort_transaction,
        "remove-acl": _remove_acl,
        "stop-application": _stop_application,
        "set-clock": _set_clock,
        "point-application": _point,
        "grow-topic": _grow,
        "group-to-start": lambda scene, group, topic: _group_to(scene, group, topic, end=False),
        "group-to-end": lambda scene, group, topic: _group_to(scene, group, topic, end=True),
        "move-applications": _move_all,
        "stop-mirror": _stop_mirror,
        "delete-topic": _delete_topic,
    }
)
