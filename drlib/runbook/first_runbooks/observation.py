"""What was observed of clusters and flows for their first runbooks: frozen values, and what follows from them. Pure.

Rules: what was not answered is None, and `unknown` says why; it is never an empty answer. An application is a consumer group
that the flow mirrors and that has members or committed offsets. Which topics have to exist on the target under their own
names is decided as the mirror decides it (`drlib.mirror.sync.rules.local_topics`). The names of mirror topics are used in place
of those of a source that does not answer, where its policy has the source's alias in them.
Not for: asking clusters (`drlib.runbook.first_runbooks.observe`), texts (`runbooks`, `readme`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from drlib.config.both_ways.shared_topics import all_shared, shared_between
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.inventory.rules import GROUPS_OF_DRLIB
from drlib.mirror.sync.rules import local_topics
from drlib.model import Flow


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A consumer group. `members` is None where they could not be read; `topics`: committed or assigned ones; `why` not."""

    name: str
    members: int | None = None
    clients: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """One cluster. `silence`: why it does not answer, "" where it does; `in_part`: brokers of it that do not.

    `producers`: by topic, whether one of its idempotent producers writes in transactions; topics without one are left out.
    `authorizer`: has it one? `unknown`: questions without an answer, with the reason.
    """

    alias: str
    addresses: tuple[str, ...]
    cluster_id: str = ""
    brokers: int = 0
    silence: str = ""
    in_part: str = ""
    topics: frozenset[str] = frozenset()
    groups: tuple[SeenGroup, ...] | None = None
    producers: Mapping[str, bool] | None = None
    authorizer: bool | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """What is known of one flow.

    `mirrored`: source topic -> mirror topic. `applications` is None where the source's groups are not known. `written`: topics
    that producers write to on the source, None where that is not known; `missing`: topics that producers need and the target
    lacks, None where that is not known. `keeps_names`: mirror topics have the names of their sources. `both_ways`: the flow
    back copies every topic, too; `copied_back`: it may copy some. `of_file`: all flows that the file enables.
    """

    flow: Flow
    source: SeenCluster
    target: SeenCluster
    mirrored: Mapping[str, str] = field(default_factory=dict)
    applications: tuple[SeenGroup, ...] | None = None
    written: tuple[str, ...] | None = None
    transactional: tuple[str, ...] = ()
    missing: tuple[str, ...] | None = None
    keeps_names: bool = False
    both_ways: bool = False
    copied_back: bool = False
    of_file: tuple[Flow, ...] = ()

    @property
    def way_back(self) -> bool:
        """Can the applications return? Under one name what is written to a copy crosses only where the flow back copies it."""
        return self.both_ways or not self.keeps_names

    @property
    def complete(self) -> bool:
        """Did both clusters answer, with all brokers, and the source with its groups?"""
        silent = any(each.silence or each.in_part for each in (self.source, self.target))
        return not silent and self.applications is not None

    def on_target(self, topic: str) -> str:
        """The topic of the target that has the records of `topic`."""
        return self.mirrored.get(topic, "")


def facts(
    settings: MirrorSettings, seen: Mapping[str, SeenCluster], whole: MirrorSettings | None = None
) -> tuple[FlowFacts, ...]:
    """Each enabled flow, in the order of the file. `whole`: the file's settings, where these are of some of its flows."""
    found = (_facts(flow, settings.clusters, seen) for flow in settings.enabled_flows)
    return tuple(_with_the_flow_back(each, whole or settings) for each in found)


def _with_the_flow_back(facts: FlowFacts, settings: MirrorSettings) -> FlowFacts:
    shared = shared_between(settings, facts.flow)
    some = shared is not None and (not facts.mirrored or any(map(shared, facts.mirrored)))
    enabled = tuple(each.flow for each in settings.enabled_flows)
    return replace(facts, both_ways=all_shared(settings, facts.flow), copied_back=some, of_file=enabled)


def _facts(flow: FlowSettings, aliases: Collection[str], seen: Mapping[str, SeenCluster]) -> FlowFacts:
    source, target = seen[flow.flow.source], seen[flow.flow.target]
    mirrored = _mirrored(flow, source, target)
    keeps_names = local_topics.keeps_names(flow)
    needed = sorted(mirrored if keeps_names else (n for n in mirrored if local_topics.is_wanted(flow, n, aliases)))
    written = None if source.producers is None else tuple(name for name in needed if name in source.producers)
    transactional = tuple(name for name in written or () if source.producers and source.producers[name])
    missing = None if target.silence else tuple(name for name in needed if name not in target.topics)
    return FlowFacts(
        flow.flow, source, target, mirrored, _applications(flow, source), written, transactional, missing, keeps_names
    )


def _mirrored(flow: FlowSettings, source: SeenCluster, target: SeenCluster) -> dict[str, str]:
    """Without heartbeats, which no application reads."""
    policy = flow.policy
    if not source.silence:
        names = (name for name in source.topics if flow.mirrors_topic(name) and not policy.is_heartbeats(name))
        return {name: policy.remote_topic(flow.flow.source, name) for name in sorted(names)}
    mirrors = sorted(name for name in target.topics if policy.source_of(name) == flow.flow.source)
    upstream = {policy.upstream_topic(name): name for name in mirrors if not policy.is_heartbeats(name)}
    return {name: mirror for name, mirror in upstream.items() if name and name != mirror and flow.mirrors_topic(name)}


def _applications(flow: FlowSettings, source: SeenCluster) -> tuple[SeenGroup, ...] | None:
    if source.groups is None:
        return None
    return tuple(
        group
        for group in sorted(source.groups, key=lambda each: each.name)
        if flow.mirrors_group(group.name)
        and not group.name.startswith(GROUPS_OF_DRLIB)
        and (group.members is None or group.members or group.topics)
    )
