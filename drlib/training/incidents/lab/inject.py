"""Puts causes in: each one a real fault on the real clusters.

Rules: a literal match, one function each; what a cause leaves behind lives in clusters, links and processes of the
lab, so that whoever put it in may end. A broker or a link goes last, since other causes may need it. Returns when the
fault is in place, which is not yet when anybody can see it. Not for: saying that it happened (`record`), nor for
taking anything back (`repairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

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

from drlib.errors import UsageError
from drlib.lab import clocks
from drlib.lab.disk import Disk
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import create_topics
from drlib.training.incidents.lab.scene import GATES, GUARDED, MENUS, READERS, Scene
from drlib.training.incidents.rules.causes import Planted

_LAST: Final = ("slow-link-retention", "link-cut-one-way", "full-disk", "broker-killed")
_OTHER_MENUS: Final = 40
_RETENTION_MS: Final = {"retention.ms": "60000", "segment.ms": "5000"}
ANALYTICS: Final = "User:analytics"


def refuse_unfit(lab: Lab, causes: Iterable[Planted]) -> None:
    """Raises `UsageError` where a lab that somebody else started cannot have one of `causes`."""
    if any(planted.cause == "wrong-acl" for planted in causes) and not _guarded(lab):
        raise UsageError(
            "this incident",
            "it needs clusters with an authorizer, which that lab has not",
            "Leave the lab to the incident, which starts a fitting one.",
        )


def _guarded(lab: Lab) -> bool:
    key = "authorizer.class.name"
    texts = [
        (lab.root / broker.name / "server.properties").read_text()
        for cluster in lab.clusters.values()
        for broker in cluster.brokers
    ]
    return all(f"{key}={GUARDED[key]}" in text.replace(" ", "") for text in texts)


def put_in(scene: Scene, causes: Iterable[Planted]) -> None:
    """Put all of `causes` in. Raises what the lab or a broker raises."""
    for planted in sorted(causes, key=lambda one: _LAST.index(one.cause) if one.cause in _LAST else -1):
        _HOW[planted.cause](scene, planted)


def _kill_broker(scene: Scene, planted: Planted) -> None:
    scene.lab.clusters[planted.where].kill()


def _cut_link(scene: Scene, planted: Planted) -> None:
    direction = "requests" if planted.how == "requests" else "responses"
    scene.lab.proxy.set(planted.where, direction=direction, blackhole=True)  # type: ignore[arg-type]


def _slow_link(scene: Scene, planted: Planted) -> None:
    configure(scene, "flights", _RETENTION_MS)
    scene.lab.proxy.set(planted.where, direction="responses", bandwidth=float(planted.how))


def _recreate_topic(scene: Scene, planted: Planted) -> None:
    with scene.cluster("LEFT") as left:
        left.delete_topic(MENUS.name)
        scene.wait("the topic is gone", lambda: not left.topics([MENUS.name]))
    create_topics(scene.bootstrap("LEFT"), [MENUS])
    scene.print_menus(_OTHER_MENUS)


def _add_partitions(scene: Scene, planted: Planted) -> None:
    with scene.cluster("LEFT") as left:
        left.create_partitions(planted.where, left.topics([planted.where])[planted.where].partitions + 2)


def _open_transaction(scene: Scene, planted: Planted) -> None:
    scene.start_bystander("fare-import", "import", "LEFT", planted.where)


def _stop_sync(scene: Scene, planted: Planted) -> None:
    scene.worker.stop()
    scene.write_properties(group_sync=False)
    scene.start_mirror()


def _write_foreign(scene: Scene, planted: Planted) -> None:
    scene.start_bystander(planted.how, "writer", "RIGHT", f"LEFT.{planted.where}")


def _make_rule(scene: Scene, planted: Planted) -> None:
    rule = AclBinding(
        ResourceType.TOPIC,
        f"LEFT.{planted.where}",
        ResourcePatternType.LITERAL,
        ANALYTICS,
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": scene.bootstrap("RIGHT"), "log_level": 0})  # held: its end ends the call
    admin.create_acls([rule])[rule].result(15)


def _fill_disk(scene: Scene, planted: Planted) -> None:
    Disk(scene.lab, planted.where).fill()


def _skew_clock(scene: Scene, planted: Planted) -> None:
    clocks.set_back(scene.lab.root, GATES.name, int(planted.how) * 60_000)


def _split(scene: Scene, planted: Planted) -> None:
    """Everybody moves but the producer of bookings, and its reader with it; nobody waits for what is still to cross."""
    scene.point("flights", "RIGHT")
    scene.wait("flights works at RIGHT", lambda: _works_at(scene, "flights", "RIGHT"))
    for name, topic in READERS.items():
        if topic != planted.where:
            scene.point(name, "RIGHT")


def _works_at(scene: Scene, name: str, site: str) -> bool:
    told = scene.applications.status(name)
    return told is not None and told.cluster == site


def configure(scene: Scene, topic: str, settings: Mapping[str, str]) -> None:
    """Set keys of a topic on LEFT. Raises `KafkaException`."""
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()]
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": scene.bootstrap("LEFT"), "log_level": 0})
    admin.incremental_alter_configs([wanted])[wanted].result(15)


_HOW: Final[Mapping[str, Callable[[Scene, Planted], None]]] = MappingProxyType(
    {
        "broker-killed": _kill_broker,
        "link-cut-one-way": _cut_link,
        "slow-link-retention": _slow_link,
        "topic-recreated": _recreate_topic,
        "partitions-added": _add_partitions,
        "open-transaction": _open_transaction,
        "stopped-group-sync": _stop_sync,
        "foreign-writer": _write_foreign,
        "wrong-acl": _make_rule,
        "full-disk": _fill_disk,
        "clock-skew": _skew_clock,
        "split-brain": _split,
    }
)
