"""What came back in a failed source's place, and which procedure it needs: a table from observations. Pure.

Rules: the first row of `TABLE` that fits counts. Only the cluster that failed, with its data, can be settled and moved back to:
everything else would lose records or count them twice, and is refused with what happened, why, and the next command. A topic
that is gone alone is no reason, because its owner may have deleted it; all of them are. What is not known is not the same.
Not for: asking (`returned`), finding unreplicated records (`drlib.mirror.offsets.unreplicated`), which compares the last
mirrored record of each partition too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.drill.actions.failover.triage_rules import Side
from drlib.formats import first_few
from drlib.model import Flow

_NAMED: Final = 5


class Found(StrEnum):
    """What answers at the source's addresses."""

    SILENT = "no answer"
    PARTIAL = "only a part of it answers"
    OTHER_CLUSTER = "another cluster"
    EMPTY = "empty"
    OTHER_TOPICS = "topics with other IDs"
    OLDER = "an older state"
    SAME = "the cluster that failed, with its data"


class Procedure(StrEnum):
    """What is done about it."""

    WAIT = "wait until it answers in full"
    NEW_CLUSTER = "mirror to it as a new cluster"
    SETTLE = "settle its unreplicated records, mirror back, move back"


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """A topic that was mirrored, as the source has it now. `same`: under an ID that the journal knows; None: it has none.

    `offsets`: between start and end of its logs; `lost`: offsets that were mirrored and lie behind the ends of its logs.
    `replaced`: the last mirrored record of a partition is another one now, however long its log is.
    """

    name: str
    same: bool | None
    offsets: int = 0
    lost: int = 0
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class SeenSource:
    """The source of a failed-over `flow`. `cluster_id` is what it answers, `journaled_id` what the journal was created
    for; both "" where that is not known. `topics`: those that the journal names."""

    flow: Flow
    side: Side
    cluster_id: str = ""
    journaled_id: str = ""
    topics: Sequence[SeenTopic] = ()

    @property
    def other_topics(self) -> tuple[str, ...]:
        return tuple(topic.name for topic in self.topics if topic.same is False)

    @property
    def older(self) -> tuple[str, ...]:
        return tuple(
            f"{topic.name} ({topic.lost or 'others in their place'})"
            for topic in self.topics
            if topic.same and (topic.lost or topic.replaced)
        )

    @property
    def gone(self) -> tuple[str, ...]:
        return tuple(topic.name for topic in self.topics if topic.same is None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`go`: it can be settled and moved back to; else `why` not, and the `remedy`."""

    found: Found
    procedure: Procedure
    why: str
    remedy: str

    @property
    def go(self) -> bool:
        return self.procedure is Procedure.SETTLE


@dataclass(frozen=True, slots=True)
class Row:
    found: Found
    procedure: Procedure
    fits: Callable[[SeenSource], bool]
    why: Callable[[SeenSource], str]


TABLE: Final[tuple[Row, ...]] = (
    Row(Found.SILENT, Procedure.WAIT, lambda seen: not seen.side.answers, lambda seen: seen.side.silence),
    Row(
        Found.PARTIAL,
        Procedure.WAIT,
        lambda seen: not seen.side.serves,
        lambda seen: f"{seen.side}; unreplicated records may be on the brokers that are missing",
    ),
    Row(
        Found.OTHER_CLUSTER,
        Procedure.NEW_CLUSTER,
        lambda seen: bool(seen.journaled_id) and seen.cluster_id != seen.journaled_id,
        lambda seen: f"its cluster ID is {seen.cluster_id or 'not known'}; what failed was {seen.journaled_id}",
    ),
    Row(
        Found.EMPTY,
        Procedure.NEW_CLUSTER,
        lambda seen: bool(seen.topics) and len(seen.gone) == len(seen.topics),
        lambda seen: f"it has none of the {len(seen.topics)} topics that were mirrored: {first_few(seen.gone, _NAMED)}",
    ),
    Row(
        Found.OTHER_TOPICS,
        Procedure.NEW_CLUSTER,
        lambda seen: bool(seen.other_topics),
        lambda seen: (
            f"topics were created again and are not those that were mirrored: {first_few(seen.other_topics, _NAMED)}; which of "
            "their records were mirrored is unknown"
        ),
    ),
    Row(
        Found.OLDER,
        Procedure.NEW_CLUSTER,
        lambda seen: bool(seen.older),
        lambda seen: (
            f"it has lost records that were mirrored, as from an older copy of its disks (offsets lost by topic: "
            f"{first_few(seen.older, _NAMED)}); what was written to it since is there alone: copy it by hand where it matters"
        ),
    ),
    Row(
        Found.SAME,
        Procedure.SETTLE,
        lambda seen: True,
        lambda seen: (
            f"cluster ID {seen.cluster_id or 'not known'}, with {len(seen.topics) - len(seen.gone)} topics that were mirrored"
        ),
    ),
)


def judge(seen: SeenSource, file: str) -> Verdict:
    """The row of `TABLE` that fits; `file` is the properties file, for the next command."""
    row = next(row for row in TABLE if row.fits(seen))
    return Verdict(row.found, row.procedure, row.why(seen), _remedy(row.procedure, seen.flow, file))


def _remedy(procedure: Procedure, flow: Flow, file: str) -> str:
    source, target = flow.source, flow.target
    if procedure is Procedure.SETTLE:
        return ""
    if procedure is Procedure.WAIT:
        return f"Start all brokers of {source}, then: drlib failback {file} '{flow}'."
    new = f"{source}2"
    return (
        f"{target} has everything that was mirrored, and stays the source. Give the cluster a new name in {file}, such as "
        f"{new}, enable {target}->{new} for all topics, run drlib mirror {file}, then move: "
        f"drlib run planned-switchover {file} -p 'flow={target}->{new}'."
    )
