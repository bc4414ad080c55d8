"""What a look at a flow saw: the observations that readiness is judged by, frozen and free of judgement.

Rules: a question that got no answer is `Unseen` with the reason, and never an empty answer. Offsets are positions,
times are milliseconds since the epoch, and everything is as the clusters said it.
Not for: judging (`readiness_checks`), asking (`drlib.drill.readiness.observe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from drlib.kafka.admin.descriptions import ConfigChange
from drlib.mirror.status.event_log import Event
from drlib.model import TopicPartition, TranslationKind


@dataclass(frozen=True, slots=True)
class Unseen:
    """Nobody could say, and why; `fix` is what to do about that."""

    why: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """A cluster that was asked who it is. `error` is empty where it answered."""

    alias: str
    where: str
    brokers: int = 0
    error: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """`meant` is the cluster ID that is pinned, "" where none is; `found` is "" where the cluster did not answer."""

    alias: str
    found: str
    meant: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Lack:
    """Something the mirror needs and has not, for the whole flow or one topic: a right, enough brokers, a sound journal."""

    entity: str
    detail: str
    fix: str


class Work(StrEnum):
    MIRRORING = "mirroring"
    STARTING = "starting"
    INCOMPLETE = "incomplete"
    NONE = "no worker"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Workers:
    """`members` of the flow's group; `unowned` and `silent` are lanes without an owner and workers that did not answer."""

    work: Work
    members: int | None
    lanes: int
    unowned: tuple[int, ...] = ()
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """Open events. `by_all`: did every worker that runs say its own, or only the journal?"""

    events: tuple[Event, ...]
    by_all: bool


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the source holds and the mirror has not. `seconds`: age of the oldest of it; None is unknown."""

    records: int | None
    seconds: float | None
    furthest: str
    as_of_ms: int


@dataclass(frozen=True, slots=True)
class Expiring:
    """A partition that is behind. `left_s` until its oldest unmirrored record may go; None when nothing deletes it."""

    partition: TopicPartition
    left_s: float | None
    rule: str
    warning: str  # as the forecast says it, where retention gets there first
    known: bool = True  # is the age of that record known?


@dataclass(frozen=True, slots=True)
class Retained:
    """`shortest_ms` by source topic: what its retention.ms keeps, -1 for ever."""

    behind: tuple[Expiring, ...]
    shortest_ms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Beat:
    """The newest heartbeat on the target. `at_ms` None: none was found; `interval_s` 0: the file switches them off."""

    at_ms: int | None
    interval_s: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A group's position on the source, and what it is on the target. `as_of_ms`: when the source last said so."""

    group: str
    source: TopicPartition
    position: int
    kind: TranslationKind
    records: int
    as_of_ms: int


@dataclass(frozen=True, slots=True)
class Reader:
    """A group of the source that has positions in topics no enabled flow from it mirrors; `topics` are those."""

    group: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Readers:
    """Groups that were looked at, those that read what is not mirrored, and those that could not be looked at."""

    groups: int
    unmirrored: tuple[Reader, ...]
    unreadable: tuple[tuple[str, str], ...] = ()  # (group, why)
    all_listed: bool = True


@dataclass(frozen=True, slots=True)
class There:
    """A group's committed position on the target beside its translation. `in_use`: it has members there."""

    group: str
    target: TopicPartition
    committed: int
    translated: int
    log_end: int | None
    in_use: bool


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A topic that the flow mirrors: partitions on both sides; `mirror_partitions` None where there is no mirror topic."""

    topic: str
    mirror: str
    partitions: int
    mirror_partitions: int | None


@dataclass(frozen=True, slots=True)
class Settings:
    """A mirror topic whose settings are not its source's; `error` where they could not be compared."""

    topic: str
    mirror: str
    changes: tuple[ConfigChange, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Copies:
    """A mirror topic on the target: the least of its partitions' replicas and in-sync replicas, how many have no leader.

    `minimum` is its min.insync.replicas, None where it could not be read.
    """

    mirror: str
    replicas: int
    in_sync: int
    leaderless: int
    minimum: int | None


@dataclass(frozen=True, slots=True)
class Durability:
    """`factor` is what the file asks of mirror topics, -1 for the target's default."""

    brokers: int
    factor: int
    topics: tuple[Copies, ...]


@dataclass(frozen=True, slots=True)
class Drill:
    run: str
    runbook: str
    verdict: str
    finished_ms: int


@dataclass(frozen=True, slots=True)
class Drills:
    """Newest first; `unreadable` are run folders whose scorecard cannot be read or is not there."""

    where: str
    runs: tuple[Drill, ...]
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at one flow, all questions."""

    flow: str
    at_ms: int
    target: Reach
    source: Reach
    identities: tuple[Identity, ...] | Unseen
    lacks: tuple[Lack, ...] | Unseen
    workers: Workers | Unseen
    told: Told | Unseen
    backlog: Backlog | Unseen
    retained: Retained | Unseen
    beat: Beat | Unseen
    placed: tuple[Placed, ...] | Unseen
    readers: Readers | Unseen
    there: tuple[There, ...] | Unseen
    mirrored: tuple[Mirrored, ...] | Unseen
    settings: tuple[Settings, ...] | Unseen
    durability: Durability | Unseen
    drills: Drills | Unseen
