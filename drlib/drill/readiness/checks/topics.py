"""Findings about mirror topics: partition counts, settings, replicas and writability.

Rules: what keeps records from crossing, or producers from writing after a failover, is critical; a mere difference is a
warning. A target of one broker can hold one replica, and that is no warning; the evidence says so.
"""

import shlex

from drlib.config.replication_policy import HEARTBEATS
from drlib.drill.readiness.checks.objectives import CheckContext, Judgements, count, is_or_are, passed
from drlib.drill.readiness.checks.observations import Durability, MirrorTopics, SettingsDrift, available
from drlib.drill.readiness.score import Severity
from drlib.errors import DrlibError
from drlib.formats import first_few
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.net.cluster_client import TopicMetadata


def partitions(topics: MirrorTopics, context: CheckContext) -> Judgements:
    """Does every mirror topic exist, with as many partitions as its source?"""
    rows: Judgements = []
    for topic, mirror in topics.names.items():
        wanted = len(topics.source[topic].partitions)
        if not available(topics.target, mirror):
            why = f"it has no mirror topic {mirror} on the target"
            fix = f"Check that a worker runs and refreshes its topics: {context.drlib('status')}"
            rows.append((topic, Severity.CRITICAL, why, fix))
            continue
        existing = len(topics.target[mirror].partitions)
        counts = f"{wanted} partitions, {existing} of {mirror}"
        if existing < wanted:
            options = ("--alter", "--topic", mirror, "--partitions", str(wanted))
            fix = (
                f"A worker adds them at its next refresh; or: {context.tool('kafka-topics', context.target, *options)}"
            )
            rows.append((topic, Severity.CRITICAL, f"{counts}: the others are not mirrored", fix))
        elif existing > wanted:
            why = f"{counts}: keyed records would go to other partitions after a failover"
            options = ("--alter", "--topic", topic, "--partitions", str(existing))
            rows.append((topic, Severity.WARN, why, context.tool("kafka-topics", context.source, *options)))
    for topic in topics.prefixed:
        mirror = topics.names[topic]
        why = (
            f"its copy is {mirror}, as IdentityReplicationPolicy takes every name that ends with {HEARTBEATS} for one of "
            f"heartbeats: clients that change the address alone would not find its records, nor would what they write to "
            f"{topic} there come back under this name"
        )
        fix = f"Move it to a topic of another name; until then its clients have to read {mirror} after a failover."
        rows.append((topic, Severity.WARN, why, fix))
    for topic in topics.unlisted:  # nothing else is checked of it
        why = "it is mirrored, and the source does not list it: it was deleted, or this user may not describe it"
        fix = (
            f"Grant Describe on it ({context.drlib('doctor')} --rights), or delete its mirror topic if it was deleted."
        )
        rows.append((topic, Severity.UNKNOWN, why, fix))
    if not topics.names and not rows:
        why = "no topic of the source is to be mirrored: none is as `topics` says"
        if topics.way_back:
            fix = "Nothing: what applications write there after a failover is copied back."
            return [("", Severity.ADVICE, why, fix)]
        return [("", Severity.CRITICAL, f"{why}, so that a failover would find no record", correct_topics(context))]
    return rows or passed(f"{count(len(topics.names), 'topic')}, each with its mirror topic and the same partitions")


def correct_topics(context: CheckContext) -> str:
    """What to do where nothing is mirrored."""
    return (
        f"Create such a topic, or correct `topics` in {context.file}: drlib config explain {shlex.quote(context.file)}. "
        f"Topics that this user may not describe are hidden from it: {context.drlib('doctor', '--rights')}"
    )


def settings(drifts: tuple[SettingsDrift, ...], context: CheckContext) -> Judgements:
    """Has every mirror topic the settings of its source?"""
    rows: Judgements = []
    for drift in drifts:
        if drift.error:
            fix = "Grant DescribeConfigs on the topic and its mirror."
            rows.append((drift.mirror, Severity.UNKNOWN, drift.error, fix))
        elif drift.changes:
            add = ",".join(f"{c.name}=[{c.new}]" if "," in c.new else f"{c.name}={c.new}"
                           for c in drift.changes if c.new is not None)  # fmt: skip
            drop = ",".join(c.name for c in drift.changes if c.new is None)
            options = ["--entity-type", "topics", "--entity-name", drift.mirror, "--alter"]
            options += (["--add-config", add] if add else []) + (["--delete-config", drop] if drop else [])
            why = f"to match {drift.topic}: {first_few(map(str, drift.changes))}"
            fix = f"A worker sets it at its next sync; or: {context.tool('kafka-configs', context.target, *options)}"
            rows.append((drift.mirror, Severity.WARN, why, fix))
    if not drifts:
        return passed("nothing to check: no mirror topic is there")
    return rows or passed(f"{count(len(drifts), 'topic')} compared")


