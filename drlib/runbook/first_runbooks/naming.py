"""Which names mirror topics have, what is recommended, and the lines of the properties file for it. Pure.

Rules: where one cluster serves and the other stands by, identical names are recommended, with both directions enabled: clients
change the address alone, and a failover has a way back. Where topics are mirrored already nothing is recommended, as their
names would change. `drlib init` never writes the properties file.
Not for: what the policies do (`drlib.config.replication_policy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.replication_policy import IDENTITY, IdentityReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.errors import UsageError
from drlib.runbook.first_runbooks.observation import FlowFacts


class Names(StrEnum):
    """How mirror topics are named."""

    IDENTICAL = "identical"  # orders is orders on both clusters
    PREFIXED = "prefixed"  # orders of paris is paris.orders on lyon


def refuse_other_names(settings: MirrorSettings, wanted: Names | None) -> None:
    """Raises `UsageError` where the file does not name topics as is wanted, with the lines that do."""
    kept = [isinstance(each.policy, IdentityReplicationPolicy) for each in settings.enabled_flows]
    if wanted is Names.PREFIXED and any(kept):
        raise UsageError(
            f"{settings.path.name} keeps the names of topics",
            "its replication.policy.class is IdentityReplicationPolicy",
            "Remove that line before anything is mirrored, or give --names identical.",
        )
    if wanted is Names.IDENTICAL and len(settings.clusters) != 2:
        raise UsageError(
            f"{settings.path.name} cannot name topics alike on all clusters, in both directions",
            f"it has {len(settings.clusters)} clusters, and copies of a third one are not recognised",
            "Give --names prefixed, or a file with two clusters.",
        )
    shared = [all_shared(settings, each.flow) for each in settings.enabled_flows]
    if wanted is Names.IDENTICAL and not all(shared):
        raise UsageError(
            f"{settings.path.name} does not name topics alike on both clusters, with both directions enabled",
            "clients would need other topic names after a failover, or there would be no way back",
            f"Write into it: {'; '.join(lines(settings))}. Then the same command again.",
        )


def lines(settings: MirrorSettings) -> list[str]:
    """The lines for identical names in both directions."""
    flows = [each.flow for each in settings.enabled_flows]
    both = dict.fromkeys(str(one) for flow in flows for one in (flow, flow.reverse))
    return [f"replication.policy.class = {IDENTITY}", *(f"{flow}.enabled = true" for flow in both)]


def advice(settings: MirrorSettings, flows: Sequence[FlowFacts]) -> list[str]:
    """What is recommended, a line each; nothing where something is mirrored or known too little of, or names are identical."""
    unused = all(
        facts.complete and not facts.target.silence and not {*facts.mirrored.values()} & facts.target.topics
        for facts in flows
    )
    prefixed = not any(isinstance(each.policy, IdentityReplicationPolicy) for each in settings.enabled_flows)
    if not (len(settings.clusters) == 2 and len(flows) == 1 and unused and prefixed):
        return []
    source, target = flows[0].flow.source, flows[0].flow.target
    return [
        f"Names: topics of {source} get the prefix '{source}.' on {target}. Where {target} stands by, identical names are",
        "recommended: clients change the address alone. Before anything is mirrored, in the file:",
        *(f"  {line}" for line in lines(settings)),
    ]
