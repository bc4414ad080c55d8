"""Refuse to move the applications while a redirected producer's ID is another producer's on the cluster moved to.

Rules: both clusters are asked right before the pointer moves, `ASK_S` at most, and what was found is evidence of every move.
It is refused only where the file says that producers are redirected (`drlib.producers.redirected`), for what can lose
acknowledged records and for what could not be asked; `collide` allows it. A source that does not answer is no reason to stay:
its producers' IDs are not checked, and the evidence says so.
Not for: whether records were lost afterwards. Brokers do not keep what they have acknowledged; the producers do.
"""

import asyncio
from typing import Final

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.drill.producer_ids.observe import compare_ids
from drlib.drill.producer_ids.rules import ComparedIds, Effect
from drlib.drill.readiness.checks.objectives import first_few
from drlib.drill.readiness.checks.producer_ids import describe
from drlib.drill.step.action import DrillCall
from drlib.drill.step.argument_types import Flag
from drlib.drill.step.context import DrillContext
from drlib.drill.step.known_silence import ask_in_run
from drlib.errors import Deviated, DrlibError, Unreachable
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.model import Flow

ASK_S: Final = 5.0


class ProducerIdsArgument(DrillCall):
    """What a move does where producer IDs collide."""

    collide: Flag = False
    """Whether to move redirected producers although another one on the target has their ID: records can be lost."""

    def refuse_collisions(self, moving: Flow) -> str:
        """What was found, in words. Raises `Deviated` where the applications have to stay."""
        return refuse_collisions(self.context, moving, allowed=self.collide)


def refuse_collisions(place: DrillContext, moving: Flow, *, allowed: bool) -> str:
    """The same; `allowed`: they do not have to stay."""
    settings = place.mirror_settings()
    flow = settings.flow(moving.source, moving.target)
    silence = ask_in_run(place, [place.cluster(moving.source)])[moving.source]
    if isinstance(silence, Unreachable):
        return f"not checked: {silence.why}"
    found: ComparedIds | str
    try:
        found = blocking(_compare(place, flow, frozenset(settings.clusters)))
    except DrlibError as error:
        found = f"{error.what}: {error.why}"
    except TimeoutError:
        found = f"no answer within {ASK_S:g} s"
    words, dangers = judge(found, clock.now_ms())
    if dangers and flow.producers_redirected and not allowed:
        raise Deviated(
            f"the applications stay at {moving.source}",
            first_few(dangers),
            f"Stop these producers until the pointer names {moving.target}, and {moving.source} has forgotten them "
            "(producer.id.expiration.ms); or move with collide = true: records of theirs can then be acknowledged and lost. "
            "docs/clients.md#producer-ids",
        )
    return words


def judge(found: ComparedIds | str, now_ms: int) -> tuple[str, list[str]]:
    """What was found in words, and what of it is a reason not to move redirected producers. `found`: or why nothing was."""
    if isinstance(found, str):
        return f"not checked: {found}", [f"producer IDs were not compared: {found}"]
    dangers = [f"{name} was not checked: {why}" for name, why in found.missing]
    texts = []
    for each in found.collisions:
        text = f"producer ID {each.producer_id}, {describe(each, now_ms)}"
        texts.append(text)
        if each.effect is Effect.LOST:
            dangers.append(text)
    words = first_few([*texts, *(f"{name} was not checked: {why}" for name, why in found.missing)])
    return words or f"none of {found.producers} on {found.partitions} partitions is another producer's", dangers


async def _compare(place: DrillContext, flow: FlowSettings, aliases: frozenset[str]) -> ComparedIds:
    source, target = place.cluster(flow.flow.source), place.cluster(flow.flow.target)
    async with (
        asyncio.timeout(ASK_S),
        wire_client(source, client_id="drlib-ids", timeout_s=ASK_S) as here,
        wire_client(target, client_id="drlib-ids", timeout_s=ASK_S) as there,
    ):
        both = await asyncio.gather(here.metadata(None), there.metadata(None))
        return await compare_ids(flow, aliases, (here, both[0]), (there, both[1]))