def durability(durability: Durability, context: CheckContext) -> Judgements:
    """Has every mirror topic enough in-sync replicas to accept acks=all?"""
    brokers, factor = durability.brokers, durability.factor
    possible = max(1, brokers)
    wanted = min(possible, factor) if factor > 0 else min(2, possible)
    rows: Judgements = []
    for topic in durability.topics:
        minimum = _min_insync_replicas(durability, topic.name)
        severity, why, fix = _replicas(topic, minimum, wanted, possible, context)
        if severity is not Severity.OK:
            rows.append((topic.name, severity, why, fix))
    if rows:
        return rows
    if not durability.topics and durability.source_lost:
        why = "no mirrored topic is there: applications would move to a cluster without their records"
        fix = f"Check the names of the flow and of its topics: {context.drlib('status')}"
        return [("", Severity.CRITICAL, why, fix)]
    if not durability.topics:
        return passed(f"no mirror topic yet; {count(brokers, 'broker')}")
    least = min(_fewest_replicas(topic) for topic in durability.topics)
    return passed(f"{count(len(durability.topics), 'topic')}, {count(least, 'copy', 'copies')} or more of each "
                  f"on {count(brokers, 'broker')}, all in sync")  # fmt: skip


def _replicas(
    topic: TopicMetadata, found: int | DrlibError | None, wanted: int, brokers: int, context: CheckContext
) -> tuple[Severity, str, str]:
    """`found`: min.insync.replicas, None where it may not be read. Each count is the least of all partitions."""
    minimum = None if isinstance(found, DrlibError) else found
    replicas, in_sync = _fewest_replicas(topic), min(len(p.isr) for p in topic.partitions.values())
    leaderless = [f"{topic.name}-{number}" for number, p in sorted(topic.partitions.items()) if p.leader < 0]
    describe = context.tool("kafka-topics", context.target, "--describe", "--topic", topic.name)
    add = "Add replicas: kafka-reassign-partitions.sh --execute."
    if leaderless:
        named = f"{count(len(leaderless), 'partition')} without a leader: {first_few(leaderless)}"
        return Severity.CRITICAL, named, f"Start the brokers that hold them: {describe}"
    if minimum is not None and minimum > replicas:
        lower = context.tool("kafka-configs", context.target, "--entity-type", "topics", "--entity-name", topic.name,
                             "--alter", "--add-config", f"min.insync.replicas={replicas}")  # fmt: skip
        why = f"min.insync.replicas is {minimum} and there {is_or_are(replicas)}: acks=all is refused"
        return Severity.CRITICAL, why, lower
    if minimum is not None and in_sync < minimum:
        why = f"{in_sync} of {replicas} copies in sync, min.insync.replicas is {minimum}: acks=all is refused"
        return Severity.CRITICAL, why, f"Bring the replicas' brokers back: {describe}"
    if in_sync < replicas:
        return Severity.WARN, f"{in_sync} of {replicas} copies in sync", f"See {describe}"
    if replicas < wanted:
        return Severity.WARN, f"{count(replicas, 'copy', 'copies')} on {brokers} brokers, {wanted} required", add
    if isinstance(found, DrlibError) and not (isinstance(found, ClusterRefused) and found.unauthorized):
        return Severity.UNKNOWN, f"its min.insync.replicas could not be read: {found.why}", found.remedy
    if minimum is None:
        fix = context.tool("kafka-acls", context.target, "--add", "--allow-principal", "User:PRINCIPAL", "--operation",
                           "DescribeConfigs", "--topic", topic.name)  # fmt: skip
        return Severity.UNKNOWN, "its min.insync.replicas could not be read", fix
    if brokers > 1 and minimum == replicas:
        why = f"min.insync.replicas is {minimum} of {replicas} copies: the loss of one broker stops producers"
        return Severity.WARN, why, add
    return Severity.OK, "", ""


def _fewest_replicas(topic: TopicMetadata) -> int:
    return min(len(partition.replicas) for partition in topic.partitions.values())


def _min_insync_replicas(durability: Durability, topic: str) -> int | DrlibError | None:
    settings = durability.settings.get(topic, ())
    if isinstance(settings, DrlibError):
        return settings
    return next((int(s.value) for s in settings if s.name == "min.insync.replicas" and s.value is not None), None)
