"""Whether a flow waits because it is failed over: nothing of its source is mirrored while the applications are on its target.

After a failover the source may come back with records that were not mirrored. A worker that copied them would append them to
mirror topics that applications have read to the end, and to which they may never come back. So the flow is not mirrored until
they are settled and the applications have returned, or until people declare that the source serves.
Rules: the flow's last record in `drlib.drills.internal` on its target decides, with the pointer. A planned move is no reason to
wait: it has drained the flow. A pointer that names the source ends the wait, except while a failback runs: applications that
are moved by hand still read on the target until it has seen them at home. A record that cannot be read is no reason to wait,
and neither is a topic that may not be read, which is the event `FlowStateUnreadable`; the steps that settle records refuse to
begin while workers of the flow run.
Not for: the states (`drlib.drill.plan.states`), settling records (`drlib.mirror.offsets.unreplicated`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict

from drlib import decoding
from drlib.client.pointer_topic import read_pointer
from drlib.config.replication_policy import DRILLS_TOPIC, POINTER_TOPIC
from drlib.decoding import Undecodable
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.read_batches import log_ends
from drlib.mirror.status.event_log import EventLog
from drlib.mirror.threads import in_daemon
from drlib.model import Flow, TopicPartition

LOOK_S: Final = 2.0  # between two looks; each is two requests while nothing has changed
_ANSWER_S: Final = 3.0  # for a source that is still away to give its copy of the pointer
_PARTITION: Final = TopicPartition(DRILLS_TOPIC, 0)
_RETURNING: Final = frozenset({"reprotecting", "reprotect-incomplete", "reprotected", "failback-incomplete"})
_FAILING_OVER: Final = frozenset({"running", "incomplete"})


class FlowRecord(BaseModel):
    """What a worker needs of the record that drills keep of a flow."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    state: str
    run: str = ""
    mode: str | None = None


def decode(value: bytes | None) -> FlowRecord | None:
    """The record; None for a tombstone, and for what cannot be read."""
    try:
        return None if value is None else decoding.json_as(FlowRecord, value)
    except Undecodable:
        return None


def waits(record: FlowRecord | None, flow: Flow, active: str | None) -> bool:
    """Does `flow` wait? `active`: the cluster that the pointer names, None where that is not known."""
    if record is None:
        return False
    if record.state == "failing-back":
        return True
    if active == flow.source:
        return False
    if record.state in _FAILING_OVER:  # what was fetched is still delivered, until the applications have moved
        return record.mode == "emergency" and active == flow.target
    return record.state in _RETURNING or (record.state == "failed-over" and record.mode != "planned")


@dataclass(slots=True)
class FailedOverWatch:
    """Looks whether `flow` waits; `client` is the target's. `by` reports in `events` what may not be read."""

    flow: Flow
    source: ClusterSettings
    target: ClusterSettings
    client: ClusterClient
    events: EventLog
    by: str
    _end: int = -1  # of the topic, when the record was read last
    _record: FlowRecord | None = None

    async def look(self) -> FlowRecord | None:
        """The record for which the flow waits now; None: it does not. Raises `Unreachable`, `BrokerError`."""
        topics = (await self.client.metadata([DRILLS_TOPIC, POINTER_TOPIC])).topics
        self._report([name for name, topic in topics.items() if topic.error_code == TOPIC_AUTHORIZATION_FAILED])
        topic = topics.get(DRILLS_TOPIC)
        if topic is None or topic.error_code or not topic.partitions:
            return None
        end = (await log_ends(self.client, [_PARTITION])).ends[_PARTITION]
        if end != self._end:
            self._record = await in_daemon(lambda: _read(self.target, self.flow))
            self._end = end
        if not waits(self._record, self.flow, self.flow.target):
            return None
        if waits(self._record, self.flow, self.flow.source):
            return self._record
        active = await in_daemon(lambda: _active([self.target, self.source]))
        return self._record if waits(self._record, self.flow, active) else None

    def _report(self, refused: list[str]) -> None:
        flow = str(self.flow)
        if refused:
            detail = f"{self.target.alias} does not allow reading {', '.join(sorted(refused))}"
            self.events.open("FlowStateUnreadable", flow, detail, by=self.by)
        else:
            self.events.resolve("FlowStateUnreadable", flow, by=self.by)


def _read(target: ClusterSettings, flow: Flow) -> FlowRecord | None:
    value: bytes | None = None
    key = str(flow).encode()
    with Cluster(target) as cluster:
        start = cluster.log_starts([_PARTITION])[_PARTITION]
        end = cluster.log_ends([_PARTITION], Isolation.READ_COMMITTED)[_PARTITION]
        for record in cluster.read({_PARTITION: Range(start, end)}):
            if record.key == key:
                value = record.value
    return decode(value)


def _active(clusters: list[ClusterSettings]) -> str | None:
    try:
        pointer = read_pointer(clusters, timeout_s=_ANSWER_S).pointer
    except DrlibError:
        return None
    return None if pointer is None else pointer.active
