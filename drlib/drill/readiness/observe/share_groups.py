"""Share groups of the source: what they have acknowledged, whether that can be written on the target, and their settings.

Rules: they are read from the source, else from the checkpoints on the target. Without share groups nothing else is asked.
"""

from collections.abc import Mapping

from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.readiness.checks.observations import ShareGroupSeen, SharesObserved
from drlib.errors import DrlibError
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net.authorized_operations import cluster_rights
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import admin
from drlib.mirror.share_groups.known import KnownShares, checkpointed_shares, source_shares

_Settings = Mapping[str, Mapping[str, str]]  # of each group


def read_share_groups(
    settings: MirrorSettings, flow: FlowSettings, *, source_answers: bool, timeout_s: float
) -> SharesObserved:
    """Blocks. Raises `Unreachable`, `BrokerError`."""
    known = (
        source_shares(settings, flow.flow, timeout_s) if source_answers else checkpointed_shares(settings, flow.flow)
    )
    groups = sorted({group for group, _ in (*known.positions, *known.unset)})
    refused = tuple((group, error.why) for group, error in sorted(known.refused.items()))
    missing = {group: error for (group, at), error in sorted(known.unread.items()) if flow.mirrors_topic(at.topic)}
    unread = tuple((group, error.why, error.remedy) for group, error in missing.items())
    if not groups:
        return SharesObserved(refused=refused, unread=unread)
    target = settings.clusters[flow.flow.target]
    if not admin.listed(target, timeout_s).supported:
        seen = tuple(_seen(known, group, {}, {}) for group in groups)
        return SharesObserved(seen, refused, unread, supported=False)
    there = admin.share_settings(target, groups, timeout_s)
    here = admin.share_settings(settings.clusters[flow.flow.source], groups, timeout_s) if source_answers else {}
    return SharesObserved(
        groups=tuple(_seen(known, group, here, there) for group in groups),
        refused=refused,
        unread=unread,
        states_refused="" if known.states_refused is None else known.states_refused.why,
        may_write=_may_write(target, timeout_s),
    )


def _seen(known: KnownShares, group: str, here: _Settings, there: _Settings) -> ShareGroupSeen:
    own = [each for (name, _), each in known.positions.items() if name == group]
    counts = [each.state.completed for each in own]
    return ShareGroupSeen(
        group=group,
        partitions=len(own),
        unset=sum(name == group for name, _ in known.unset),
        acknowledged=None if None in counts else sum(number or 0 for number in counts),
        known=all(each.state.complete is not None for each in own),
        as_of_ms=min((each.as_of_ms for each in own), default=0),
        here=here.get(group, {}),
        there=there.get(group, {}),
    )


def _may_write(target: ClusterSettings, timeout_s: float) -> bool:
    """May this user write states of share groups there? That needs ClusterAction, where there is an authorizer."""

    async def ask() -> frozenset[str] | None:
        async with wire_client(target, client_id="drlib-rights", timeout_s=timeout_s) as client:
            await client.connect()
            return await cluster_rights(client)

    try:
        rights = blocking(ask())
    except DrlibError:
        return False
    return rights is not None and "CLUSTER_ACTION" in rights
