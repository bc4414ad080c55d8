"""Findings about mirror topics: there and wide enough, set as their sources, replicated and writable.

Rules: what keeps records from crossing, or producers from writing after a failover, is critical; what only differs is a
warning. A target of one broker can hold one copy, and is not blamed for it; the evidence says so.
"""

from __future__ import annotations

from drlib.drill.readiness.checks.objectives import Found, Terms, are, count, fine, some
from drlib.drill.readiness.checks.observations import Copies, Mirrored, Seen, Settings, Unseen
from drlib.drill.readiness.score import Severity


def partitions(topics: tuple[Mirrored, ...], terms: Terms) -> Found:
    """Is every mirror topic there, and as wide as its source?"""
    rows: Found = []
    for one in topics:
        if one.mirror_partitions is None:
            why = f"it has no mirror topic {one.mirror} on the target"
            fix = f"See that a worker runs and its next refresh of topics passes: {terms.drlib('status')}"
            rows.append((one.topic, Severity.CRITICAL, why, fix))
        elif one.mirror_partitions < one.partitions:
            why = f"{one.partitions} partitions, {one.mirror_partitions} of {one.mirror}: the others are not mirrored"
            words = ("--alter", "--topic", one.mirror, "--partitions", str(one.partitions))
            fix = terms.tool("kafka-topics", terms.target, *words)
            rows.append((one.topic, Severity.CRITICAL, why, f"A worker grows it at its next refresh; or: {fix}"))
        elif one.mirror_partitions > one.partitions:
            why = (
                f"{one.partitions} partitions, {one.mirror_partitions} of {one.mirror}: "
                "keyed records would go to other partitions after a failover"
            )
            words = ("--alter", "--topic", one.topic, "--partitions", str(one.mirror_partitions))
            rows.append((one.topic, Severity.WARN, why, terms.tool("kafka-topics", terms.source, *words)))
    return rows or fine(f"{count(len(topics), 'topic')}, each with its mirror topic and the same partitions")


def settings(topics: tuple[Settings, ...], terms: Terms) -> Found:
    """Is every mirror topic set as its source is?"""
    rows: Found = []
    for one in topics:
        if one.error:
            rows.append((one.mirror, Severity.UNKNOWN, one.error, "Grant DescribeConfigs on the topic and its mirror."))
        elif one.changes:
            add = ",".join(f"{c.name}=[{c.new}]" if "," in c.new else f"{c.name}={c.new}"
                           for c in one.changes if c.new is not None)  # fmt: skip
            drop = ",".join(c.name for c in one.changes if c.new is None)
            words = ["--entity-type", "topics", "--entity-name", one.mirror, "--alter"]
            words += (["--add-config", add] if add else []) + (["--delete-config", drop] if drop else [])
            why = f"to be as {one.topic}: {some(map(str, one.changes))}"
            fix = f"A worker sets it at its next look; or: {terms.tool('kafka-configs', terms.target, *words)}"
            rows.append((one.mirror, Severity.WARN, why, fix))
    return rows or fine(f"{count(len(topics), 'topic')} compared")


def durability(seen: Seen, terms: Terms) -> Found:
    """Has every mirror topic its copies, and does it take writes?"""
    durability = seen.durability
    assert not isinstance(durability, Unseen)
    rows: Found = []
    possible = max(1, durability.brokers)
    asked = min(possible, durability.factor) if durability.factor > 0 else min(2, possible)
    for one in durability.topics:
        describe = terms.tool("kafka-topics", terms.target, "--describe", "--topic", one.mirror)
        lower = terms.tool("kafka-configs", terms.target, "--entity-type", "topics", "--entity-name", one.mirror,
                           "--alter", "--add-config", f"min.insync.replicas={one.replicas}")  # fmt: skip
        verdict, why, fix = _copies(one, asked, possible, describe, lower)
        if verdict is not Severity.OK:
            rows.append((one.mirror, verdict, why, fix))
    if rows:
        return rows
    if not durability.topics:
        return fine(f"no mirror topic yet; {count(durability.brokers, 'broker')}")
    least = min(one.replicas for one in durability.topics)
    return fine(f"{count(len(durability.topics), 'topic')}, {count(least, 'copy', 'copies')} or more of each "
                 f"on {count(durability.brokers, 'broker')}, all in sync")  # fmt: skip


def _copies(one: Copies, asked: int, brokers: int, describe: str, lower: str) -> tuple[Severity, str, str]:
    add = "Add replicas: kafka-reassign-partitions.sh --execute."
    if one.leaderless:
        return Severity.CRITICAL, f"{count(one.leaderless, 'partition')} without a leader", f"See {describe}"
    if one.minimum is not None and one.minimum > one.replicas:
        why = f"min.insync.replicas is {one.minimum} and there {are(one.replicas)}: acks=all is refused"
        return Severity.CRITICAL, why, lower
    if one.minimum is not None and one.in_sync < one.minimum:
        why = (
            f"{one.in_sync} of {one.replicas} copies in sync, min.insync.replicas is {one.minimum}: acks=all is refused"
        )
        return Severity.CRITICAL, why, f"Bring the replicas' brokers back: {describe}"
    if one.in_sync < one.replicas:
        return Severity.WARN, f"{one.in_sync} of {one.replicas} copies in sync", f"See {describe}"
    if one.replicas < asked:
        return Severity.WARN, f"{count(one.replicas, 'copy', 'copies')} on {brokers} brokers, {asked} asked", add
    if one.minimum is None:
        fix = "Grant our principal DescribeConfigs on the topic."
        return Severity.UNKNOWN, "its min.insync.replicas could not be read", fix
    if brokers > 1 and one.minimum == one.replicas:
        why = f"min.insync.replicas is {one.minimum} of {one.replicas} copies: one broker away stops producers"
        return Severity.WARN, why, add
    return Severity.OK, "", ""
