"""Which topics two flows of a pair copy in both directions under one name.

Rules: only where both directions are enabled and both keep topic names (IdentityReplicationPolicy), and no further flow of the
file that does so writes to one of the two clusters or makes a ring with them: each recognises what the other one copied, and
nothing else. Further clusters may be filled from the pair, each by one way. A topic that both select is shared. Heartbeats
bear a prefix under every policy and are never shared. Elsewhere a cycle is refused (`drlib.mirror.preflight.cycles`), but for
rings (`rings`), in which no position is known.
Not for: recognising copies (`drlib.mirror.engine.reverse`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from drlib.config.both_ways.rings import flows_that_close_rings, hops_of, keeps_names, ring_of
from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import ALIAS_LETTERS, HEARTBEATS
from drlib.config.settings import MirrorSettings
from drlib.errors import UsageError
from drlib.model import Flow


class TopicsShared(UsageError):
    """What a command would answer for a topic that both directions copy is not known."""


def keeps_names_both_ways(flow: FlowSettings, reverse: FlowSettings | None, flows: Collection[FlowSettings]) -> bool:
    """Are these two directions enabled under topic names that stay, and all copies among `flows`, those of the file, known?"""
    return reverse is not None and all(keeps_names(each) for each in (flow, reverse)) and not may_return(flows)


def may_return(flows: Collection[FlowSettings]) -> bool:
    """May a record come to a cluster twice, or back, by those of `flows` that keep topic names?

    By a ring, directions aside, whose copies are not recognised (`rings`), and by a third flow that writes to one of two
    clusters which copy from each other.
    """
    keeping = {each.flow for each in flows if keeps_names(each)}
    paired = {flow for flow in keeping if flow.reverse in keeping}
    third = any(each.target == flow.target and each.source != flow.source for flow in paired for each in keeping)
    return third or _has_ring(keeping - flows_that_close_rings(flows))


def _has_ring(flows: Collection[Flow]) -> bool:
    joined: dict[str, str] = {}  # the parent of each cluster in the tree that it is in

    def root(alias: str) -> str:
        while (parent := joined.get(alias, alias)) != alias:
            alias = parent
        return alias

    for pair in {frozenset((flow.source, flow.target)) for flow in flows}:
        one, other = (root(alias) for alias in pair)
        if one == other:
            return True
        joined[one] = other
    return False


def shared_topics(
    flow: FlowSettings, reverse: FlowSettings | None, flows: Collection[FlowSettings]
) -> Callable[[str], bool] | None:
    """Whether a topic is copied in both directions; None where none can be."""
    if reverse is None or not keeps_names_both_ways(flow, reverse, flows):
        return None
    back = reverse

    def shared(topic: str) -> bool:
        return not topic.endswith(HEARTBEATS) and flow.mirrors_topic(topic) and back.mirrors_topic(topic)

    return shared


@dataclass(frozen=True, slots=True)
class Journals:
    """The journals that one flow uses, by hop. `own`: those it writes, on its target; `theirs`: those on its source that say
    what are copies there. `incoming` writes these: the flow back or, in a ring, the one that fills the source; None where
    nothing is shared."""

    own: tuple[str, ...]
    incoming: FlowSettings | None = None
    theirs: tuple[str, ...] = ()


def journals_of(flow: FlowSettings, flows: Collection[FlowSettings]) -> Journals:
    """The journals of `flow` among `flows`, those of its file."""
    ring = ring_of(flow.flow, flows)
    back = next((each for each in flows if each.flow == flow.flow.reverse), None)
    paired = back if shared_topics(flow, back, flows) is not None else None
    incoming = paired if ring is None else ring.incoming
    own, theirs = (
        tuple(each.policy.journal_topic(each.flow.source, hop) for hop in hops_of(ring)) if each is not None else ()
        for each in (flow, incoming)
    )
    return Journals(own, incoming, theirs)


def shared_between(settings: MirrorSettings, flow: Flow) -> Callable[[str], bool] | None:
    """The same for `flow` of a file and the flow back."""
    there, back = settings.flow(flow.source, flow.target), settings.flow(flow.target, flow.source)
    return shared_topics(there, back, settings.flows)


def shares_every_topic(flow: FlowSettings, reverse: FlowSettings | None, flows: Collection[FlowSettings]) -> bool:
    """Is every topic that the flow copies surely copied back? Where both select by the same patterns."""
    return reverse is not None and keeps_names_both_ways(flow, reverse, flows) and _patterns(flow) == _patterns(reverse)


def _patterns(flow: FlowSettings) -> tuple[frozenset[str], frozenset[str]]:
    """What it selects by: the order of patterns, and one that is given twice, make no difference."""
    return frozenset(flow.topics), frozenset(flow.topics_exclude)


def all_shared(settings: MirrorSettings, flow: Flow) -> bool:
    """The same for `flow` of a file and the flow back."""
    by_flow = {each.flow: each for each in settings.flows}
    there, back = by_flow.get(flow), by_flow.get(flow.reverse)
    return there is not None and shares_every_topic(there, back, settings.flows)


def refuse_ring(settings: MirrorSettings, flow: Flow, what: str) -> None:
    """Raises `TopicsShared` where `flow`, or the one back, is in a ring of flows that keep topic names.

    `what` is not possible then.
    """
    ring = ring_of(flow, settings.flows) or ring_of(flow.reverse, settings.flows)
    if ring is not None:
        raise TopicsShared(
            f"{what} between {flow.source} and {flow.target}",
            f"{ring} is a ring of flows that keep topic names, so each topic holds records of all its clusters, in an order of "
            "its own, and a position on one says nothing exact about another",
            "Let applications continue by the time of their records, or mirror between two clusters: pairs have positions.",
        )


def refuse_partly_shared(settings: MirrorSettings, flow: Flow, what: str) -> None:
    """Raises `TopicsShared` where some topics of `flow` may be copied in both directions, and not surely all of them."""
    if not all_shared(settings, flow):
        refuse_shared_topics(
            settings,
            flow,
            what,
            f"Give {flow} and {flow.reverse} the same topics and topics.exclude, or topics that do not overlap.",
        )


def refuse_shared_topics(
    settings: MirrorSettings,
    flow: Flow,
    what: str,
    remedy: str = "Give the two flows topics that do not overlap, disable one of them, or use DefaultReplicationPolicy.",
) -> None:
    """Raises `TopicsShared` where `flow` and its reverse may copy a topic in both directions.

    `what` is not possible then, as in "positions cannot be translated".
    """
    refuse_ring(settings, flow, what)
    by_flow = {each.flow: each for each in settings.flows}
    there, back = by_flow.get(flow), by_flow.get(flow.reverse)
    if (
        there is None
        or back is None
        or not keeps_names_both_ways(there, back, settings.flows)
        or _disjoint(there, back)
    ):
        return
    raise TopicsShared(
        f"{what} between {flow.source} and {flow.target}",
        "both directions are enabled and keep topic names, so each topic holds records of both clusters, in an order of its "
        "own, and a position on one says nothing exact about the other",
        remedy,
    )


def _disjoint(flow: FlowSettings, reverse: FlowSettings) -> bool:
    """Can no topic be selected by both, as far as the letters that their patterns begin and end with show?"""
    return not any(_may_overlap(one, other) for one in flow.topics for other in reverse.topics)


def _may_overlap(one: str, other: str) -> bool:
    """May a name match both Java patterns? True where it is not known."""
    if set(one + other) <= ALIAS_LETTERS:  # a period matches any letter
        return len(one) == len(other) and all(a == b or "." in (a, b) for a, b in zip(one, other, strict=True))
    if "|" in one + other or "(?" in one + other:
        return True
    begin = [_only(_BEGINNING.match(each)) for each in (one, other)]
    end = [_only(_ENDING.search(each))[::-1] for each in (one, other)]
    return _agree(*begin) and _agree(*end)


_BEGINNING: Final = re.compile(r"(?:[A-Za-z0-9_-](?![?*+{]))*")
_ENDING: Final = re.compile(r"(?<!\\)[A-Za-z0-9_-]*$")


def _only(found: re.Match[str] | None) -> str:
    return found[0] if found is not None else ""


def _agree(one: str, other: str) -> bool:
    """Is one of them what the other begins with?"""
    return one.startswith(other) or other.startswith(one)
