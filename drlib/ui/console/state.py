"""What a console shows at one moment: clusters, flows with their health, groups, events, links, and the running drill.

Rules: a frozen value, computed from observations without asking any cluster; None is unknown, and a sum with an unknown part
is unknown; each state is a word, not only a colour.
Not for: observing (`drlib.ui.console.watcher`), drawing (`drlib.ui.console.picture`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from drlib import formats
from drlib.drill.inventory.rules import Inventory
from drlib.drill.plan import shown
from drlib.drill.plan.rollback_preview import RollbackPreview, preview
from drlib.drill.run.runner import notes_of
from drlib.drill.session.board import Stand, StepStand, Waits, steps_of
from drlib.drill.session.find_running import Run
from drlib.kafka.protocol.error_codes import UNAUTHORIZED
from drlib.kafka.security.errors import CANNOT_USE
from drlib.lab.environment import NO_RUN, Banner, Environment
from drlib.lab.link.link import LinkState
from drlib.lab.link.toxics import Toxics
from drlib.lab.processes import ProcessStatus
from drlib.mirror.monitor.flow_view import NO_WORKER, FlowView
from drlib.mirror.monitor.survey import GroupStatus, Survey
from drlib.mirror.status.worker_status import Event

RUNS, PAUSED, KILLED, ANSWERS, SILENT, UNKNOWN = (
    "runs",
    "paused",
    "not running",
    "answers",
    "does not answer",
    "unknown",
)
NOT_STARTED, MOVED = "mirror not started", "applications have moved"
"""States of a flow for which no worker is expected."""
OLD_MS = 15_000  # older figures say so; a poll takes a second, and up to ten where it has to wait
LOG_ENDS_OLD_MS = 45_000  # a worker with many partitions asks less often


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """`word` is one of the constants above; `detail` names the brokers concerned, or the reason."""

    alias: str
    word: str
    detail: str = ""
    link: str = ""  # what its link does, in words; empty where there is none to ask
    clock: str = ""  # how far clocks of applications that work with it are behind; empty where they are right

    @property
    def well(self) -> bool | None:
        return None if self.word == UNKNOWN else self.word in (RUNS, ANSWERS)


@dataclass(frozen=True, slots=True)
class TopicLag:
    """What the source holds of a topic and the target does not. `seconds`: age of the oldest such record."""

    flow: str
    topic: str
    partitions: int
    records: int | None
    seconds: float | None
    parked: int


@dataclass(frozen=True, slots=True)
class DrillSeen:
    """The run in `folder`. `word`: running, waiting for approval, aborting, or how it ended; `note` is what else to know."""

    name: str
    folder: Path
    flow: str
    mode: str
    word: str
    steps: tuple[StepStand, ...]
    alive: bool
    note: str = ""
    waits: Waits | None = None
    rollback: RollbackPreview | None = None  # None where nothing can be undone any more, or its journal says nothing

    @property
    def current(self) -> StepStand | None:
        """The step that runs, else the first that waits; None when all are done."""
        running = [step for step in self.steps if step.stand in (Stand.RUNNING, Stand.UNDOING, Stand.STOPPED)]
        waiting = [step for step in self.steps if step.stand is Stand.WAITING]
        return next(iter(running or waiting), None)

    @property
    def abortable(self) -> bool:
        return self.alive and not self.word.startswith("aborting")


@dataclass(frozen=True, slots=True)
class Applications:
    """`inventory` None: it was not asked for yet. `left`: lines about who was left behind."""

    inventory: Inventory | None = None
    left: tuple[str, ...] = ()


NO_APPLICATIONS = Applications()


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """The state at `at_ms`. `unseen`: what could not be observed, and why. `first`: lines about unfinished runs."""

    at_ms: int
    clusters: tuple[ClusterSeen, ...] = ()
    flows: tuple[FlowView, ...] = ()
    drill: DrillSeen | None = None
    unseen: tuple[str, ...] = ()
    banner: Banner | None = None
    first: tuple[str, ...] = ()
    applications: Applications = NO_APPLICATIONS

    @property
    def topics(self) -> tuple[TopicLag, ...]:
        return tuple(lag for view in self.flows for lag in topics_of(view))

    @property
    def open_events(self) -> tuple[Event, ...]:
        return tuple(event for view in self.flows for event in view.open_events)

    @property
    def resolved_events(self) -> tuple[Event, ...]:
        return tuple(event for view in self.flows for event in view.events if event.resolved_ms is not None)


def as_of(view: FlowView, now_ms: int) -> tuple[int, bool]:
    """When the figures of a flow were taken (Unix ms), and whether they are old: not polled since, or the source is silent."""
    ends_ms = view.as_of_ms if view.lag is not None and view.as_of_ms else view.at_ms
    old = now_ms - view.at_ms > OLD_MS or now_ms - ends_ms > LOG_ENDS_OLD_MS
    return (min(view.at_ms, ends_ms) if old else view.at_ms), old


def with_expected_workers(view: FlowView, *, lab: bool, moved: Collection[str]) -> FlowView:
    """The view without an alert for a worker that is not expected: on a lab whose flow was never mirrored, and where the
    applications are on the target since a failover. Clusters of one's own that were never mirrored are unprotected."""
    if view.state != NO_WORKER:
        return view
    never = lab and not any(lane.owner or lane.claimed_ms for lane in view.lanes)
    if not never and view.flow not in moved:
        return view
    others = tuple(event for event in view.events if event.name != "NoWorker")
    return replace(view, state=MOVED if view.flow in moved else NOT_STARTED, events=others)


