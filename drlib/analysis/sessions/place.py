"""Where an analysis looks: a flow of a properties file, or of a lab, and which topics of it.

Rules: only what is there is looked at; a topic that somebody named and that one of the clusters does not have is a
`UsageError`; of a whole flow, such a topic is told and not passed. A lab that is not up is started, given a little
traffic, and taken down by `close`. The checker reads the brokers' own addresses, never the lab's link.
Not for: changing anything on clusters of a properties file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from drlib.analysis.sessions.audit_practice import Practice
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import Flow


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic of the source and what it is called on the target. `absent` names the clusters that do not have it."""

    topic: str
    remote: str
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnalysisPlace:
    """`practice` is what runs on the lab, where it is one."""

    settings: MirrorSettings
    flow: Flow
    close: Callable[[], None]
    practice: Practice | None = None

    @property
    def source(self) -> ClusterSettings:
        return self.settings.clusters[self.flow.source]

    @property
    def target(self) -> ClusterSettings:
        return self.settings.clusters[self.flow.target]

    @property
    def flow_settings(self) -> FlowSettings:
        return self.settings.flow(self.flow.source, self.flow.target)

    def pairs(self, asked: Sequence[str] = ()) -> tuple[Pair, ...]:
        """The topics to look at: those `asked` for by their names on the source, or all that the flow mirrors.

        Raises `UsageError` for one that was asked for and is missing, and where there is none; `Unreachable`.
        """
        chosen = self.flow_settings
        with Cluster(self.source) as here:
            names = set(here.topics())
        with Cluster(self.target) as there:
            copies = set(there.topics())
        wanted = asked or sorted(
            name for name in names if chosen.mirrors_topic(name) and not chosen.policy.is_heartbeats(name)
        )
        found = []
        for name in wanted:
            remote = chosen.policy.downstream_topic(self.flow, name)
            absent = [(self.flow.source, name)] if name not in names else []
            absent += [(self.flow.target, remote)] if remote not in copies else []
            if absent and asked:
                raise UsageError(
                    f"topic {name} cannot be compared",
                    " and ".join(f"{alias} has no topic {topic}" for alias, topic in absent),
                    f"Check the name and the flow {self.flow}; the mirror may not have come to it yet.",
                )
            found.append(Pair(name, remote, tuple(alias for alias, _ in absent)))
        if not found:
            raise UsageError(
                f"flow {self.flow} mirrors no topic",
                f"none of {len(names)} topics of {self.flow.source} is chosen by its filters",
                "Name topics, or correct `topics` in the properties file.",
            )
        return tuple(found)


def find_place(properties: str, lab_dir: str, flow: str, *, plant: bool = False) -> AnalysisPlace:
    """The clusters to look at. Raises `UsageError` for none, for both, and for a flow the file does not have."""
    wanted = Flow.parse(flow)
    if properties and lab_dir:
        raise UsageError("a lab and a properties file", "an analysis is on one of them", "Leave one of them out.")
    if properties:
        settings = load_mirror_settings(Path(properties))
        settings.flow(wanted.source, wanted.target)
        return AnalysisPlace(settings, wanted, lambda: None)
    if not lab_dir:
        raise UsageError("no clusters were given", "there is nothing to look at", "Give properties, or lab_dir.")
    with ExitStack() as undo:
        lab = lab_for(Path(lab_dir), wanted, undo)
        practice = Practice(lab, wanted)
        practice.prepare(plant)
        return place_on(lab, wanted, practice.properties, undo, practice)


def lab_for(root: Path, flow: Flow, undo: ExitStack) -> Lab:
    """The lab in `root`; one that had to be started goes down with `undo`. Raises what `Lab.attach_or_up` raises."""
    lab, own = Lab.attach_or_up(root, needed=(flow.source, flow.target))
    if own:
        undo.callback(lab.down)
    return lab


def place_on(
    lab: Lab, flow: Flow, properties: Path, undo: ExitStack, practice: Practice | None = None
) -> AnalysisPlace:
    """A flow of `lab` at the brokers' own addresses; what `undo` holds is done when the place is closed."""
    settings = load_mirror_settings(properties)
    direct = {alias: lab.clusters[alias].settings() for alias in settings.clusters}
    return AnalysisPlace(replace(settings, clusters=direct), flow, undo.pop_all().close, practice)
