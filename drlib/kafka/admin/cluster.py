"""A blocking handle on one cluster, over confluent-kafka: topics, settings, log ends, groups, bounded reads.

Rules: every call has a deadline (`timeout_s`) and raises a `DrlibError`. An incomplete answer, such as groups listed by some
coordinators only, is an error and not a shorter list. Offsets are committed only for groups without members. librdkafka
prints nothing. It retries a refused login for ever, so drlib checks the login of a secured cluster first. Where one request
names many topics or groups, each has its own answer: an error of one does not fail the others.
Not for: mirroring, which speaks the protocol itself (`drlib.kafka`), and not for asyncio: calls block.
Longer than most modules: one handle has every blocking call.
"""

import asyncio
import contextlib
import copy
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, Self
from uuid import UUID

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from drlib.errors import DrlibError, NoBrokersYet, NoLeader, Unreachable
from drlib.kafka.admin import bounded_read, connect
from drlib.kafka.admin.connect import QUIET, blocking, wire_client
from drlib.kafka.admin.descriptions import (
    CommittedOffset,
    ConfigChange,
    ConfigSource,
    ConfigValue,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupState,
    Isolation,
    NewTopicSpec,
    Range,
    Record,
    Stretch,
    TopicDescription,
)
from drlib.kafka.admin.errors import (
    COORDINATOR_MOVES,
    LEADER_MOVES,
    NO_ANSWER,
    ClusterRefused,
    GroupNotEmpty,
    as_drlib_error,
    code_of,
)
from drlib.kafka.admin.group_offsets import commit, committed
from drlib.kafka.net.authorized_operations import cluster_rights
from drlib.kafka.net.cluster_client import NO_BROKERS_S
from drlib.kafka.net.group_requests import STREAMS, list_loaded_groups
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.topic_ids import reported
from drlib.model import TopicPartition

AT_ONCE: Final = 1000  # partitions in one request; a controller takes 10,000 (`ReplicationControlManager`)
DEFAULT_TIMEOUT_S: Final = 15.0
_STREAMS_S: Final = 2.0
MOST_MARKERS: Final = 500  # offsets of a partition that are looked through for records
_MARKERS_S: Final = 1.0  # what is found out so is no reason to hold anything up
_STATES: Final = {
    ConsumerGroupState.DEAD.name: GroupState.ABSENT,
    ConsumerGroupState.EMPTY.name: GroupState.EMPTY,
    ConsumerGroupState.UNKNOWN.name: GroupState.UNKNOWN,
}  # every other state has members
_ABSENT: Final = GroupDescription("DEAD")
_LEVELS: Final = {
    Isolation.READ_COMMITTED: IsolationLevel.READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED,
}
_MEMBERS_IN_THE_WAY: Final = ("UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP")
_LEAST_S: Final = 0.1  # for a call that begins after the end of its time
_RETRY_S: Final = 0.1  # between two requests to brokers that have just started
_PROPAGATION_POLL_S: Final = 0.01
_PROPAGATION_MOST_S: Final = 3.0  # another client may have re-created a deleted topic
# With connections on demand, the default, librdkafka 2.16 polls without a pause while a request waits for a broker that cannot
# be reached: one core for each handle, on the host that has to fail over.
_WITHOUT_SPIN: Final = {"enable.sparse.connections": False}


