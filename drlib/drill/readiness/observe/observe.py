"""One look at one flow: every question asked, those that do not need each other at the same time.

Rules: the clusters first; then the journal, workers, groups, rights and settings at once; then what needs those answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from drlib.config.settings import FlowSettings, MirrorSettings
from drlib.drill.readiness.checks.observations import (
    Drills,
    Durability,
    Mirrored,
    Placed,
    Readers,
    Seen,
    Settings,
    There,
    Unseen,
)
from drlib.drill.readiness.observe import clusters, flow, groups, topics
from drlib.drill.readiness.observe.ask import ASK_S, asked, asked_blocking, nobody
from drlib.drill.readiness.observe.clusters import Side
from drlib.kafka.admin.cluster import Cluster
from drlib.mirror.monitor import worker_client as hearing
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.monitor.survey import Survey, Surveyor
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import TopicPartition

SURVEY_S = 3 * ASK_S  # it has deadlines of its own for each cluster, and reads the whole journal


async def look(
    settings: MirrorSettings, chosen: FlowSettings, drills: Drills | Unseen, *, addresses: Sequence[str] = ()
) -> Seen:
    """What can be seen of a flow now. `addresses` are workers to ask besides those the journal knows. Raises nothing."""
    ends = chosen.flow
    source, target = await asyncio.gather(
        clusters.meet(settings.clusters[ends.source]), clusters.meet(settings.clusters[ends.target])
    )
    try:
        return await _Look(settings, chosen, source, target, tuple(addresses)).see(drills)
    finally:
        await asyncio.gather(*(side.client.close() for side in (source, target) if side.client is not None))


class _Look:
    def __init__(
        self, settings: MirrorSettings, chosen: FlowSettings, source: Side, target: Side, addresses: tuple[str, ...]
    ) -> None:
        self.settings = settings
        self.flow = chosen
        self.source = source
        self.target = target
        self.addresses = addresses

    async def see(self, drills: Drills | Unseen) -> Seen:
        source, target, chosen = self.source, self.target, self.flow
        there = target.metadata is not None
        surveyed, standing, identities, lacks, beat, here = await asyncio.gather(
            asked(self._survey(), SURVEY_S),
            self._standing(),
            asked(clusters.identities(chosen, source, target)) if there else nobody(target.unseen),
            asked(clusters.lacks(chosen, source, target)) if there else nobody(target.unseen),
            asked_blocking(partial(clusters.last_beat, target.settings, chosen, ASK_S)) if there
            else nobody(target.unseen),
            self._settings(source, self._names(None)),
        )  # fmt: skip
        survey, view = surveyed if not isinstance(surveyed, Unseen) else (None, None)
        names = self._names(survey)
        theirs = await self._settings(target, {mirror: mirror for mirror in names.values() if self._has(mirror)})
        placed, beside = await self._placed(survey, standing)
        lost = surveyed if isinstance(surveyed, Unseen) else Unseen("the flow could not be looked at")
        shortest = here if isinstance(here, Unseen) else topics.kept_ms(here)
        return Seen(
            flow=str(chosen.flow),
            at_ms=int(time.time() * 1000),
            target=target.reach(),
            source=source.reach(),
            identities=identities,
            lacks=lacks,
            workers=flow.workers(survey, view) if survey is not None and view is not None else lost,
            told=flow.told(survey, view) if survey is not None and view is not None else lost,
            backlog=flow.backlog(survey, view) if survey is not None and view is not None else lost,
            retained=flow.retained(survey, view, shortest) if survey is not None and view is not None else lost,
            beat=beat,
            placed=placed,
            readers=self._readers(standing),
            there=beside,
            mirrored=self._mirrored(names),
            settings=self._compared(names, here, theirs),
            durability=self._durability(names, theirs),
            drills=drills,
        )

    async def _survey(self) -> tuple[Survey, FlowView]:
        survey = await Surveyor(self.settings, self.flow).look()
        (view,) = await asyncio.to_thread(hearing.views, [survey], [self.flow], self.addresses)
        return survey, view

    def _names(self, survey: Survey | None) -> dict[str, str]:
        maps = survey.maps if survey is not None else None
        if self.source.metadata is None and maps is None:
            return {}
        return dict(topics.chosen(self.flow, self.source.metadata, maps if maps is not None else Maps()))

    def _has(self, mirror: str) -> bool:
        return self.target.metadata is not None and mirror in self.target.metadata.topics

    async def _settings(self, side: Side, names: dict[str, str]) -> topics.TopicSettings | Unseen:
        if side.metadata is None:
            return side.unseen
        return await asked_blocking(partial(topics.settings_of, side.settings, list(names), ASK_S))

    async def _standing(self) -> groups.Standing | Unseen:
        if self.source.metadata is not None:
            return await asked_blocking(partial(groups.of_source, self.source.settings, self.flow, ASK_S))
        if self.target.metadata is not None:
            return await asked_blocking(partial(groups.of_checkpoints, self.settings, self.flow))
        return self.source.unseen

    async def _placed(
        self, survey: Survey | None, standing: groups.Standing | Unseen
    ) -> tuple[tuple[Placed, ...] | Unseen, tuple[There, ...] | Unseen]:
        metadata = self.target.metadata
        if metadata is None:
            return self.target.unseen, self.target.unseen
        if isinstance(standing, Unseen):
            return standing, standing
        if survey is None or survey.target_error:
            lost = Unseen(
                f"the journal could not be read: {survey.target_error if survey is not None else 'no answer'}"
            )
            return lost, lost
        partitions = sorted({partition for each in standing.committed.values() for partition in each})
        mirrors = groups.existing((groups.target_of(self.flow, partition) for partition in partitions), metadata)
        starts = await asked_blocking(partial(self._log_starts, mirrors))
        if isinstance(starts, Unseen):
            return starts, starts
        found = groups.translated(standing, self.flow, survey.maps, self.source.metadata, starts)
        on_target = await asked_blocking(
            partial(groups.on_target, self.target.settings, found, metadata, self.flow, ASK_S)
        )
        return tuple(placed for placed, _ in found), (
            on_target if isinstance(on_target, Unseen) else groups.beside(found, self.flow, on_target)
        )

    def _log_starts(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        with Cluster(self.target.settings, timeout_s=ASK_S) as target:
            return target.log_starts(partitions)

    def _readers(self, standing: groups.Standing | Unseen) -> Readers | Unseen:
        if self.source.metadata is None:
            return self.source.unseen
        if isinstance(standing, Unseen):
            return standing
        return groups.readers(standing, self.settings, self.flow, self.source.metadata)

    def _mirrored(self, names: dict[str, str]) -> tuple[Mirrored, ...] | Unseen:
        if self.source.metadata is None or self.target.metadata is None:
            return self._silent()
        return topics.mirrored(names, self.source.metadata, self.target.metadata)

    def _compared(
        self, names: dict[str, str], here: topics.TopicSettings | Unseen, theirs: topics.TopicSettings | Unseen
    ) -> tuple[Settings, ...] | Unseen:
        for answer in (here, theirs):
            if isinstance(answer, Unseen):
                return answer
        assert not isinstance(here, Unseen)
        assert not isinstance(theirs, Unseen)
        return topics.compared(self.flow, names, here, theirs)

    def _durability(self, names: dict[str, str], theirs: topics.TopicSettings | Unseen) -> Durability | Unseen:
        if self.target.metadata is None:
            return self.target.unseen
        settings = {} if isinstance(theirs, Unseen) else theirs
        return topics.copies(self.flow, list(names.values()), self.target.metadata, settings)

    def _silent(self) -> Unseen:
        return self.source.unseen if self.source.metadata is None else self.target.unseen
