"""Refuse to move the applications while a redirected producer's ID is another producer's on the cluster moved to.

Rules: both clusters are asked right before the pointer moves, for seconds only, and what was found is evidence of every move.
It is refused only where the file says that producers are redirected (`drlib.producers.redirected`), for what can lose
acknowledged records; `collide` allows it. Of a source that does not answer, or in part, the producers that the mirror kept on
the target are compared in their place, and the evidence says as of when. What could not be compared is a reason to stay for a
planned move alone: an emergency is not held up by it, and the evidence says why it was not checked.
Not for: whether records were lost afterwards. Brokers do not keep what they have acknowledged; the producers do.
"""

import asyncio
from typing import Final

from drlib import clock
from drlib.config.settings import MirrorSettings
from drlib.drill.producer_ids.observe import compare_ids, compare_kept
from drlib.drill.producer_ids.rules import ComparedIds, Effect
from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.checks.producer_ids import as_of, describe
from drlib.drill.readiness.observe.ask import ask
from drlib.drill.step.action import DrillCall
from drlib.drill.step.argument_types import Flag
from drlib.drill.step.context import DrillContext
from drlib.drill.step.known_silence import ask_in_run
from drlib.errors import Deviated, DrlibError, ReadinessError, Unreachable
from drlib.formats import first_few
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.model import Flow

ASK_S: Final = 5.0
EMERGENCY_S: Final = 2.0  # a source that takes longer counts as gone
KEPT_S: Final = 10.0  # a large journal is read whole


class ProducerIdsArgument(DrillCall):
    """What a move does where producer IDs collide."""

    collide: Flag = False
    """Whether to move redirected producers although another one on the target has their ID: records can be lost."""

    def refuse_collisions(self, moving: Flow, *, planned: bool) -> str:
        """What was found, in words. Raises `Deviated` where the applications have to stay."""
        return refuse_collisions(self.context, moving, planned=planned, allowed=self.collide)


def refuse_collisions(place: DrillContext, moving: Flow, *, planned: bool, allowed: bool) -> str:
    """The same; `allowed`: they do not have to stay."""
    answer = ask_in_run(place, [place.cluster(moving.source)])[moving.source]
    silent = answer.why if isinstance(answer, Unreachable) else ""
    how = f"move with collide = true, and start them when the pointer names {moving.target}"
    return _refuse(place.mirror_settings(), moving, how, Deviated, planned=planned, allowed=allowed, silent=silent)


def refuse_by_hand(settings: MirrorSettings, moving: Flow, *, allowed: bool) -> str:
    """The same for a pointer that a person moves. Asks both clusters, for seconds. Raises `ReadinessError`."""
    how = "give --force REASON, and start them when the pointer is moved"
    return _refuse(settings, moving, how, ReadinessError, planned=False, allowed=allowed)


def _refuse(
    settings: MirrorSettings,
    moving: Flow,
    how: str,
    refusal: type[DrlibError],
    *,
    planned: bool,
    allowed: bool,
    silent: str = "",
) -> str:
    """`silent`: why the source is known not to answer."""
    found: ComparedIds | str = silent
    if not silent:
        asked = blocking(ask(_compare(settings, moving, planned=planned), ASK_S if planned else EMERGENCY_S))
        found = asked.why if isinstance(asked, Unanswered) else asked
    if isinstance(found, str) and not planned:
        kept = blocking(ask(_compare_kept(settings, moving, found), KEPT_S))
        found = f"{found}; what the mirror kept was not read: {kept.why}" if isinstance(kept, Unanswered) else kept
    words, dangers, unknown = judge(found, clock.now_ms())
    if planned:
        dangers += unknown
    if dangers and settings.flow(moving.source, moving.target).producers_redirected and not allowed:
        raise refusal(
            f"the applications stay at {moving.source}",
            first_few(dangers),
            f"Stop redirected producers, {how}: {moving.source} knows them for a day; with producers that still run, records "
            "can be acknowledged and lost. docs/clients.md#producer-ids",
        )
    return words


def judge(found: ComparedIds | str, now_ms: int) -> tuple[str, list[str], list[str]]:
    """What was found in words, what of it can lose records, and what was not compared. `found`: or why nothing was."""
    if isinstance(found, str):
        return f"not checked: {found}", [], [f"producer IDs were not compared: {found}"]
    texts = {each: f"producer ID {each.producer_id}, {describe(each, now_ms)}" for each in found.collisions}
    unknown = [f"{name} was not checked: {why}" for name, why in found.missing]
    words = first_few([*texts.values(), *unknown])
    words = words or f"none of {found.producers} on {found.partitions} partitions is another producer's"
    if found.as_kept is not None:
        words = f"{as_of(found.as_kept)} ({found.as_kept.why}): {words}"
    return words, [text for each, text in texts.items() if each.effect is Effect.LOST], unknown


async def _compare_kept(settings: MirrorSettings, moving: Flow, why: str) -> ComparedIds:
    async with wire_client(settings.clusters[moving.target], client_id="drlib-ids", timeout_s=ASK_S) as there:
        flow, metadata = settings.flow(moving.source, moving.target), await there.metadata(None)
        return await compare_kept(flow, frozenset(settings.clusters), (there, metadata), why)


async def _compare(settings: MirrorSettings, moving: Flow, *, planned: bool) -> ComparedIds:
    source, target = settings.clusters[moving.source], settings.clusters[moving.target]
    async with (
        wire_client(source, client_id="drlib-ids", timeout_s=ASK_S) as here,
        wire_client(target, client_id="drlib-ids", timeout_s=ASK_S) as there,
    ):
        both = await asyncio.gather(here.metadata(None), there.metadata(None))
        flow = settings.flow(moving.source, moving.target)
        aliases = frozenset(settings.clusters)
        return await compare_ids(flow, aliases, (here, both[0]), (there, both[1]), use_kept=not planned)
