"""Ask all that the assessment of the way back needs: both clusters, the flow's state, its unreplicated records, the flow back.

Rules: it only reads. What a cluster can cause is an answer here and not an error. The unreplicated records are read only where
they would be settled and nothing stands in the way; that takes as long as they are many.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import clock
from drlib.client.pointer import Pointer
from drlib.client.pointer_topic import read_pointer
from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.failback.returned import observe_source
from drlib.drill.actions.failback.returned_rules import SeenSource, judge
from drlib.drill.actions.failover.triage import BROKERS_S
from drlib.drill.actions.failover.triage_rules import Side, side_of
from drlib.drill.actions.moving.late_records import find_crossed
from drlib.drill.actions.moving.positions import SharedPositions
from drlib.drill.assessment.observe import is_run, next_step
from drlib.drill.assessment.returning import STAGES, ObservedReturn, Stage, TailRecord, TopicTail
from drlib.drill.flow_state.flow_record import read_opposite
from drlib.drill.plan import supersede as supersede_rules
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.run.request import ClusterTarget
from drlib.drill.session import unfinished_runs
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.reachability import examine
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.mirror_maker.mirrored_by import NAME
from drlib.mirror.offsets.mirror_maker.read_flow import mirror_maker_of
from drlib.mirror.offsets.translation.two_way import group_positions, groups_of, read_flow_pair, translate
from drlib.mirror.offsets.unreplicated.crossed import Crossed
from drlib.mirror.offsets.unreplicated.find import UnreplicatedRecords, find_unreplicated
from drlib.mirror.offsets.unreplicated.lag import mirrored_topics, replication_lag
from drlib.mirror.offsets.unreplicated.rules import Example
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runs.waiting import LOOK_S

_AGAIN: Final = (TranslationKind.BOUNDED, TranslationKind.BEHIND)


def failed_over_flows(settings: MirrorSettings, flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """Those of `flows` whose target says that they are failed over, or on the way back. Blocks."""
    found = []
    for flow in flows:
        try:
            record = _record(settings, flow)
        except (DrlibError, OSError):
            continue
        if record.state in STAGES:
            found.append(flow)
    return tuple(found)


def observe_return(settings: MirrorSettings, flow: Flow, runs_dir: Path, *, supersede: str = "") -> ObservedReturn:
    """What can be observed of `flow` now. Blocks. Raises `UsageError` and `SecurityFault` for a wrong file."""
    target, back = settings.clusters[flow.target], flow.reverse
    at_ms = clock.now_ms()
    side = _side(settings, flow)
    record, record_why = None, side.silence
    seen, source_why = SeenSource(flow, Side(flow.source, silence="it was not asked")), ""
    unanswered = False
    if side.answers:
        try:
            record = _record(settings, flow)
            seen = observe_source(settings, flow)
        except (DrlibError, OSError) as error:
            record_why = source_why = str(error)
            unanswered = isinstance(error, Unreachable)
    place = ClusterTarget(properties=settings.path.absolute())
    found = unfinished_runs.find([(flow, target)], runs_dir, place, down=() if side.answers else (flow.target,))
    run = found.of(str(flow))
    folder = Path(run.folder) if run is not None and run.folder else None
    here = run is not None and folder is not None and is_run(folder)
    stages = () if record is None else STAGES.get(record.state, ())
    workers = _workers(target, flow) if side.answers else None
    tail: UnreplicatedRecords | None = None
    tail_why = crossed_why = source_why or "it was not asked"
    pointer = _pointer(target) if side.answers else None
    shared, crossed = all_shared(settings, flow), None
    settling = Stage.REPROTECT in stages and judge(seen, settings.path.name).go
    if settling and shared:
        crossed, crossed_why = find_crossed(settings, flow, pointer)
    elif settling and not workers:
        try:
            tail, tail_why = find_unreplicated(settings, flow), ""
        except DrlibError as error:
            tail_why = str(error)
    enabled = back in {each.flow for each in settings.enabled_flows}
    back_workers = _workers(settings.clusters[flow.source], back) if seen.side.answers else None
    missing, back_why = _missing(settings, back) if enabled and seen.side.serves else (None, "it was not asked")
    one_way = isinstance(settings.flow(flow.source, flow.target).policy, IdentityReplicationPolicy) and not shared
    ask_back = seen.side.serves and not one_way
    again, again_why = _read_again(settings, back) if ask_back and stages else ({}, "")
    return ObservedReturn(
        flow=flow,
        at_ms=at_ms,
        file=settings.path.name,
        record=record,
        record_why=record_why,
        pointer=None if pointer is None else pointer.active,
        seen=seen,
        target=side,
        tail=None if tail is None else _by_topic(tail),
        tail_why=tail_why,
        read_there=_read_there(tail, crossed),
        examples=() if tail is None else tuple(_example(each) for each in tail.examples),
        workers=workers,
        back_enabled=enabled,
        back_workers=back_workers,
        back_missing=missing,
        back_why=back_why,
        unfinished=found,
        source_why=source_why,
        unanswered=unanswered,
        folder_here=here,
        next_step=next_step(folder) if here and folder is not None else "",
        supersede=supersede,
        one_way=one_way,
        in_doubt=0 if tail is None else tail.doubtful,
        back_mirror_maker=mirror_maker_words(settings, back) if ask_back and not back_workers else "",
        read_again=again,
        read_again_why=again_why,
        both_ways=shared,
        crossed=None if crossed is None else crossed.topics,
        crossed_why=crossed_why,
        read_there_at_most=crossed is not None and crossed.read_there_at_most,
    )


def _read_there(tail: UnreplicatedRecords | None, crossed: Crossed | None) -> Mapping[str, int]:
    if crossed is not None:
        return crossed.read_there
    return {} if tail is None else {group: n for group, n in tail.read_there.items() if n}


@dataclass(frozen=True, slots=True)
class Mirrored:
    """How a flow is mirrored: its workers, and the offsets that its target lacks; None: unknown, `why`. `mirror_maker`: whether
    MirrorMaker 2 runs for it, in words, where it mirrored it last."""

    flow: str
    workers: int | None
    missing: int | None
    why: str
    mirror_maker: str = ""


def until_mirrored(settings: MirrorSettings, flow: Flow, within_s: float) -> Mirrored:
    """How `flow` is mirrored, as soon as a worker mirrors it, at most `within_s` seconds later, or by MirrorMaker 2 now."""
    end = time.monotonic() + within_s
    mirror_maker = mirror_maker_words(settings, flow)
    while (
        not (workers := _workers(settings.clusters[flow.target], flow)) and not mirror_maker and time.monotonic() < end
    ):
        time.sleep(LOOK_S)
    missing, why = _missing(settings, flow)
    return Mirrored(str(flow), workers, missing, why, mirror_maker)


def mirror_maker_words(settings: MirrorSettings, flow: Flow) -> str:
    """Whether MirrorMaker 2 runs for `flow`, in words; "" where it does not mirror it, or that is not known."""
    try:
        found = mirror_maker_of(settings, flow)
    except DrlibError:
        return ""
    return "" if found is None else f"{NAME}: {found.words(clock.now_ms())}"


def _record(settings: MirrorSettings, flow: Flow) -> LeaseRecord:
    own = unfinished_runs.read_state(settings.clusters[flow.target], flow)
    opposite = read_opposite(settings.clusters[flow.source], flow) if own.state in STAGES else None
    return own if opposite is None else supersede_rules.after_opposite(own, opposite)


def _side(settings: MirrorSettings, flow: Flow) -> Side:
    target = settings.clusters[flow.target]
    chosen = settings.flow(flow.source, flow.target)
    found = examine([target], {flow.target: chosen.is_mirror}, BROKERS_S)[flow.target]
    if isinstance(found, Unreachable):
        return side_of(flow.target, found, ())
    topics = [name for name in found.metadata.topics if chosen.is_mirror(name)]
    return side_of(flow.target, found, topics)


def _workers(target: ClusterSettings, flow: Flow) -> int | None:
    try:
        with Cluster(target) as cluster:
            return len(cluster.group_members(worker_group(flow)))
    except DrlibError:
        return None


def _missing(settings: MirrorSettings, back: Flow) -> tuple[int | None, str]:
    try:
        with Cluster(settings.clusters[back.source]) as source:
            topics = mirrored_topics(source, settings.flow(back.source, back.target))
            partitions = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
            return replication_lag(settings, back, source, partitions).offsets, ""
    except DrlibError as error:
        return None, str(error)


def _read_again(settings: MirrorSettings, back: Flow) -> tuple[Mapping[str, int] | None, str]:
    """By group, how many records it reads again at most, were it moved now: by MirrorMaker 2's copies, or in topics that both
    directions copy; or why it is unknown."""
    try:
        groups = groups_of(settings, back)
        before = group_positions(settings, back.target, groups)
        now = group_positions(settings, back.source, groups)
        if all_shared(settings, back):
            translations = SharedPositions(settings, back, before).translated(now)
        else:
            known = read_flow_pair(settings, back)
            if not known.bounded:
                return {}, ""
            translations = translate(settings, known, now, before)
    except DrlibError as error:
        return None, str(error)
    again: dict[str, int] = dict.fromkeys(sorted({item.group for item in translations}), 0)
    for item in translations:
        again[item.group] += item.translation.records if item.translation.kind in _AGAIN else 0
    return again, ""


def _by_topic(tail: UnreplicatedRecords) -> tuple[TopicTail, ...]:
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    firsts: dict[str, list[int]] = defaultdict(list)
    for part in tail.partitions:
        if part.records:
            rows[part.partition.topic][0] += part.records
            rows[part.partition.topic][1] += part.bytes
            firsts[part.partition.topic] += [ms for ms in (part.first_ms, part.last_ms) if ms is not None]
    return tuple(
        TopicTail(topic, records, size, min(firsts[topic], default=None), max(firsts[topic], default=None))
        for topic, (records, size) in sorted(rows.items())
    )


def _example(record: Example) -> TailRecord:
    where = record.partition
    return TailRecord(where.topic, where.partition, record.offset, record.timestamp_ms, record.key, record.bytes)


def _pointer(target: ClusterSettings) -> Pointer | None:
    try:
        return read_pointer([target]).pointer
    except (DrlibError, OSError):
        return None
