"""Two clusters as `drlib init` sees them, and the facts of their flows."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from drlib.config.settings import load_mirror_settings
from drlib.model import Flow
from drlib.runbook.first_runbooks import observation
from drlib.runbook.first_runbooks.observation import FlowFacts, SeenCluster, SeenGroup

PARIS_LYON = Flow("paris", "lyon")
BOTH = ("paris", "lyon")


def group(name: str, *, clients: tuple[str, ...] = (), topics: tuple[str, ...] = ("orders",)) -> SeenGroup:
    return SeenGroup(name, 1, clients, topics)


def paris_and_lyon(
    *groups: SeenGroup, aliases: tuple[str, str] = BOTH, seen: bool = True, mirrors: bool = True
) -> dict[str, SeenCluster]:
    """Topics orders (with a producer) and prices on the first one; their mirrors on the second. `seen` False: no answer."""
    source, target = aliases
    one, two = SeenCluster(source, ("10.0.0.1:9092",)), SeenCluster(target, ("10.0.0.2:9092",))
    if not seen:
        return {source: one, target: two}
    mirrored = {f"{source}.orders", f"{source}.prices"} if mirrors else set()
    answered = replace(one, cluster_id="id-1", brokers=3, topics=frozenset({"orders", "prices"}), groups=groups)
    return {
        source: replace(answered, producers={"orders": True}, authorizer=False),
        target: replace(
            two, cluster_id="id-2", brokers=3, topics=frozenset(mirrored), groups=(), producers={}, authorizer=True
        ),
    }


def facts_of(
    clusters: Mapping[str, SeenCluster], more: str = "", *, aliases: tuple[str, str] = BOTH
) -> tuple[FlowFacts, ...]:
    """The facts of the flows of a properties file with lines `more`; by default the first cluster to the second."""
    source, target = aliases
    servers = f"{source}.bootstrap.servers = 10.0.0.1:9092\n{target}.bootstrap.servers = 10.0.0.2:9092\n"
    head = f"clusters = {source}, {target}\n{servers}"
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "mm2.properties"
        path.write_text(head + (more or f"{source}->{target}.enabled = true\n"))
        return observation.facts(load_mirror_settings(path), clusters)
