"""The minimal rights of each role on the clusters of a flow, from its properties file alone, and the commands that grant them.

Rules: a right is on the topics, groups and IDs that the file names, never on everything, unless the file says `.*`. Patterns
become resources where a resource stands for them (`pattern_resources`); for any other one a note says what to do. A right that
only some steps need says which (`only`). What another right implies is not listed. No cluster is asked.
Roles: `mirror` runs `drlib mirror`; `doctor` runs `drlib doctor` beside a mirror that runs; `drill` rehearses and moves, and
passes the readiness gate, so it may do what `doctor` may; `audit` compares topics and checkpoints.
Not for: asking a cluster what is granted (`drlib.mirror.preflight.checks`), what applications need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from drlib.client.pointer_topic import TOPIC as POINTER
from drlib.config.both_ways.shared_topics import shared_between
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.plan import lease_record
from drlib.drill.readiness.role import Role
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups.names import STATE_TOPIC
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.unreplicated.ledger import TOPIC as TAILS
from drlib.mirror.preflight.checks import READ_SOURCE, WRITE_MIRROR, start_rights
from drlib.mirror.preflight.pattern_resources import Names, resources
from drlib.mirror.preflight.required_acls import ANONYMOUS, UNKNOWN_PRINCIPAL, Right, command, principal_of
from drlib.mirror.sync.group_offsets_back import interval_s
from drlib.mirror.sync.rules.local_topics import keeps_names
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC
from drlib.mirror.transactions.transaction_state import TRANSACTIONS_TOPIC
from drlib.model import Flow

SOURCE_GONE: Final = "a source that does not answer"
DENY_WRITES: Final = "source.fence with deny_write"
CLIENTS: Final = "clients.refuse and clients.admit"
NEW_TOPICS: Final = "topics.create with acls and quotas"
TAIL: Final = "tail.recover and tail.quarantine"
PARTS: Final = "transactions.list"
FORMER: Final = "the checkpoints of former groups"
NO_GROUPS: Final = "a source without groups"
OPTIONAL: Final = {
    PARTS: "the mirror works without it, and does not know which partitions a transaction has",
    NO_GROUPS: "without it GroupsUnlisted is open while the source lists no group, as there may be some",
    FORMER: "without it a failover brings back groups that were deleted while no worker ran",
}
SHARE_GROUPS: Final = "share groups"
MAY_WRITE_STATES: Final = "ClusterAction on the cluster"
WITHOUT_IT: Final = (
    "a right of brokers: without it what share groups acknowledged behind their start offsets is delivered again"
)
SHADOWS: Final = "drill."  # the groups of rehearsals


@dataclass(frozen=True, slots=True)
class Grant:
    """`right` on the cluster `alias`; `only`: the steps that need it, "" where every use does."""

    alias: str
    right: Right
    only: str = ""


@dataclass(frozen=True, slots=True)
class RequiredRights:
    """What one role needs for one flow, without repetition, and what no resource can express."""

    role: Role
    flow: Flow
    grants: tuple[Grant, ...]
    notes: tuple[str, ...]


def required_rights(settings: MirrorSettings, flow: FlowSettings, role: Role) -> RequiredRights:
    """What `role` needs for `flow`, an enabled flow of `settings`."""
    reach = _Reach(settings, flow)
    notes = reach.notes
    if role is Role.DRILL:
        notes = (*notes, f"{MAY_WRITE_STATES} {flow.flow.target}, {WITHOUT_IT}")
    wanted = {Role.MIRROR: _mirror, Role.DRILL: _drill, Role.DOCTOR: _doctor, Role.AUDIT: _audit}[role](reach)
    return RequiredRights(role, flow.flow, tuple(_merged(wanted)), notes)


def flows_of(settings: MirrorSettings, wanted: Flow | None) -> tuple[FlowSettings, ...]:
    """The enabled flows, or the one that is wanted. Raises `UsageError` where there is none."""
    chosen = settings.enabled_flows if wanted is None else (settings.flow(wanted.source, wanted.target),)
    if not chosen:
        raise UsageError(
            "there are no rights to print", "the file enables no flow", "Set A->B.enabled = true, or give --flow."
        )
    return tuple(chosen)


def lines(required: RequiredRights, clusters: Mapping[str, ClusterSettings], principal: str = "") -> Iterator[str]:
    """A shell script: comments, and `kafka-acls.sh` commands, each with all resources of the same rights, as every command
    starts a JVM. `principal`: such as `User:dr`."""
    flow = required.flow
    yield f"# {required.role} of {flow}"
    for alias in (flow.source, flow.target):
        known = principal_of(clusters[alias])  # of the user whom the file is for: the mirror
        who = principal or (known if required.role is Role.MIRROR or known == ANONYMOUS else UNKNOWN_PRINCIPAL)
        grants = [grant for grant in required.grants if grant.alias == alias]
        if not grants:
            yield f"# on {alias}: nothing"
            continue
        admin = clusters[alias].admin_file
        yield f"# on {alias} ({admin}: the client file of a user who may alter its ACLs)" + (
            f": replace {who} by the principal that its brokers see" * (who == UNKNOWN_PRINCIPAL)
        )
        for only in dict.fromkeys(grant.only for grant in sorted(grants, key=lambda grant: grant.only)):
            if only:
                yield f"# on {alias}, for {only} alone" + (f", optional: {OPTIONAL[only]}" if only in OPTIONAL else "")
            alike: dict[Right, list[str]] = {}
            for right in (each.right for each in grants if each.only == only):
                alike.setdefault(replace(right, name=""), []).append(right.name)
            for right, (name, *names) in alike.items():
                first = replace(right, name=name)
                yield command(first, who, clusters[alias].bootstrap_servers, config=admin, also_on=names)
    for note in required.notes:
        yield f"# not expressed: {note}"


class _Reach:
    """What a flow's file names, as resources."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings) -> None:
        self.settings, self.flow, self.policy = flow, flow.flow, flow.policy
        self.source, self.target = flow.flow.source, flow.flow.target
        topics, unnamed_topics = resources(flow.topics)
        self.groups, unnamed_groups = resources(flow.groups)
        self.topics = topics
        self.notes = (
            *(f"topics = {each}; grant it on each topic that matches" for each in unnamed_topics),
            *(f"groups = {each}; grant it on each group that matches" for each in unnamed_groups),
        )
        back = settings.flow(self.target, self.source)
        self.back = back if back.emit_heartbeats else None
        self.syncs_back = interval_s(flow, back) is not None
        self.shares = shared_between(settings, flow.flow) is not None
        self.at_start = start_rights(flow, settings.flows)
        self.heartbeats = sorted(filter(flow.mirrors_topic, _heartbeats_on(settings, self.source)))
        self.mirrored = (*topics, *map(Names, self.heartbeats))

    def on(self, alias: str, kind: str, names: Iterable[Names | str], *operations: str, only: str = "") -> list[Grant]:
        made = []
        for each in names:
            name = Names(each) if isinstance(each, str) else each
            right = Right(kind, name.name, operations, name.prefixed)  # type: ignore[arg-type]
            made.append(Grant(alias, right, only))
        return made

    @property
    def growing(self) -> tuple[Names, ...]:
        """The mirror topics on the target that get as many partitions as their sources: all but those of heartbeats."""
        marked = "\0"  # where the source topic's name goes
        before = self.policy.remote_topic(self.source, marked).partition(marked)[0]
        return tuple(each.renamed(before) for each in self.topics)

    @property
    def copies(self) -> tuple[Names, ...]:
        """The mirror topics on the target."""
        heartbeats = (Names(self.policy.remote_topic(self.source, each)) for each in self.heartbeats)
        return (*self.growing, *heartbeats)


