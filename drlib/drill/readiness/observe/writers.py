"""Clients that write to a flow's topics: on both clusters, and on the one that stands by.

Rules: where MirrorMaker 2 mirrors, its producers have no journal that would tell them from clients: nothing is asked. The
question about both clusters is for topics that both directions copy under one name alone.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from drlib import clock
from drlib.config.both_ways.shared_topics import shared_between
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.readiness.checks.objectives import again
from drlib.drill.readiness.checks.observations import Unanswered, WritersObserved, available
from drlib.drill.readiness.observe.ask import ask, ask_blocking
from drlib.drill.readiness.observe.clusters import METADATA_S, AskedCluster
from drlib.drill.writers.both_sides import written_on_both
from drlib.drill.writers.logs import Side, maps_to
from drlib.drill.writers.rules import Standby, StandbyWriters, TopicWritten
from drlib.drill.writers.standby import find_standby, standby_writers
from drlib.mirror.monitor.survey import Survey

NONE_STANDS_BY: Final = "no pointer and no drill says which cluster stands by, and clients may write to both"


async def observe_writers(
    settings: MirrorSettings,
    flow: FlowSettings,
    sides: tuple[AskedCluster, AskedCluster],
    survey: Survey | None,
    names: Mapping[str, str],
    left_s: Callable[[], float],
) -> WritersObserved:
    """`sides`: source and target; `names`: source topic -> mirror topic. Raises nothing."""
    if survey is not None and survey.mirror_maker is not None:
        return WritersObserved(None, None)
    asked = _Asked(settings, flow, sides, survey, names, left_s)
    return WritersObserved(*await asyncio.gather(asked.on_both(), asked.on_standby()))


class _Asked:
    def __init__(
        self,
        settings: MirrorSettings,
        flow: FlowSettings,
        sides: tuple[AskedCluster, AskedCluster],
        survey: Survey | None,
        names: Mapping[str, str],
        left_s: Callable[[], float],
    ) -> None:
        self._settings, self._flow, self._survey = settings, flow, survey
        self._source, self._target = sides
        self._names = {n: mirror for n, mirror in names.items() if not flow.policy.is_heartbeats(n)}
        self._left_s = left_s
        self._back = settings.flow(flow.flow.target, flow.flow.source)
        self._shared = shared_between(settings, flow.flow)

    async def on_both(self) -> tuple[TopicWritten, ...] | Unanswered | None:
        """None where no topic is copied in both directions under one name."""
        if self._shared is None:
            return None
        for asked in (self._source, self._target):
            if asked.client is None or asked.metadata is None:
                return asked.unanswered
        if self._survey is None or self._survey.target_error:
            return self._unread()
        source, target = (_side(each) for each in (self._source, self._target))
        topics = [
            name
            for name in self._names
            if self._shared(name) and all(available(side.metadata.topics, name) for side in (source, target))
        ]
        both = written_on_both(self._flow, self._back, topics, (source, target), self._survey.maps, clock.now_ms())
        return await ask(both, self._left_s())

    async def on_standby(self) -> StandbyWriters | Unanswered:
        flow = self._flow.flow
        reached = [each.settings.alias for each in (self._source, self._target) if each.metadata is not None]
        which = partial(
            find_standby,
            self._settings,
            flow,
            reached,
            copied_back=self._shared is not None,
            timeout_s=METADATA_S,
        )
        standby = await ask_blocking(which, self._left_s())
        if isinstance(standby, Unanswered):
            return Unanswered(f"which cluster stands by is not known: {standby.why}", standby.fix)
        if standby is None:
            return StandbyWriters(None, NONE_STANDS_BY)
        asked = self._target if standby.alias == flow.target else self._source
        if asked.client is None or asked.metadata is None:
            return asked.unanswered
        if asked is self._target and (self._survey is None or self._survey.target_error):
            return self._unread()
        return await ask(self._writers(standby, _side(asked)), self._left_s())

    async def _writers(self, standby: Standby, side: Side) -> StandbyWriters:
        flow = self._flow.flow
        if side.alias == flow.target:
            assert self._survey is not None  # else there is no answer
            names, into = list(self._names.values()), self._survey.maps
            journal = self._flow.policy.journal_topic(flow.source)
        else:
            journal = self._back.policy.journal_topic(flow.target)
            names, into = list(self._names), await maps_to(side, journal)
        topics = sorted({name for name in names if available(side.metadata.topics, name)})
        return await standby_writers(standby, side, topics, into, journal, clock.now_ms())

    def _unread(self) -> Unanswered:
        why = self._survey.target_error if self._survey is not None else "no answer"
        return Unanswered(f"the journal could not be read: {why}", again(why))


def _side(asked: AskedCluster) -> Side:
    assert asked.client is not None
    assert asked.metadata is not None
    return Side(asked.settings.alias, asked.client, asked.metadata)
