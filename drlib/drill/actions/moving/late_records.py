"""Records that only the failed cluster had: which crossed after the applications had moved, where both directions copy.

Rules: nothing is settled. The flow runs on, so these records are copied when the cluster is back, behind newer ones; groups
read them there, once more where they had read them before. The pointer says where the target's logs ended when it moved.
Not for: topics that one direction copies (`drlib.drill.actions.failback.unreplicated_actions`).
"""

from collections.abc import Collection, Mapping
from typing import Final

from drlib.client.pointer import Pointer
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError
from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.offsets.translation.two_way import group_positions, groups_of
from drlib.mirror.offsets.unreplicated.crossed import Crossed, count_own, crossed_late
from drlib.mirror.offsets.unreplicated.lag import mirrored_topics, replication_lag
from drlib.model import Flow, TopicPartition
from drlib.runs.journal import Scalar

_NAMED: Final = 5  # topics


def find_crossed(settings: MirrorSettings, flow: Flow, pointer: Pointer | None) -> tuple[Crossed | None, str]:
    """What crossed since `pointer` moved to the flow's target, and what is still to cross; why that, or some of it, is unknown.
    Blocks."""
    if pointer is None or pointer.active != flow.target:
        return None, f"no pointer names {flow.target}, so where its logs ended when the applications moved is not known"
    if not pointer.cutover:
        return (
            None,
            "the pointer does not say where the logs ended when it moved: an earlier release or a person moved it",
        )
    try:
        with Cluster(settings.clusters[flow.source]) as source:
            topics = mirrored_topics(source, settings.flow(flow.source, flow.target))
            lag = replication_lag(
                settings,
                flow,
                source,
                [TopicPartition(name, n) for name, count in topics.items() for n in range(count)],
            )
        spans = {p: Range(those[0].first, those[-1].end) for p, those in lag.missing.items()}
        left = count_own(settings, flow, spans)
        positions = group_positions(settings, flow.source, groups_of(settings, flow))
    except DrlibError as error:
        return None, str(error)
    back = settings.flow(flow.target, flow.source).sync_group_offsets
    found = crossed_late(lag.maps, pointer.cutover, left, positions, synchronized=back)
    return found, without_end(topics, pointer.cutover)


def without_end(topics: Collection[str], moved_at: Mapping[str, tuple[int, ...]]) -> str:
    """Of which `topics` it is not known what crossed, in words: the pointer has no end of them. Empty for none."""
    if not (unknown := sorted({*topics} - moved_at.keys())):
        return ""
    return (
        f"of {first_few(unknown, _NAMED)} it is not known: when the applications moved, the other cluster did not have them, "
        "or one direction alone copied them"
    )


def rows(found: Crossed, flow: Flow) -> list[dict[str, Scalar]]:
    """One row a topic."""
    return [
        {"topic": each.topic, f"crossed to {flow.target} late": each.crossed, "still to cross": each.left}
        for each in found.topics
    ]
