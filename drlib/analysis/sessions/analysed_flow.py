"""The clusters and topics of an analysis: a flow of a properties file, or of a lab.

Rules: nothing is created on clusters of a properties file. A topic that was named and is missing on one of the clusters is a
`UsageError`; of a whole flow, a missing topic is reported as unknown. A lab that is not running is started, given a little
traffic, and stopped by `close`. Brokers are read at their own addresses, never through the lab's link.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from drlib.analysis.sessions.audit_practice import AuditPractice
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import choose_flow
from drlib.lab.environment import LAB_ONLY, READS, Banner, Environment, environment_of
from drlib.lab.lab import Lab
from drlib.model import Flow

LAB_ALIASES: Final = ("LEFT", "RIGHT")  # of a lab that is started for an analysis


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A topic of the source and its name on the target. `absent` names the clusters that do not have it, `offline` those on
    which a partition of it has no leader."""

    topic: str
    remote: str
    absent: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()

    @property
    def unread(self) -> str:
        """Why it cannot be read; "" where it can."""
        why = [f"{' and '.join(self.absent)} does not have it"] * bool(self.absent)
        why += [f"a partition of it has no leader on {' and '.join(self.offline)}"] * bool(self.offline)
        return ", and ".join(why)


@dataclass(frozen=True)
class AnalysedFlow:
    """`practice` is the traffic on the lab, where it is one. `close` stops a lab that was started for it."""

    settings: MirrorSettings
    flow: Flow
    close: Callable[[], None]
    practice: AuditPractice | None = None
    environment: Environment = Environment.PRODUCTION

    @property
    def banner(self) -> Banner:
        """What the analysis reads and changes, for people."""
        does = LAB_ONLY if self.environment is Environment.LAB else READS
        return Banner(self.environment, str(self.flow), does)

    @property
    def source(self) -> ClusterSettings:
        return self.settings.clusters[self.flow.source]

    @property
    def target(self) -> ClusterSettings:
        return self.settings.clusters[self.flow.target]

    @property
    def flow_settings(self) -> FlowSettings:
        return self.settings.flow(self.flow.source, self.flow.target)

    def pairs(self, asked: Sequence[str] = ()) -> tuple[TopicPair, ...]:
        """The topics to read: those `asked` for by their names on the source, or all that the flow mirrors.

        Raises `UsageError` for one that was asked for and is missing, and where there is none; `Unreachable`.
        """
        chosen = self.flow_settings
        with Cluster(self.source) as cluster:
            source_topics = cluster.topics()
        with Cluster(self.target) as cluster:
            target_topics = cluster.topics()
        names = asked or sorted(
            name for name in source_topics if chosen.mirrors_topic(name) and not chosen.policy.is_heartbeats(name)
        )
        pairs = []
        for name in names:
            remote = chosen.policy.downstream_topic(self.flow, name)
            absent = [(self.flow.source, name)] if name not in source_topics else []
            absent += [(self.flow.target, remote)] if remote not in target_topics else []
            if absent and asked:
                raise UsageError(
                    f"topic {name} cannot be compared",
                    " and ".join(f"{alias} has no topic {topic}" for alias, topic in absent),
                    f"Check the name and the flow {self.flow}; the mirror may not have created it yet.",
                )
            sides = ((self.flow.source, source_topics.get(name)), (self.flow.target, target_topics.get(remote)))
            offline = tuple(alias for alias, found in sides if found is not None and found.offline)
            pairs.append(TopicPair(name, remote, tuple(alias for alias, _ in absent), offline))
        if not pairs:
            raise UsageError(
                f"flow {self.flow} mirrors no topic",
                f"none of {len(source_topics)} topics of {self.flow.source} is chosen by its filters",
                "Name topics, or correct `topics` in the properties file.",
            )
        return tuple(pairs)


def open_flow(properties: str, lab_dir: str, flow: str, *, plant: bool = False) -> AnalysedFlow:
    """The flow to analyse, "" for the only enabled one of a file and the usual one of a lab; one that is disabled may be named.

    `plant`: on a lab, traffic with duplicates. Nothing is planted on clusters of a file.
    Raises `UsageError` for no clusters, for two, for a flow the file does not have, and for one of several.
    """
    if properties and lab_dir:
        raise UsageError(
            "both lab_dir and properties were given", "an analysis reads one or the other", "Give only one of them."
        )
    if properties:
        settings = load_mirror_settings(Path(properties))
        chosen = choose_flow.of_file(settings, flow, f"{choose_flow.COMMAND} {properties}", enabled=False)
        return AnalysedFlow(settings, chosen, lambda: None, environment=environment_of(settings))
    with ExitStack() as undo:
        lab, parsed = attach_lab(lab_dir, flow, undo)
        practice = AuditPractice(lab, parsed, plant)
        practice.prepare()
        return lab_flow(lab, parsed, practice.properties, undo, practice)


def attach_lab(lab_dir: str, asked: str, undo: ExitStack) -> tuple[Lab, Flow]:
    """The lab in `lab_dir` and its flow `asked`, "" for the usual one; a lab that had to be started goes down with `undo`.

    Raises what `Lab.attach_or_up` raises, and `UsageError` for no folder, and for a flow that the lab lacks.
    """
    if not lab_dir:
        raise UsageError(
            "no clusters were given",
            "an analysis needs a properties file or a lab",
            "Give properties=FILE or lab_dir=FOLDER.",
        )
    root = Path(lab_dir)
    flow = choose_flow.of_lab(choose_flow.lab_aliases(root, LAB_ALIASES), asked)
    lab, own = Lab.attach_or_up(root, LAB_ALIASES, needed=(flow.source, flow.target))
    if own:
        undo.callback(lab.down)
    return lab, flow


def lab_flow(
    lab: Lab, flow: Flow, properties: Path, undo: ExitStack, practice: AuditPractice | None = None
) -> AnalysedFlow:
    """A flow of `lab` at the brokers' own addresses; `close` runs what `undo` holds."""
    settings = load_mirror_settings(properties)
    direct = {alias: lab.clusters[alias].settings() for alias in settings.clusters}
    own = replace(settings, clusters=direct)
    return AnalysedFlow(own, flow, undo.pop_all().close, practice, Environment.LAB)