class Cluster:
    """`with Cluster(settings) as cluster:`. Every method may raise `Unreachable` or `ClusterRefused`.

    `timeout_s` is for each call, or with `together` for all of them, from entering on.
    Entering raises `UsageError` for security keys that cannot be used, `SecurityFault` for those that are refused.
    """

    def __init__(
        self, settings: ClusterSettings, *, timeout_s: float = DEFAULT_TIMEOUT_S, together: bool = False
    ) -> None:
        self.settings = settings
        self._each_s = timeout_s
        self._end = float("inf")
        self._together = together
        self._configuration: dict[str, object] = {}
        # The last one is used; they are also those of copies, which would otherwise keep them beyond their end.
        self._handles: list[Any] = []
        self._unanswered = threading.Event()  # was a call of the last handle without an answer?

    @property
    def _admin(self) -> Any:
        """The handle for the next call: another one after a call without an answer, as a handle may have lost all brokers for
        good (`drlib.kafka.broker_states`). The former one stays, for a call of another thread that waits for it."""
        if self._unanswered.is_set():
            self._unanswered.clear()
            self._open()
            del self._handles[:-2]
        return self._handles[-1]

    def _open(self) -> None:
        self._handles.append(AdminClient({**self._configuration, **_WITHOUT_SPIN}, logger=QUIET))

    @property
    def _timeout_s(self) -> float:
        """What the next call has."""
        return max(_LEAST_S, min(self._each_s, self._end - time.monotonic()))

    def within(self, timeout_s: float) -> Self:
        """This handle for calls of which each has at most `timeout_s`. It is open for as long as this one is."""
        found = copy.copy(self)
        found._each_s = min(self._each_s, timeout_s)
        return found

    def __enter__(self) -> Self:
        if self._together:
            self._end = time.monotonic() + self._each_s
        connect.check_login(self.settings, self._timeout_s)
        self._configuration = {**connect.librdkafka(self.settings), "log_level": 0, "error_cb": _ignore}
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        """The handle goes here and now: nothing else refers to it, so that Python's garbage collection never has to free it.
        That runs in any thread, also in the handle's own, which answers its requests; there librdkafka ends the process
        (`rd_kafka_destroy_app`)."""
        self._handles.clear()

    def cluster_id(self) -> str:
        """The cluster ID; two aliases with one ID are the same cluster."""
        return str(self._described("describing the cluster").cluster_id)

    def _described(self, doing: str) -> Any:
        """The cluster's ID and its live brokers, at least one. Asked again, for `NO_BROKERS_S` and not beyond the call's
        deadline, while a broker does not know any yet; then raises `NoBrokersYet`."""
        began, whole_s = time.monotonic(), self._timeout_s
        while True:
            left = self.within(whole_s - (time.monotonic() - began))
            found = left._wait(left._call(doing, "describe_cluster"), doing)
            if found.nodes:
                return found
            if time.monotonic() - began + _RETRY_S > min(whole_s, NO_BROKERS_S):
                raise NoBrokersYet(self.settings.alias)
            time.sleep(_RETRY_S)

    def topics(self, names: Iterable[str] | None = None, *, in_sight: bool = False) -> dict[str, TopicDescription]:
        """All topics, or those of `names` that exist; `in_sight`: without those that may not be described."""
        doing = "describing topics"
        if names is None:
            names = self._list_names(doing)
        wanted = sorted(set(names))
        if not wanted:
            return {}
        descriptions = {}
        for name, future in self._call(doing, "describe_topics", TopicCollection(wanted)).items():
            try:
                topic = self._result(future)
            except (KafkaException, TimeoutError) as error:
                if code_of(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue  # deleted meanwhile, or never existed
                if in_sight and code_of(error) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    continue
                raise as_drlib_error(error, self.settings, doing) from error
            offline = frozenset(part.id for part in topic.partitions if part.leader is None or part.leader.id < 0)
            descriptions[name] = TopicDescription(
                name, reported(name, _uuid(topic.topic_id)), len(topic.partitions), topic.is_internal, offline
            )
        return descriptions

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str] | None = None,
        *,
        or_fewer: bool = False,
    ) -> bool:
        """True when it was created, False when it existed, whatever its settings.

        Returns once a broker knows the topic, a moment after the controller's answer. `replication_factor` -1 is the
        broker's default; with `or_fewer` it is the number of live brokers where they are too few for it.
        """
        spec = NewTopicSpec(name, partitions, replication_factor, config or {})
        created = self.create_topics([spec])[name]
        if or_fewer and isinstance(created, ClusterRefused) and created.code == "INVALID_REPLICATION_FACTOR":
            live = len(self._described("describing the cluster").nodes)
            created = self.create_topics([replace(spec, replication_factor=live)])[name]
        if isinstance(created, DrlibError):
            raise created
        if created:
            self._await_propagation(name, partitions)
        return created

    def create_topics(self, wanted: Iterable[NewTopicSpec]) -> dict[str, bool | DrlibError]:
        """Create many topics, at most `AT_ONCE` partitions per request.

        Returns by name: True when it was created, False when it existed, whatever its settings, or why it was refused.
        Raises `Unreachable` when the cluster does not answer. A name that may not be created is refused whether or not the
        topic exists (`ControllerApis.createTopics`), so those are looked up: who uses a topic needs no right to create it.
        """
        results: dict[str, bool | DrlibError] = {}
        for some in _portions(wanted):
            doing = f"creating {len(some)} topics"
            topics = [NewTopic(t.name, t.partitions, t.replication_factor, config=dict(t.config)) for t in some]
            for name, future in self._call(doing, "create_topics", topics, operation_timeout=self._timeout_s).items():
                try:
                    self._result(future)
                    results[name] = True
                except (KafkaException, TimeoutError) as error:
                    if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                        results[name] = False
                        continue
                    refusal = as_drlib_error(error, self.settings, f"creating topic {name}")
                    if isinstance(refusal, Unreachable):
                        raise refusal from error
                    if isinstance(refusal, ClusterRefused):
                        refusal.remedy = _have_it_created(next(t for t in some if t.name == name), self.settings)
                    refusal.__cause__ = error
                    results[name] = refusal
        forbidden = [name for name, each in results.items() if isinstance(each, ClusterRefused) and each.unauthorized]
        return results | dict.fromkeys(self.topics(forbidden, in_sight=True), False)

    def delete_topic(self, name: str) -> bool:
        """Delete a topic with its records. True when it was deleted, False when there was none."""
        doing = f"deleting topic {name}"
        try:
            self._result(self._call(doing, "delete_topics", [name], operation_timeout=self._timeout_s)[name])
        except (KafkaException, TimeoutError) as error:
            if code_of(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise as_drlib_error(error, self.settings, doing) from error
        self._await_propagation(name, 0)
        return True

    def create_partitions(self, name: str, partitions: int) -> None:
        """Grow a topic to `partitions` in all. Raises `ClusterRefused` when it has as many already."""
        doing = f"adding partitions to {name}"
        self._wait(self._call(doing, "create_partitions", [NewPartitions(name, partitions)])[name], doing)
        self._await_propagation(name, partitions)

    def topic_settings(self, names: Iterable[str]) -> dict[str, tuple[ConfigValue, ...] | DrlibError]:
        """Every setting of each topic with its source, or why there is no answer for that topic."""
        doing = "describing topic configurations"
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(names))]
        if not resources:
            return {}
        answers: dict[str, tuple[ConfigValue, ...] | DrlibError] = {}
        for resource, future in self._call(doing, "describe_configs", resources).items():
            try:
                answers[resource.name] = _config_values(self._result(future))
            except (KafkaException, TimeoutError) as error:
                answers[resource.name] = as_drlib_error(error, self.settings, f"{doing} of {resource.name}")
        return answers

    def alter_topic_settings(self, name: str, changes: Iterable[ConfigChange]) -> None:
        """SET and DELETE incrementally, all or none of them (`IncrementalAlterConfigs`, KIP-339)."""
        self._alter(ConfigResource(ResourceType.TOPIC, name), f"altering the configuration of {name}", changes)

    def topic_config(self, names: Iterable[str], *, inherited: bool = False) -> dict[str, dict[str, str]]:
        """What is set on each topic itself; with `inherited` also what its broker lends it. Raises for a deleted topic."""
        configs = {}
        for name, values in self.topic_settings(names).items():
            if isinstance(values, DrlibError):
                raise values
            kept = (v for v in values if inherited or v.source is ConfigSource.TOPIC)
            configs[name] = {v.name: v.value for v in kept if v.value is not None}
        return configs

    def broker_config(self) -> dict[str, str | None]:
        """The settings of one broker of the cluster, for settings that all brokers share."""
        doing = "describing a broker's configuration"
        resource = ConfigResource(ResourceType.BROKER, str(min(node.id for node in self._described(doing).nodes)))
        entries = self._wait(self._call(doing, "describe_configs", [resource])[resource], doing)
        return {entry.name: entry.value for entry in entries.values()}

    def broker_settings(self, nodes: Collection[int] | None = None) -> dict[int, tuple[ConfigValue, ...]]:
        """Every setting of each broker of `nodes`, by default of all, with its source. Each broker answers for itself."""
        doing = "describing brokers' configurations"
        wanted = {node.id for node in self._described(doing).nodes} if nodes is None else {*nodes}
        answers = {}
        for node in sorted(wanted):  # librdkafka takes one broker a call
            resource = ConfigResource(ResourceType.BROKER, str(node))
            answers[node] = self._call(doing, "describe_configs", [resource])[resource]
        return {node: _config_values(self._wait(each, doing)) for node, each in answers.items()}

    def alter_broker_settings(self, node: int, changes: Iterable[ConfigChange]) -> None:
        """As `alter_topic_settings`, of one broker: its own dynamic values, which it takes itself."""
        self._alter(
            ConfigResource(ResourceType.BROKER, str(node)), f"altering the configuration of broker {node}", changes
        )

    def group_members(self, group: str) -> tuple[GroupMember, ...]:
        """The members of `group`; empty when it has none or does not exist.

        Retries until the deadline while a cluster that has just started has no coordinator.
        """
        doing = f"describing group {group}"
        try:
            described = self._of_coordinator(lambda: self._call(doing, "describe_consumer_groups", [group])[group])
        except (KafkaException, TimeoutError) as error:
            if code_of(error) == KafkaError.GROUP_ID_NOT_FOUND:
                return ()
            raise as_drlib_error(error, self.settings, doing) from error
        return _members(described)

    def group_descriptions(
        self, groups: Collection[str], *, surely: bool = False
    ) -> dict[str, GroupDescription | DrlibError]:
        """State and members of each group, or why they are not known; a group that does not exist is DEAD. Of KIP-1071
        the state alone; `surely` raises where a broker does not say whether a group is one of those, else it is DEAD."""
        doing = "describing groups"
        if not groups:
            return {}
        found: dict[str, GroupDescription | DrlibError] = {}
        for group, future in self._call(doing, "describe_consumer_groups", sorted(groups)).items():
            try:
                described = self._result(future)
            except (KafkaException, TimeoutError) as error:
                if code_of(error) == KafkaError.GROUP_ID_NOT_FOUND:
                    found[group] = _ABSENT
                else:
                    found[group] = as_drlib_error(error, self.settings, f"describing group {group}")
            else:
                new = described.type == ConsumerGroupType.CONSUMER
                found[group] = GroupDescription(
                    described.state.name, _members(described), described.partition_assignor or "", new
                )
        if absent := {group for group, each in found.items() if each == _ABSENT}:
            streams = blocking(self._streams_groups()) if surely else self._streams_states()
            found |= {group: GroupDescription(state) for group, state in streams.items() if group in absent}
        return found

    def group_states(self, groups: Collection[str], *, surely: bool = False) -> dict[str, GroupState | DrlibError]:
        """The state of each group, classic, of KIP-848 or of KIP-1071; ABSENT for one that does not exist. `surely` as in
        `group_descriptions`, for who acts on the absence of members."""
        return {
            group: found if isinstance(found, DrlibError) else _STATES.get(found.state, GroupState.ACTIVE)
            for group, found in self.group_descriptions(groups, surely=surely).items()
        }

    def led(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, bool]:
        """Of those of `partitions` that exist, whether they have a leader that can be asked for their logs."""
        wanted = set(partitions)
        topics = self.topics({partition.topic for partition in wanted})
        return {
            p: topics[p.topic].is_led(p.partition)
            for p in wanted
            if p.topic in topics and p.partition < topics[p.topic].partitions
        }

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset still in each log."""
        return self._offsets(partitions, OffsetSpec.earliest(), Isolation.READ_UNCOMMITTED, "reading log starts")

    def log_ends(
        self, partitions: Iterable[TopicPartition], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        """The offset after the last replicated record; with READ_COMMITTED the last stable offset."""
        return self._offsets(partitions, OffsetSpec.latest(), isolation, "reading log ends")

    def offsets_at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The first offset in each log with a timestamp at or after `timestamp_ms`; -1 where there is none."""
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        return self._offsets(partitions, spec, Isolation.READ_UNCOMMITTED, "finding offsets by timestamp")

    def groups(self) -> tuple[GroupListing, ...]:
        """Every group of consumers or Kafka Streams of every coordinator, by name. Retries until the deadline while a
        coordinator is loading."""
        doing = "listing groups"
        until = time.monotonic() + self._timeout_s
        listed = self._wait(self._call(doing, "list_consumer_groups"), doing)
        while any(code_of(error) in COORDINATOR_MOVES for error in listed.errors) and time.monotonic() < until:
            time.sleep(_RETRY_S)
            listed = self._wait(self._call(doing, "list_consumer_groups"), doing)
        if listed.errors:
            raise as_drlib_error(listed.errors[0], self.settings, doing)
        found = [GroupListing(g.group_id, g.state.name) for g in listed.valid]
        found += [GroupListing(group, state) for group, state in blocking(self._streams_groups()).items()]
        return tuple(sorted(found, key=lambda g: g.group))

    def _streams_states(self) -> dict[str, str]:
        """The same, for groups that no coordinator knows as a consumer's; none where a broker does not answer soon, which must
        not hold up who asks for others."""
        with contextlib.suppress(DrlibError, TimeoutError):
            return blocking(asyncio.wait_for(self._streams_groups(), _STREAMS_S))
        return {}

    async def _streams_groups(self) -> dict[str, str]:
        """Groups of the protocol of Kafka Streams (KIP-1071) with their state: confluent-kafka neither lists nor describes
        them."""
        async with wire_client(self.settings, client_id="drlib-groups", timeout_s=self._timeout_s) as client:
            await client.connect()
            found: dict[str, str] = {}
            for node in sorted(client.brokers):
                connection = await client.connection(node)
                if "StreamsGroupDescribe" not in connection.versions:
                    return {}
                for each in await list_loaded_groups(connection, self._timeout_s):
                    if each.protocol_type == STREAMS:
                        found[each.group] = each.state.upper()
        return found

    def lists_every_group(self) -> bool | None:
        """Whether drlib may describe the cluster; None where its answer leaves that open. Without that right, listings omit
        groups that it may not describe. confluent-kafka cannot be asked: it reports no right and no answer alike."""
        rights = blocking(self._rights())
        return None if rights is None else "DESCRIBE" in rights

    def group_offsets(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of `group`; empty when it has none or does not exist."""
        answer = self.committed([group])[group]
        if isinstance(answer, DrlibError):
            raise answer
        return answer

    def committed(self, groups: Collection[str]) -> dict[str, Mapping[TopicPartition, CommittedOffset] | DrlibError]:
        """The committed offsets of each group, or why they cannot be read."""
        try:
            return committed(self.settings, groups, self._timeout_s)
        except DrlibError as error:
            return dict.fromkeys(groups, error)

    def commit(self, group: str, positions: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit for a group without members. The broker refuses with UNKNOWN_MEMBER_ID where it has some."""
        commit(self.settings, group, positions, self._timeout_s)

    def alter_group_offsets(self, group: str, positions: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit all of `positions` for `group`. Raises `GroupNotEmpty` when it has members."""
        state = next((listing.state for listing in self.groups() if listing.group == group), None)
        if state not in (None, "EMPTY", "DEAD"):
            raise self._not_empty(group, state or "")
        if not positions:
            return
        try:
            self.commit(group, positions)
        except ClusterRefused as error:
            # A member may have joined since the listing; the broker then protects it.
            if error.code in _MEMBERS_IN_THE_WAY:
                raise self._not_empty(group, "no longer EMPTY") from error
            raise

    def delete_group(self, group: str) -> bool:
        """True when it was deleted, False when there was none. Raises `GroupNotEmpty` when it has members."""
        doing = f"deleting group {group}"
        try:
            self._result(self._call(doing, "delete_consumer_groups", [group])[group])
        except (KafkaException, TimeoutError) as error:
            if code_of(error) == KafkaError.GROUP_ID_NOT_FOUND:
                return False
            refusal = as_drlib_error(error, self.settings, doing)
            if isinstance(refusal, ClusterRefused) and refusal.code in _MEMBERS_IN_THE_WAY:
                raise self._not_empty(group, "not EMPTY") from error
            raise refusal from error
        return True

    def read(
        self, ranges: Mapping[TopicPartition, Range], isolation: Isolation = Isolation.READ_COMMITTED
    ) -> Iterator[Record]:
        """The records within `ranges` that exist now, in offset order within a partition.

        A partition ends at its `end` or at the end of what is visible now, whichever comes first: with READ_COMMITTED
        an open transaction hides what follows it. Raises `OffsetsGone` when a `start` is not in the log.
        """
        return bounded_read.read(
            self.settings, self._configuration, ranges, isolation, timeout_s=self._timeout_s, logger=QUIET
        )

    def without_records(self, stretches: Iterable[Stretch]) -> frozenset[Stretch]:
        """Those of `stretches` that hold nothing but markers and aborted records, as far as that is found out.

        Read are at most `MOST_MARKERS` offsets of a partition, the last ones. Where they cannot be read within `_MARKERS_S`,
        none is named.
        """
        until = time.monotonic() + _MARKERS_S
        by_partition: dict[TopicPartition, list[Range]] = {}
        for partition, each in stretches:
            if each.start < each.end:
                by_partition.setdefault(partition, []).append(each)
        if not by_partition:
            return frozenset()
        try:
            starts, ends = self.log_starts(by_partition), self.log_ends(by_partition, Isolation.READ_COMMITTED)
            near: dict[TopicPartition, list[Range]] = {}
            for partition, those in by_partition.items():
                whole = [each for each in those if starts[partition] <= each.start and each.end <= ends[partition]]
                end = max((each.end for each in whole), default=0)
                if kept := [each for each in whole if end - each.start <= MOST_MARKERS]:
                    near[partition] = kept
            spans = {p: Range(min(e.start for e in those), max(e.end for e in those)) for p, those in near.items()}
            found: dict[TopicPartition, list[int]] = {}
            for record in self.read(spans):
                if time.monotonic() > until:
                    return frozenset()
                found.setdefault(record.partition, []).append(record.offset)
        except DrlibError:
            return frozenset()
        return frozenset(
            (partition, each)
            for partition, those in near.items()
            for each in those
            if bisect_left(found.get(partition, ()), each.start) == bisect_left(found.get(partition, ()), each.end)
        )

    async def _rights(self) -> frozenset[str] | None:
        async with wire_client(self.settings, client_id="drlib-rights", timeout_s=self._timeout_s) as client:
            return await cluster_rights(client)

    def _list_names(self, doing: str) -> list[str]:
        try:
            return list(self._admin.list_topics(timeout=self._timeout_s).topics)
        except KafkaException as error:
            self._heed(error)
            raise as_drlib_error(error, self.settings, doing) from error

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: Isolation, doing: str
    ) -> dict[TopicPartition, int]:
        wanted = {ConfluentTopicPartition(tp.topic, tp.partition): spec for tp in set(partitions)}
        offsets: dict[TopicPartition, int] = {}
        began = time.monotonic()
        while wanted:
            moved = {}
            futures = self._call(doing, "list_offsets", wanted, isolation_level=_LEVELS[isolation])
            for item, future in futures.items():
                try:
                    offsets[TopicPartition(item.topic, item.partition)] = self._result(future).offset
                except (KafkaException, TimeoutError) as error:
                    if not self._may_be_answered(error, item.topic, time.monotonic() - began):
                        raise self._without_leader(item) or as_drlib_error(
                            error, self.settings, f"{doing} of {item.topic}-{item.partition}"
                        ) from error
                    moved[item] = spec
            if moved:
                time.sleep(_RETRY_S)
            wanted = moved
        return offsets

    def _without_leader(self, item: ConfluentTopicPartition) -> NoLeader | None:
        """The error of a partition that has none; None where it has one, or that is not known."""
        at = TopicPartition(item.topic, item.partition)
        with contextlib.suppress(DrlibError):
            return None if self.led([at]).get(at, True) else NoLeader(at, self.settings.alias)
        return None

    def _may_be_answered(self, error: Exception, topic: str, waited_s: float) -> bool:
        """Is an answer about a partition's offsets one that passes? A leader refuses to know a topic that was just created."""
        code = code_of(error)
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return waited_s < min(_PROPAGATION_MOST_S, self._timeout_s) and topic in self.topics([topic])
        return code in LEADER_MOVES and waited_s <= self._timeout_s

    def _await_propagation(self, name: str, partitions: int) -> None:
        """Wait until a broker knows what the controller has done already; return if it cannot be asked."""
        until = time.monotonic() + min(_PROPAGATION_MOST_S, self._timeout_s)
        while time.monotonic() < until:
            try:
                topic = self.topics([name]).get(name)
            except DrlibError:
                return
            if topic is None if partitions == 0 else topic is not None and topic.partitions >= partitions:
                return
            time.sleep(_PROPAGATION_POLL_S)

    def _call(self, doing: str, method: str, *arguments: object, **options: object) -> Any:
        try:
            return getattr(self._admin, method)(*arguments, request_timeout=self._timeout_s, **options)
        except (KafkaException, ValueError, TypeError) as error:
            raise as_drlib_error(error, self.settings, doing) from error

    def _alter(self, resource: ConfigResource, doing: str, changes: Iterable[ConfigChange]) -> None:
        for change in changes:
            operation = AlterConfigOpType.DELETE if change.new is None else AlterConfigOpType.SET
            resource.add_incremental_config(ConfigEntry(change.name, change.new, incremental_operation=operation))
        for future in self._call(doing, "incremental_alter_configs", [resource]).values():
            self._wait(future, doing)

    def _wait(self, future: Future[Any], doing: str) -> Any:
        try:
            return self._result(future)
        except (KafkaException, TimeoutError) as error:
            raise as_drlib_error(error, self.settings, doing) from error

    def _of_coordinator(self, ask: Callable[[], Future[Any]]) -> Any:
        """The result of a read-only request, retried while there is no coordinator."""
        until = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._result(ask())
            except KafkaException as error:
                if code_of(error) not in COORDINATOR_MOVES or time.monotonic() > until:
                    raise
            time.sleep(_RETRY_S)

    def _result(self, future: Future[Any]) -> Any:
        # librdkafka keeps the deadline; the margin only guards against a future that is never completed.
        try:
            return future.result(self._timeout_s + 5)
        except (KafkaException, TimeoutError) as error:
            self._heed(error)
            raise

    def _heed(self, error: Exception) -> None:
        if isinstance(error, TimeoutError) or code_of(error) in NO_ANSWER:
            self._unanswered.set()

    def _not_empty(self, group: str, state: str) -> GroupNotEmpty:
        return GroupNotEmpty(
            f"group {group} on {self.settings.alias} was not changed",
            f"its state is {state}, so it has members, which own its offsets",
            f"Stop the consumers of {group} on {self.settings.alias}, then run the command again.",
        )


def _members(described: Any) -> tuple[GroupMember, ...]:
    return tuple(
        GroupMember(
            member.member_id,
            member.host,
            tuple(
                TopicPartition(p.topic, p.partition)
                for p in (member.assignment.topic_partitions if member.assignment else ())
            ),
            member.client_id or "",
        )
        for member in described.members
    )


def _have_it_created(topic: NewTopicSpec, cluster: ClusterSettings) -> str:
    """What remains where this user, or this topic as it is, is refused."""
    command = topic.command(cluster.bootstrap_servers)
    return f"Let who may create it do so, with what {cluster.alias} accepts; a topic that exists is used: {command}"


def _portions(wanted: Iterable[NewTopicSpec]) -> Iterator[list[NewTopicSpec]]:
    some: list[NewTopicSpec] = []
    partitions = 0
    for topic in wanted:
        if some and (partitions + topic.partitions > AT_ONCE):
            yield some
            some, partitions = [], 0
        some.append(topic)
        partitions += topic.partitions
    if some:
        yield some


def _uuid(topic_id: Any) -> UUID:
    mask = (1 << 64) - 1
    most, least = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    return UUID(int=(most & mask) << 64 | least & mask)


def _config_values(entries: Mapping[str, Any]) -> tuple[ConfigValue, ...]:
    return tuple(
        ConfigValue(
            e.name,
            e.value,
            ConfigSource.of(int(getattr(e.source, "value", e.source))),
            bool(e.is_read_only),
            bool(e.is_sensitive),
        )
        for e in entries.values()
    )


def _ignore(_: KafkaError) -> None:
    """Drop librdkafka's connection events: every call reports its own failure."""
