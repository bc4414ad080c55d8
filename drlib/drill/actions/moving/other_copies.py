"""Topics of the cluster that is left which a third cluster fills, as `C.orders` where C->A runs while A->B moves.

Rules: no application writes to a mirror topic, which is known by its name. So it has not to stand still: it is mirrored on, and
has no end for readers that have moved. Where a flow keeps topic names, its copies look like what applications write:
that flow is named where the topic does not stand still.
Not for: topics that both directions of the moving flow copy (`growth`).
"""

from collections.abc import Collection, Iterable

from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.formats import first_few
from drlib.model import Flow, TopicPartition


def filled_by_others(settings: MirrorSettings, moving: Flow, topics: Iterable[str]) -> frozenset[str]:
    """Which of `topics` of the flow's source are mirrors of a third cluster's, by their names."""
    others = [flow for flow in _into_source(settings, moving) if flow.policy.remote_prefix(flow.flow.source)]
    return frozenset(topic for topic in topics if any(flow.is_mirror(topic) for flow in others))


def hint(settings: MirrorSettings, moving: Flow, grown: Collection[TopicPartition]) -> str:
    """What to do about partitions of the source where records still arrive, after a space; empty without any."""
    if not grown:
        return ""
    topics = sorted({p.topic for p in grown})
    for other in _into_source(settings, moving):
        if copied := [topic for topic in topics if other.is_mirror(topic)]:
            return (
                f" {other.flow} writes to {first_few(copied)}, too: stop its worker until they have moved, or leave these "
                f"topics out of {other.flow}.topics in {settings.path.name}."
            )
    return f" See who writes to {first_few(topics)}: drlib inventory {settings.path.name}"


def _into_source(settings: MirrorSettings, moving: Flow) -> list[FlowSettings]:
    """The flows of the file that write to the cluster that is left, but for the flow back."""
    return [
        each
        for each in settings.enabled_flows
        if each.flow.target == moving.source and each.flow.source != moving.target
    ]
