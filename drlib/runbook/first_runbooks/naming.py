"""How mirror topics are named: what the file says and what that costs, the question where it says nothing, and its lines. Pure.

Rules: where one cluster serves and the other stands by, identical names are recommended, with both directions enabled: clients
change the address alone, and a failover has a way back. Where both may serve, people choose. Where the file names a policy,
topics are mirrored already, or that is not known, nothing is asked: names would change. `drlib init` never writes the
properties file.
Not for: what the policies do (`drlib.config.replication_policy`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import DEFAULT, IDENTITY, IdentityReplicationPolicy, Names
from drlib.config.settings import MirrorSettings
from drlib.errors import UsageError
from drlib.runbook.first_runbooks.observation import FlowFacts

KEY: Final = "replication.policy.class"


class Scheme(StrEnum):
    """How one flow names them."""

    SHARED = "identical, in both directions"
    ONE_WAY = "identical, in one direction"
    PREFIXED = "prefixed"


BOTH_SIDES: Final[Mapping[Scheme, tuple[str, str]]] = {  # what is gained, and what it costs; {}: source and target
    Scheme.SHARED: (
        "clients change the address alone, and what a failed cluster had not sent crosses when it is back",
        "where both clusters are written to, their logs differ in order and a group that moves may read records again",
    ),
    Scheme.ONE_WAY: (
        "clients change the address alone, and both logs have one order",
        "after a failover there is no way back, unless {target}->{source} copies the same topics from the beginning",
    ),
    Scheme.PREFIXED: (
        "the mirror alone writes to a mirror topic, which keeps its source's order, and positions are exact",
        "clients need {source}.orders beside orders: after a failover they read both, in this order, and write to orders",
    ),
}


def refuse_other_names(settings: MirrorSettings, wanted: Names | None) -> None:
    """Raises `UsageError` where the file does not name topics as is wanted, with the lines that do."""
    kept = [isinstance(each.policy, IdentityReplicationPolicy) for each in settings.enabled_flows]
    if wanted is Names.PREFIXED and any(kept):
        raise UsageError(
            f"{settings.path.name} keeps the names of topics",
            f"its {KEY} is IdentityReplicationPolicy",
            "Remove that line before anything is mirrored, or give --names identical.",
        )
    if wanted is Names.IDENTICAL and len(settings.clusters) != 2:
        raise UsageError(
            f"{settings.path.name} cannot name topics alike on all clusters, in both directions",
            f"it has {len(settings.clusters)} clusters, and copies of a third one are not recognised",
            "Give --names prefixed, or a file with two clusters.",
        )
    shared = [all_shared(settings, each.flow) for each in settings.enabled_flows]
    if wanted is Names.IDENTICAL and all(kept) and len(kept) == 2 and not all(shared):
        raise UsageError(
            f"{settings.path.name} does not copy the same topics in both directions",
            "under one name, a topic that one direction copies has no way back",
            "Give both flows the same topics and topics.exclude, before anything is mirrored. Then the same command again.",
        )
    if wanted is Names.IDENTICAL and not all(shared):
        raise UsageError(
            f"{settings.path.name} does not name topics alike on both clusters, with both directions enabled",
            "clients would need other topic names after a failover, or there would be no way back",
            f"Before anything is mirrored, write into it: {'; '.join(lines(settings))}. Then the same command again.",
        )


def lines(settings: MirrorSettings) -> list[str]:
    """The lines for identical names in both directions; a direction that is not enabled yet selects what the other one does."""
    flows = [each.flow for each in settings.enabled_flows]
    both = dict.fromkeys(str(one) for flow in flows for one in (flow, flow.reverse))
    selected = []
    for flow in flows if len(flows) == 1 else ():
        there, back = settings.flow(flow.source, flow.target), settings.flow(flow.target, flow.source)
        for key, chosen, other in (
            ("topics", there.topics, back.topics),
            ("topics.exclude", there.topics_exclude, back.topics_exclude),
        ):
            if set(chosen) != set(other):
                selected.append(f"{flow.reverse}.{key} = {','.join(chosen)}")
    return [f"{KEY} = {IDENTITY}", *(f"{flow}.enabled = true" for flow in both), *selected]


def scheme(settings: MirrorSettings, flow: FlowSettings) -> Scheme:
    if not isinstance(flow.policy, IdentityReplicationPolicy):
        return Scheme.PREFIXED
    return Scheme.SHARED if all_shared(settings, flow.flow) else Scheme.ONE_WAY


def stated(settings: MirrorSettings, flows: Sequence[FlowFacts], written: Mapping[str, int]) -> list[str]:
    """How each flow names topics, by which line of the file, and what that gains and costs.

    `written`: by flow, the line that names its policy.
    """
    said = []
    by_flow = {each.flow: each for each in settings.enabled_flows}
    for facts in flows:
        found = scheme(settings, by_flow[facts.flow])
        line = written.get(str(facts.flow))
        why = f"{KEY} in line {line}" if line else f"the default, as the file has no {KEY}"
        gain, cost = (text.format(source=facts.source.alias, target=facts.target.alias) for text in BOTH_SIDES[found])
        said += [f"{facts.flow}: names are {found} ({why}).", f"  for it: {gain}.", f"  cost: {cost}."]
    return said


def why_not_asked(settings: MirrorSettings, flows: Sequence[FlowFacts], written: Mapping[str, int]) -> str:
    """Why names are not to be chosen now; "" where they are."""
    if written:
        return "the file names a policy"
    if len(settings.clusters) != 2:
        return f"identical names need a file with two clusters, and this one has {len(settings.clusters)}"
    if not all(facts.complete and not facts.target.silence for facts in flows):
        return "it is not known whether topics are mirrored already"
    if mirrors := sum(len({*facts.mirrored.values()} & facts.target.topics) for facts in flows):
        return f"{mirrors} topics are mirrored already, and under other names they would be mirrored again"
    return ""


def question(settings: MirrorSettings, flows: Sequence[FlowFacts]) -> list[str]:
    """Both schemes, a line each, and which one is recommended."""
    source, target = flows[0].source.alias, flows[0].target.alias
    if len(settings.enabled_flows) == 1:
        advice = f"Recommended: identical, as {target} stands by: only {settings.enabled_flows[0].flow} is enabled."
    else:
        advice = "Recommended: identical where one cluster stands by. Where clients write to both, choose by the cost."
    costs = {each: text.format(source=source, target=target) for each, (_, text) in BOTH_SIDES.items()}
    return [
        "How are mirror topics to be named? Nothing is mirrored yet; later, another choice would mirror everything again.",
        f"  identical: orders is orders on both clusters, copied in both directions. Cost: {costs[Scheme.SHARED]}.",
        f"  prefixed: orders of {source} is {source}.orders on {target}. Cost: {costs[Scheme.PREFIXED]}.",
        advice,
    ]


def choices(settings: MirrorSettings) -> list[str]:
    """The lines of the file for each choice, where it cannot be asked."""
    return [
        "For identical names write into the file:",
        *(f"  {line}" for line in lines(settings)),
        "For prefixed names:",
        f"  {DEFAULT_LINE}",
    ]


DEFAULT_LINE: Final = f"{KEY} = {DEFAULT}"
