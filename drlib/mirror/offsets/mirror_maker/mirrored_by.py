"""Whether MirrorMaker 2 mirrors a flow, by what it leaves on the clusters, and whether it runs. Pure.

Rules: for flows without a claim in their journal, which drlib does not mirror. drlib writes MirrorMaker 2's records too, so
only those count that are not drlib's: offsets that Connect committed, and checkpoints without drlib's headers. Offset syncs
and heartbeats count where there is no checkpoint of drlib and the mirrors have records. A topic of those that may not be read
counts by its name.
Not for: reading (`read_flow`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.formats import span
from drlib.model import Flow, GroupTranslation, TopicPartition

NAME: Final = "mirrored by MirrorMaker 2"
EXACT_BY_TAKEOVER: Final = (
    "taken over by drlib mirror: every position, the lag, and a planned switchover and a failback without re-reads"
)
MISSED_HEARTBEATS: Final = 10  # that may be missing before it counts as silent, and at least:
LATE_S: Final = 30


@dataclass(frozen=True, slots=True)
class Traces:
    """What was found about a flow. `copied`: partitions whose offsets Connect committed; `checkpoints`: of MirrorMaker 2,
    `own`: of drlib; `synced`: partitions with offset syncs; `heartbeats`: of the flow; `mirrors`: mirror topics with records;
    `refused`: topics of offsets or checkpoints that may not be read."""

    copied: int = 0
    checkpoints: int = 0
    own: int = 0
    synced: int = 0
    heartbeats: bool = False
    mirrors: int = 0
    refused: tuple[str, ...] = ()


def evidence(traces: Traces) -> tuple[str, ...]:
    """What says that MirrorMaker 2 mirrors the flow; empty: it does not."""
    found = [
        f"{what} ({number:,})"
        for number, what in (
            (traces.copied, "committed offsets of Connect"),
            (traces.checkpoints, "checkpoints"),
        )
        if number
    ]
    found += [f"{topic}, which could not be read" for topic in traces.refused if not traces.own]
    weak = bool(traces.synced or traces.heartbeats) and bool(traces.mirrors) and not traces.own
    if not found and not weak:
        return ()
    if traces.synced:
        found.append(f"offset syncs of {traces.synced:,} partition{'' if traces.synced == 1 else 's'}")
    if traces.heartbeats:
        found.append("heartbeats")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class MirrorMakerFlow:
    """A flow that MirrorMaker 2 mirrors, as read at some moment; times in ms.

    `heartbeat_ms`: its newest heartbeat on the target; `interval_s`: between two, 0 where the file switches them off.
    `connect_members`: has its Connect group members? `source_seen_ms`: the newest record of the source's own heartbeats topic
    that it mirrored. `checkpoints`: how many positions they have. `unread`: what could not be read, with the reason. `unknown`:
    partitions of which is not known how far they are mirrored, with the reason.
    """

    evidence: tuple[str, ...]
    heartbeat_ms: int | None = None
    interval_s: int = 1
    connect_members: bool | None = None
    source_seen_ms: int | None = None
    checkpoints: int = 0
    unread: tuple[str, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()

    def runs(self, now_ms: int) -> bool | None:
        """Does it run? None: nothing says so."""
        late_ms = 1000 * max(LATE_S, MISSED_HEARTBEATS * self.interval_s)
        if self.interval_s and self.heartbeat_ms is not None:
            if now_ms - self.heartbeat_ms <= late_ms:
                return True
            return bool(self.connect_members)
        return True if self.connect_members else None

    def words(self, now_ms: int) -> str:
        """Whether it runs, and what says so."""
        texts = []
        if not self.interval_s:
            texts.append("its heartbeats are switched off")
        elif self.heartbeat_ms is None:
            texts.append("no heartbeat of it was found")
        else:
            texts.append(f"its last heartbeat is {span(max(0, now_ms - self.heartbeat_ms) / 1000)} old")
        if self.connect_members is not None:
            texts.append(f"its Connect group has {'members' if self.connect_members else 'no member'}")
        return ", ".join(texts)


def no_positions(flow: Flow, mirror_maker: MirrorMakerFlow) -> str:
    """Why no position of any group is known while the source does not answer."""
    some = (
        f"of {mirror_maker.checkpoints:,} none is in a mirrored topic" if mirror_maker.checkpoints else "there is none"
    )
    where = f"of MirrorMaker 2's checkpoints on {flow.target} {some}"
    return f"its position is not known: {flow.source} does not answer, and {where}"


def without_checkpoint(
    translations: Iterable[GroupTranslation], partitions: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Groups with a position in some partitions of a mirror topic and none in others, which are named, by group.

    `partitions`: how many each mirror topic has.
    """
    known: dict[tuple[str, str], set[int]] = {}
    for item in translations:
        known.setdefault((item.group, item.target.topic), set()).add(item.target.partition)
    for (group, topic), numbers in sorted(known.items()):
        if missing := sorted(set(range(partitions.get(topic, 0))) - numbers):
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            yield group, ", ".join(f"{topic}-{number}" for number in missing[:3]) + more


Checkpoints = Mapping[tuple[str, TopicPartition], tuple[int, int]]
"""By group and source partition: the newest checkpoint's position on the source, and on the target."""
