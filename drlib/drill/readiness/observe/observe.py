"""One observation of one flow: every question, independent ones at the same time.

Rules: which brokers answer, and the clusters' metadata first; then the journal, workers, groups, rights and settings at once;
then what needs those answers. While a side is lost, in whole or in part, all questions share a deadline; what is open then is
unknown. Longer than most modules: it is the one list of all questions and of what each waits for.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from drlib import clock, decoding
from drlib.client.bootstrap.check import compare_certificates
from drlib.client.bootstrap.rules import CertificateName
from drlib.config.both_ways.rings import ring_of
from drlib.config.both_ways.shared_topics import shared_between
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.inventory.rules import Inventory
from drlib.drill.producer_ids.observe import compare_ids, compare_kept
from drlib.drill.producer_ids.rules import ComparedIds
from drlib.drill.readiness.checks.mirror import UNREAD
from drlib.drill.readiness.checks.observations import (
    AddressCertificates,
    Advice,
    Durability,
    FlowObservation,
    MirrorStatus,
    MirrorTopics,
    PastDrills,
    ProducerTopics,
    Readers,
    SettingsDrift,
    SharesObserved,
    TargetPosition,
    TopicSettings,
    Unanswered,
    WritersObserved,
    available,
)
from drlib.drill.readiness.observe import clusters, groups, producer_topics, topics
from drlib.drill.readiness.observe.applications.applications import applications_on, inventory_of
from drlib.drill.readiness.observe.ask import ASK_S, ask, ask_blocking
from drlib.drill.readiness.observe.clusters import AskedCluster
from drlib.drill.readiness.observe.share_groups import read_share_groups
from drlib.drill.readiness.observe.writers import observe_writers
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S
from drlib.kafka.admin.descriptions import Quota
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.status.event_kinds import kind_of
from drlib.mirror.status.event_log import Event
from drlib.mirror.sync.rules import local_topics
from drlib.model import GroupTranslation, TopicPartition

ONE_SIDE_S = 4.5  # for all questions, after the clusters were asked whether they answer and one of them did not
LEAST_S = 1.0
AGAIN_S = 1.0  # for a sign of life of brokers that were asked for it a moment ago
LOST_SOURCE: Final = "Restart idempotent producers that are redirected; those that follow the pointer have a new ID."
SURVEY_S = 3 * ASK_S  # a survey has deadlines of its own for each cluster, and reads the whole journal


async def observe_flow(
    settings: MirrorSettings,
    flow: FlowSettings,
    drills: PastDrills | Unanswered,
    *,
    addresses: Sequence[str] = (),
    silent: Mapping[str, Unreachable] = MappingProxyType({}),
    answer_s: float = ANSWER_S,
) -> FlowObservation:
    """What can be observed of a flow now. `addresses`: workers to ask besides those the journal names. Raises nothing.

    `silent`: by alias, why a cluster is known not to answer; it is then not asked. `answer_s`: how long the source's
    brokers may take to give a sign of life.
    """
    source, target = await asyncio.gather(
        *(
            clusters.connect(
                settings.clusters[alias],
                as_target=alias == flow.flow.target,
                silence=silent.get(alias),
                answer_s=answer_s if alias == flow.flow.source else ANSWER_S,
            )
            for alias in (flow.flow.source, flow.flow.target)
        )
    )
    try:
        return await _Observer(settings, flow, source, target, tuple(addresses)).observe(drills)
    finally:
        await asyncio.gather(*(side.client.close() for side in (source, target) if side.client is not None))


class _Observer:
    def __init__(
        self,
        settings: MirrorSettings,
        flow: FlowSettings,
        source: AskedCluster,
        target: AskedCluster,
        addresses: tuple[str, ...],
    ) -> None:
        self.settings = settings
        self.flow = flow
        self.source = source
        self.target = target
        self.addresses = addresses
        self.whole = source.whole and target.whole
        self._end = time.monotonic() + ONE_SIDE_S

    def _left_s(self, most_s: float = ASK_S) -> float:
        """How long the next question may take: while a side is lost, all of them end together."""
        return most_s if self.whole else max(LEAST_S, min(most_s, self._end - time.monotonic()))

    async def observe(self, drills: PastDrills | Unanswered) -> FlowObservation:
        source, target, flow = self.source, self.target, self.flow
        surveyed, source_groups, identities, obstacles, heartbeat, source_settings = await asyncio.gather(
            ask(self._survey(), self._left_s(SURVEY_S)),
            self._source_groups(),
            target.ask(clusters.identities(flow, source, target), self._left_s()),
            target.ask(clusters.obstacles(self.settings, flow, source, target), self._left_s()),
            target.ask_blocking(partial(clusters.last_heartbeat, target.settings, flow, ASK_S), self._left_s()),
            self._settings(source, list(self._names(None))),
        )
        survey, status = (None, surveyed) if isinstance(surveyed, Unanswered) else surveyed
        if survey is not None and survey.mirror_maker is not None:
            obstacles = ()  # MirrorMaker 2 has rights and settings of its own, and neither lanes nor a journal
        names = self._names(survey)
        existing = target.metadata.topics if target.metadata is not None else {}
        known = topics.known_mirrors(flow, source.metadata.topics if source.metadata is not None else (), survey)
        (
            target_settings,
            (translations, target_positions),
            ids,
            written,
            certificates,
            (shares, advice, writers, inventory),
        ) = await asyncio.gather(
            self._settings(target, [mirror for mirror in names.values() if mirror in existing]),
            self._positions(survey, source_groups),
            self._producer_ids(),
            self._producer_topics(source_settings),
            self._certificates(),
            asyncio.gather(
                self._share_groups(survey), self._advice(survey), self._writers(survey, names), self._inventory()
            ),
        )
        return FlowObservation(
            flow=str(flow.flow),
            at_ms=clock.now_ms(),
            target=target.answer([name for name in existing if flow.is_mirror(name, known)]),
            source=source.answer([] if source.metadata is None else list(names)),
            identities=identities,
            obstacles=obstacles,
            mirror=status,
            retention_ms=topics.retention_ms(source_settings),
            heartbeat=heartbeat,
            translations=translations,
            readers=self._readers(source_groups, inventory),
            target_positions=target_positions,
            topics=self._topics(names, survey),
            settings=self._compared(names, source_settings, target_settings),
            durability=self._durability(names, target_settings),
            producer_topics=written,
            producer_ids=ids,
            certificates=certificates,
            drills=drills,
            writers=writers,
            shares=shares,
            advice=advice,
            inventory=inventory,
            known_mirrors=known,
        )

    async def _survey(self) -> tuple[Survey, MirrorStatus]:
        observer = FlowObserver(addresses=self.addresses)
        silent = {}
        if self.source.metadata is None:
            why, fix = self.source.answer().error, self.source.unanswered.fix
            silent = {self.source.settings.alias: f"{why}. {fix}" if self.source.answer().refused else why}
        answer_s = ANSWER_S if self.whole else AGAIN_S
        (survey,) = await observer.survey([(self.settings, self.flow)], silent, answer_s)
        (view,) = await asyncio.to_thread(observer.views)
        return survey, MirrorStatus(view, _unmapped(survey), survey.source_error, survey.target_error)

    def _names(self, survey: Survey | None) -> dict[str, str]:
        """Source topic -> mirror topic; empty while neither the source nor the journal was read."""
        return dict(
            topics.mirrored_topics(self.flow, self.source.metadata, survey.maps if survey is not None else Maps())
        )

    async def _settings(self, cluster: AskedCluster, names: Sequence[str]) -> TopicSettings | Unanswered:
        if cluster is self.source and not cluster.whole:  # the controller that is asked may be one that is dead
            return cluster.unanswered
        return await cluster.ask_blocking(
            partial(topics.read_settings, cluster.settings, list(names), ASK_S), self._left_s()
        )

    async def _source_groups(self) -> groups.SourceGroups | Unanswered:
        if self.source.whole:
            read = partial(groups.read_source_groups, self.source.settings, self.flow, ASK_S)
            return await ask_blocking(read, self._left_s())
        if self.target.metadata is not None:
            return await ask_blocking(
                partial(groups.read_checkpointed_groups, self.settings, self.flow), self._left_s()
            )
        return self.source.unanswered

    async def _positions(
        self, survey: Survey | None, source_groups: groups.SourceGroups | Unanswered
    ) -> tuple[tuple[GroupTranslation, ...] | Unanswered, tuple[TargetPosition, ...] | Unanswered]:
        """The groups' committed offsets translated, and those on the target."""
        metadata = self.target.metadata
        if metadata is None:
            return self.target.unanswered, self.target.unanswered
        if isinstance(source_groups, Unanswered):
            return source_groups, source_groups
        if survey is None or survey.target_error:
            unread = Unanswered(
                f"the journal could not be read: {survey.target_error if survey is not None else 'no answer'}"
            )
            return unread, unread
        partitions = sorted({partition for offsets in source_groups.committed.values() for partition in offsets})
        mirrors = groups.with_leader((groups.mirror_partition(self.flow, at) for at in partitions), metadata)
        if ring_of(self.flow.flow, self.settings.flows) is not None:
            unknown = Unanswered("in a ring of flows that keep topic names no position is known on another cluster")
            return unknown, unknown
        if shared_between(self.settings, self.flow.flow):
            asked = self.settings, self.flow, source_groups, self.source.metadata, self.source.whole
            found = await ask_blocking(partial(groups.translate_both_ways, *asked), self._left_s())
            if isinstance(found, Unanswered):
                return found, found
            return found, await self._on_target(found, metadata)
        log_starts = await ask_blocking(partial(self._log_starts, mirrors), self._left_s())
        if isinstance(log_starts, Unanswered):
            return log_starts, log_starts
        translations = groups.translate_positions(
            source_groups, self.flow, survey.maps, self.source.metadata, log_starts
        )
        return translations, await self._on_target(translations, metadata)

    async def _on_target(
        self, translations: Sequence[GroupTranslation], metadata: ClusterMetadata
    ) -> tuple[TargetPosition, ...] | Unanswered:
        """The groups' committed offsets. The source is asked again about those ahead, which a mirror may have synchronized."""
        read = partial(groups.read_target_positions, self.target.settings, translations, metadata, ASK_S)
        found = await ask_blocking(read, self._left_s())
        if isinstance(found, Unanswered) or not any(map(groups.is_ahead, found)):
            return found
        now = await self._source_groups()
        return found if isinstance(now, Unanswered) else groups.with_read_on(found, now)

    async def _share_groups(self, survey: Survey | None) -> SharesObserved | Unanswered:
        """Where neither side answers, or MirrorMaker 2 keeps no checkpoints of them, other questions say so."""
        of_mm2 = survey is not None and survey.mirror_maker is not None
        if self.target.metadata is None or (of_mm2 and not self.source.whole):
            return SharesObserved()
        read = partial(
            read_share_groups, self.settings, self.flow, source_answers=self.source.whole, timeout_s=self._left_s()
        )
        return await ask_blocking(read, self._left_s())

    async def _advice(self, survey: Survey | None) -> tuple[Advice, ...] | Unanswered:
        """None where MirrorMaker 2 mirrors, which has a user of its own, or a side was not read: other questions say so."""
        if survey is None or survey.target_error or survey.mirror_maker is not None or self.source.metadata is None:
            return ()
        return await self.source.ask(clusters.advice(self.source, survey.maps), self._left_s())

    async def _inventory(self) -> Inventory:
        """Who uses the source's topics; nothing while it does not answer, as other questions say so."""
        if self.source.metadata is None:
            return Inventory(())
        end = time.monotonic() + self._left_s()
        return inventory_of([await applications_on(self.settings, [self.flow], self.source, end, activity=False)])

    def _log_starts(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        with Cluster(self.target.settings, timeout_s=ASK_S) as target:
            return target.log_starts(partitions)

    def _readers(
        self, source_groups: groups.SourceGroups | Unanswered, inventory: Inventory | Unanswered
    ) -> Readers | Unanswered:
        if self.source.metadata is None or not self.source.whole:
            return self.source.unanswered
        if isinstance(source_groups, Unanswered):
            return source_groups
        rows = () if isinstance(inventory, Unanswered) else inventory.applications
        assigned = {row.name: row.topics for row in rows if row.cluster == self.flow.flow.source and row.members}
        target = self.target.metadata if self.target.whole else None
        return groups.find_readers(source_groups, self.settings, self.flow, self.source.metadata, assigned, target)

    def _topics(self, names: dict[str, str], survey: Survey | None) -> MirrorTopics | Unanswered:
        if self.source.metadata is None:
            return self.source.unanswered
        if self.target.metadata is None:
            return self.target.unanswered
        source, target = self.source.metadata, self.target.metadata
        maps = survey.maps if survey is not None else Maps()
        unlisted = topics.unlisted_topics(self.flow, source, target, maps)
        unasked = self.flow.mirrors_unasked
        names = {
            name: mirror for name, mirror in names.items() if available(target.topics, mirror) or not unasked(name)
        }
        way_back = topics.mirrors_of(self.flow, source, self.flow.flow.target)
        prefixed = topics.prefixed_topics(self.flow, names)
        return MirrorTopics(names, source.topics, target.topics, unlisted, way_back, prefixed)

    def _compared(
        self, names: dict[str, str], source: TopicSettings | Unanswered, target: TopicSettings | Unanswered
    ) -> tuple[SettingsDrift, ...] | Unanswered:
        if isinstance(source, Unanswered):
            return source
        if isinstance(target, Unanswered):
            return target
        return topics.compare_settings(self.flow, names, source, target)

    async def _producer_topics(self, source_settings: TopicSettings | Unanswered) -> ProducerTopics | Unanswered:
        source, target = self.source.metadata, self.target.metadata
        if local_topics.keeps_names(self.flow):
            return ProducerTopics(None, {}, {}, {}, {}, {}, ())
        if target is None:
            return self.target.unanswered
        after = local_topics.wanted(self.flow, self.settings.clusters, source, target)
        existing = [name for name in after if available(target.topics, name)]
        if source is None:  # what the source's topics were is known from their mirrors
            source_settings = await self._settings(self.target, [topic.name for topic in after.values()])
        target_settings = await self._settings(self.target, existing)
        for settings in (source_settings, target_settings):
            if isinstance(settings, Unanswered):
                return settings
        assert not isinstance(source_settings, Unanswered)
        assert not isinstance(target_settings, Unanswered)
        locked_out: Mapping[str, tuple[str, ...]] | Unanswered = self.source.unanswered
        quotas: tuple[tuple[Quota, float | None], ...] | Unanswered = self.source.unanswered
        if source is not None:
            locked_out, quotas = await asyncio.gather(
                producer_topics.locked_out(self.source.settings, self.target.settings, existing),
                producer_topics.quotas(self.source.settings, self.target.settings),
            )
        of_source = {
            name: source_settings[topic.name] for name, topic in after.items() if topic.name in source_settings
        }
        return ProducerTopics(
            tuple(after), after, target.topics, of_source, target_settings, locked_out, quotas if after else ()
        )

    async def _producer_ids(self) -> ComparedIds | Unanswered:
        source, target = self.source, self.target
        if target.client is None or target.metadata is None:
            return target.unanswered
        there = target.client, target.metadata
        if source.client is None or source.metadata is None:
            why = source.unanswered.why
            asked = await ask(compare_kept(self.flow, self.settings.clusters, there, why), self._left_s())
            if isinstance(asked, ComparedIds):
                return asked
            return Unanswered(f"not checked: {why}, and what the mirror kept was not read: {asked.why}", LOST_SOURCE)
        here = source.client, source.metadata
        asked = await ask(compare_ids(self.flow, self.settings.clusters, here, there, use_kept=True), self._left_s())
        return asked if isinstance(asked, ComparedIds) else Unanswered(f"not checked: {asked.why}", asked.fix)

    async def _writers(self, survey: Survey | None, names: Mapping[str, str]) -> WritersObserved:
        return await observe_writers(self.settings, self.flow, (self.source, self.target), survey, names, self._left_s)

    async def _certificates(self) -> AddressCertificates | Unanswered:
        hosts = tuple(dict.fromkeys(decoding.address(each)[0] for each in self.flow.clients_address))
        sides = [side for side in (self.source, self.target) if hosts]
        reached = [side for side in sides if side.metadata is not None]
        unasked = tuple((side.settings.alias, side.answer().error) for side in sides if side.metadata is None)

        async def compare() -> list[tuple[CertificateName, ...]]:
            return await asyncio.gather(*(compare_certificates(side.settings, hosts) for side in reached))

        answer = await ask(compare(), self._left_s())
        if isinstance(answer, Unanswered):
            return answer
        compared = {side.settings.alias: those for side, those in zip(reached, answer, strict=True)}
        plain = tuple(alias for alias, those in compared.items() if not those)
        return AddressCertificates(hosts, {a: those for a, those in compared.items() if those}, plain, unasked)

    def _durability(self, names: dict[str, str], settings: TopicSettings | Unanswered) -> Durability | Unanswered:
        metadata = self.target.metadata
        if metadata is None:
            return self.target.unanswered
        lost = self.source.metadata is None
        wanted = tuple(names.values()) or (self._named_as_mirrors(metadata) if lost else ())
        mirrors = tuple(metadata.topics[name] for name in wanted if available(metadata.topics, name))
        if isinstance(settings, Unanswered):
            settings = dict.fromkeys(wanted, Unreachable("settings of mirror topics", settings.why, settings.fix))
        return Durability(len(metadata.brokers), self.flow.replication_factor, mirrors, settings, lost)

    def _named_as_mirrors(self, target: ClusterMetadata) -> tuple[str, ...]:
        """The flow's topics on the target as far as names show: another mirror's, while neither source nor journal is read."""
        flow = self.flow
        return tuple(name for name in target.topics if flow.is_mirror(name) and not flow.policy.is_heartbeats(name))


def _unmapped(survey: Survey) -> tuple[Event, ...]:
    """Why partitions have no offset map: the journal tells it while no worker does."""
    events = []
    for key, error in survey.maps.refused.items():
        names = survey.maps.names.get(key.topic_id)
        name = type(error).__name__
        if isinstance(error, BrokerError | Unreachable):  # nothing is said about the mirror, only that it was not read
            name = UNREAD
        elif not kind_of(name).meaning:
            name = "MirrorContradiction"
        events.append(
            Event(
                name,
                f"{names.source_topic if names else key.topic_id}-{key.partition}",
                f"{error.what}: {error.why}",
                0,
                remedy=error.remedy,
                flow=survey.flow,
            )
        )
    return tuple(events)