def topics_of(view: FlowView) -> tuple[TopicLag, ...]:
    """A flow's lag by topic, those furthest behind first, unknown before all."""
    by_topic: dict[str, list[int]] = {}
    for number, partition in enumerate(view.partitions):
        by_topic.setdefault(partition.topic, []).append(number)
    rows = []
    for topic, numbers in by_topic.items():
        mine = [view.partitions[n] for n in numbers]
        records = sum(p.lag for p in mine) if all(p.known for p in mine) else None
        ages = [p.outlook.lag_s for p in mine if not p.known or p.lag]
        known = [age for age in ages if age is not None]
        seconds = None if records is None or len(known) < len(ages) else max(known, default=0.0)
        rows.append(TopicLag(view.flow, topic, len(mine), records, seconds, sum(bool(p.parked) for p in mine)))
    return tuple(sorted(rows, key=lambda row: (row.records is not None, -(row.records or 0), row.topic)))


def standing(group: GroupStatus) -> str:
    """Where a group would resume at the target if it were moved now, in words."""
    if group.exact == group.partitions:
        return "exact"
    parts = [f"{group.exact} of {group.partitions} exact"] if group.exact else []
    if group.behind:
        parts.append(f"{group.behind} behind by {group.read_again - group.bounded_records:,} in all")
    if group.bounded:
        parts.append(f"{group.bounded} reads at most {group.bounded_records:,} records again")
    if unknown := group.other - group.bounded:
        parts.append(f"{unknown} not translatable: unknown")
    return ", ".join(parts)


def clusters_of_lab(
    brokers: Mapping[str, Iterable[str]],
    processes: Iterable[ProcessStatus],
    links: Iterable[LinkState],
    behind_ms: Mapping[str, int] = MappingProxyType({}),
) -> tuple[ClusterSeen, ...]:
    """`brokers`: names of each alias's brokers; `behind_ms`: how far clocks at an alias are behind."""
    by_name = {item.name: item for item in processes}
    by_link = {item.name: item for item in links}
    clusters = []
    for alias, names in brokers.items():
        states = {name: _word(by_name.get(name)) for name in names}
        distinct = set(states.values())
        word = distinct.pop() if len(distinct) == 1 else next(w for w in (KILLED, PAUSED, UNKNOWN) if w in distinct)
        detail = ", ".join(f"{name} {said}" for name, said in states.items() if said != RUNS)
        link_states = {link_words(by_link[name]) for name in states if name in by_link}
        behind = behind_ms.get(alias, 0)
        clock = f"clocks {formats.duration(behind / 1000)} behind" if behind else ""
        clusters.append(
            ClusterSeen(alias, word, detail, "; ".join(sorted(link_states)) if link_states else "link unknown", clock)
        )
    return tuple(clusters)