def _heartbeats_on(settings: MirrorSettings, alias: str, before: frozenset[str] = frozenset()) -> set[str]:
    """Topics with heartbeats on a cluster: what is emitted to it, and what the flows of a chain bring, but for `before`."""
    arriving = [flow for flow in settings.flows if flow.flow.target == alias]
    found = {flow.policy.heartbeats_topic for flow in arriving if flow.emit_heartbeats}
    for flow in arriving:
        source = flow.flow.source
        if flow.enabled and source not in before:
            there = _heartbeats_on(settings, source, before | {alias})
            found |= {flow.policy.remote_topic(source, each) for each in there if flow.mirrors_topic(each)}
    return found


def _mirror(reach: _Reach) -> list[Grant]:
    flow, policy, source, target = reach.settings, reach.policy, reach.source, reach.target
    changes = ("DESCRIBE_CONFIGS", "ALTER_CONFIGS") if flow.sync_topic_configs else ()
    grows = ("ALTER",) if flow.refresh_topics else ()
    wanted = [
        # a mirror topic is created with the settings of its source, also where they are not kept the same later
        *reach.on(source, "topic", reach.mirrored, *READ_SOURCE, "DESCRIBE_CONFIGS"),
        *reach.on(target, "topic", reach.copies, "CREATE", *WRITE_MIRROR, *changes),
        *reach.on(target, "topic", reach.growing, *grows),
        *(Grant(source, right) for right in reach.at_start.source),
        *(Grant(target, _with_create(right)) for right in reach.at_start.target),
        *reach.on(target, "topic", [flow.connect_offsets_topic], "READ"),  # whether MirrorMaker 2 mirrored before
        *reach.on(target, "topic", [lease_record.TOPIC, POINTER], "READ"),  # whether the flow is failed over
        *reach.on(target, "transactional-id", [Names(f"drlib.{source}.{target}.", True)], "WRITE"),
    ]
    wanted += reach.on(target, "cluster", [""], "DESCRIBE_CONFIGS")  # for how long it remembers producers
    wanted += reach.on(source, "topic", [TRANSACTIONS_TOPIC], "READ", only=PARTS)  # which partitions a transaction has
    if flow.emit_checkpoints or flow.sync_group_offsets:
        wanted += reach.on(source, "group", reach.groups, "DESCRIBE")
        wanted += reach.on(source, "topic", [OFFSETS_TOPIC], "READ")  # commits are known when they are made
        wanted += reach.on(source, "cluster", [""], "DESCRIBE", only=NO_GROUPS)
    if flow.emit_checkpoints:
        wanted += reach.on(source, "topic", [STATE_TOPIC], "READ", only=SHARE_GROUPS)
        wanted += reach.on(source, "group", reach.groups, "DESCRIBE_CONFIGS", only=SHARE_GROUPS)
    if flow.emit_checkpoints:
        wanted += reach.on(target, "topic", [policy.checkpoints_topic(source)], "READ", only=FORMER)
    if reach.back is not None:
        wanted += reach.on(source, "topic", [policy.heartbeats_topic], "CREATE", "WRITE")
    if flow.emit_offset_syncs:
        where = source if flow.offset_syncs_location == "source" else target
        wanted += reach.on(where, "topic", [flow.offset_syncs_topic], "CREATE", "WRITE")
    if flow.sync_group_offsets:
        wanted += reach.on(target, "group", reach.groups, "READ")
    if reach.syncs_back:
        wanted += reach.on(source, "group", reach.groups, "READ")
        wanted += reach.on(target, "topic", [TAILS], "READ")  # below which source offset records were settled
    if flow.sync_local_topics and not keeps_names(flow):
        wanted += reach.on(target, "topic", reach.topics, "CREATE", "DESCRIBE")
    if flow.sync_quotas:
        wanted += reach.on(source, "cluster", [""], "DESCRIBE_CONFIGS")
        wanted += reach.on(target, "cluster", [""], "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    if flow.sync_topic_acls:
        wanted += [
            *reach.on(source, "cluster", [""], "DESCRIBE"),
            *reach.on(target, "cluster", [""], "DESCRIBE", "ALTER"),
        ]
    return wanted


def _with_create(right: Right) -> Right:
    return replace(right, operations=("CREATE", *right.operations)) if right.kind == "topic" else right


def _doctor(reach: _Reach) -> list[Grant]:
    flow, policy, source, target = reach.settings, reach.policy, reach.source, reach.target
    wanted = [
        *reach.on(source, "topic", reach.mirrored, "DESCRIBE", "DESCRIBE_CONFIGS"),
        *reach.on(source, "group", reach.groups, "DESCRIBE"),
        # Describe: or a list of groups may be incomplete; and what applications may do. DescribeConfigs: quotas
        *reach.on(source, "cluster", [""], "DESCRIBE", "DESCRIBE_CONFIGS"),
        *reach.on(target, "cluster", [""], "DESCRIBE", "DESCRIBE_CONFIGS"),
        *reach.on(
            target, "topic", reach.copies, "READ", "DESCRIBE_CONFIGS"
        ),  # Read: what the journal does not tell yet
        # where applications continue to write; Read, there and on the source: which producer IDs are known
        *reach.on(target, "topic", reach.topics, "READ", "DESCRIBE_CONFIGS"),
        *reach.on(source, "topic", reach.topics, "READ"),
        *reach.on(target, "topic", [policy.journal_topic(source)], "READ"),
        *reach.on(target, "group", reach.groups, "DESCRIBE"),
        *reach.on(target, "group", [worker_group(reach.flow)], "DESCRIBE"),
        *reach.on(target, "topic", [lease_record.TOPIC], "READ"),  # which cluster stands by
        *(grant for alias in (source, target) for grant in reach.on(alias, "topic", [POINTER], "READ")),
    ]
    if flow.emit_checkpoints:  # the positions while the source does not answer
        wanted += reach.on(target, "topic", [policy.checkpoints_topic(source)], "READ", only=SOURCE_GONE)
    if flow.emit_heartbeats:
        wanted += reach.on(target, "topic", [policy.heartbeats_topic], "READ")
    for alias in (source, target):
        wanted += reach.on(alias, "group", reach.groups, "DESCRIBE_CONFIGS", only=SHARE_GROUPS)
    wanted += reach.on(source, "topic", [STATE_TOPIC], "READ", only=SHARE_GROUPS)
    return wanted


def _drill(reach: _Reach) -> list[Grant]:
    source, target = reach.source, reach.target
    lease = f"drlib.drill.{reach.flow}"
    wanted = [
        *_doctor(reach),
        *reach.on(source, "topic", reach.topics, "READ"),  # a canary compares records with their source
        *reach.on(target, "group", reach.groups, "READ"),
        *reach.on(target, "group", [Names(SHADOWS, True)], "READ", "DELETE"),
        *reach.on(target, "topic", [lease_record.TOPIC], "CREATE", "READ", "WRITE"),
        *reach.on(target, "group", [lease], "READ"),
        *reach.on(target, "transactional-id", [lease], "WRITE"),
    ]
    for alias in (source, target):
        wanted += reach.on(alias, "topic", [POINTER], "CREATE", "READ", "WRITE")
        wanted += reach.on(alias, "transactional-id", [POINTER], "WRITE")
    wanted += reach.on(target, "topic", [STATE_TOPIC], "READ", only=SHARE_GROUPS)
    wanted += reach.on(target, "group", reach.groups, "DELETE", only=SHARE_GROUPS)  # its undo
    wanted += reach.on(source, "cluster", [""], "ALTER", only=DENY_WRITES)
    wanted += reach.on(source, "cluster", [""], "ALTER_CONFIGS", only=CLIENTS)  # DescribeConfigs: as the doctor
    wanted += reach.on(target, "topic", reach.topics, "CREATE", "DELETE", only=NEW_TOPICS)  # DELETE: its undo
    wanted += reach.on(target, "cluster", [""], "ALTER", "ALTER_CONFIGS", only=NEW_TOPICS)  # ACLs, quotas
    wanted += reach.on(target, "topic", [TAILS], "CREATE", "READ", "WRITE", only=TAIL)
    wanted += reach.on(target, "topic", reach.topics, "WRITE", only=TAIL)
    wanted += reach.on(target, "topic", [Names(f"drlib.tail.{source}.", True)], "CREATE", "WRITE", only=TAIL)
    wanted += reach.on(target, "transactional-id", [f"drlib.tail.{reach.flow}"], "WRITE", only=TAIL)
    return wanted


def _audit(reach: _Reach) -> list[Grant]:
    wanted = reach.on(reach.source, "topic", reach.topics, "READ", "DESCRIBE_CONFIGS")
    wanted += reach.on(reach.target, "topic", reach.copies, "READ", "DESCRIBE_CONFIGS")
    if reach.settings.emit_checkpoints:
        wanted += reach.on(reach.target, "topic", [reach.policy.checkpoints_topic(reach.source)], "READ")
    if reach.shares:  # which records of such a topic are copies
        wanted += reach.on(reach.target, "topic", [reach.policy.journal_topic(reach.source)], "READ")
        wanted += reach.on(reach.source, "topic", [reach.policy.journal_topic(reach.target)], "READ")
    return wanted


def _merged(grants: Iterable[Grant]) -> Iterator[Grant]:
    """One grant for each resource and `only`; what is implied, or granted for every use, is left out."""
    found: dict[tuple[str, str, str, bool, str], Grant] = {}
    for grant in sorted(grants, key=lambda each: bool(each.only)):
        right = grant.right
        always = found.get((grant.alias, right.kind, right.name, right.prefixed, ""))
        key = (grant.alias, right.kind, right.name, right.prefixed, grant.only)
        have = found[key].right.operations if key in found else ()
        operations = tuple(dict.fromkeys((*have, *right.operations)))
        if grant.only and always is not None:
            operations = tuple(each for each in operations if each not in always.right.operations)
        if {"READ", "WRITE", "ALTER", "DELETE"} & {*operations}:
            operations = tuple(each for each in operations if each != "DESCRIBE")
        if "ALTER_CONFIGS" in operations:
            operations = tuple(each for each in operations if each != "DESCRIBE_CONFIGS")
        if operations:
            found[key] = replace(grant, right=replace(right, operations=operations))
    yield from found.values()