def clusters_of_surveys(surveys: Iterable[Survey]) -> tuple[ClusterSeen, ...]:
    """Clusters by whether they answered: one that did not answer for one flow is silent, one that refuses this host unknown."""
    clusters: dict[str, ClusterSeen] = {}
    for survey in surveys:
        source, _, target = survey.flow.partition("->")
        for alias, error in ((source, survey.source_error), (target, survey.target_error)):
            if alias not in clusters or error:
                silent = UNKNOWN if CANNOT_USE in error else SILENT
                clusters[alias] = ClusterSeen(alias, silent if error and UNAUTHORIZED not in error else ANSWERS, error)
    return tuple(clusters[alias] for alias in sorted(clusters))


def link_words(link: LinkState) -> str:
    """What a link does to its traffic, in words."""
    if link.cut:
        return "cut"
    to_broker, from_broker = _toxics(link.requests), _toxics(link.responses)
    if to_broker == from_broker:
        return f"{to_broker}, both ways" if to_broker else "healthy"
    said = [
        f"{toxics} {way}" for toxics, way in ((to_broker, "to the broker"), (from_broker, "from the broker")) if toxics
    ]
    return ", ".join(said)


def banner_of(environment: Environment, run: Run | None, flows: Sequence[str]) -> Banner:
    """The banner of a console: what the run on these clusters changes, of `flows` while there is none that has not ended."""
    if run is not None and run.over is None:
        return shown.banner(run.plan.drill, environment)
    return Banner(environment, flows[0] if len(flows) == 1 else "", NO_RUN)


def drill_of(run: Run | None, environment: Environment | None = None) -> DrillSeen | None:
    """A run's state for display; None where there is none."""
    if run is None:
        return None
    steps = steps_of(run.plan.drill, run.lines, datetime.now(UTC), alive=run.alive)
    if run.over is not None:
        word = run.over.ending.outcome.value
        standing_ = run.over.ending.standing
        note = f"not undone: {', '.join(standing_)}" if standing_ and word != "passed" else ""
    elif run.trouble:
        word, note = UNKNOWN, run.trouble
    elif run.aborting:
        word, note = "aborting" if run.alive else "aborted by request", f"requested by {run.aborting}"
    elif run.alive:
        word, note = "running", ""
    elif run.waits is not None:
        word, note = f"waits for approval of {run.waits.step}", "; ".join(run.waits.changes)
    else:
        word, note = "not running", run.ways_on.sentence
    drill = run.plan.drill
    return DrillSeen(
        drill.name,
        run.folder,
        str(drill.flow),
        shown.mode_word(drill.mode, environment),
        word,
        steps,
        run.alive,
        note,
        run.waits,
        _rollback(run),
    )


def _rollback(run: Run) -> RollbackPreview | None:
    """What an abort would undo of a run that a process executes, else what `drlib run --rollback` would."""
    if run.trouble or (run.over is not None and not run.over.resumable):
        return None
    if not run.alive and not run.ways_on.rollback:
        return None
    return preview(run.plan, notes_of(run.lines), forced=not run.alive)


def _word(process: ProcessStatus | None) -> str:
    if process is None:
        return UNKNOWN
    if not process.alive:
        return KILLED
    return PAUSED if process.paused else RUNS


def _toxics(toxics: Toxics) -> str:
    parts = ["silent"] if toxics.blackhole else []
    parts += [f"{toxics.delay_ms:g} ms late"] if toxics.delay_ms else []
    parts += [f"{toxics.bandwidth / 1e6:g} MB/s at most"] if toxics.bandwidth else []
    return ", ".join(parts)
