"""Define every event: what its name means, what the operator can do about it, and for how long it stays open.

Rules: a literal table. An event must be in it: an unlisted one is shown without a meaning, and a test fails; `docs/faults.md`
has a row for each, with its test. Longer than most modules: one row for each event.
Not for: opening and resolving (`drlib.mirror.status.event_log`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

DAY_S: Final = 86_400.0
HOLD_S: Final = 5.0  # longer than the longest interval between two reports of any reporter
PARTITION: Final = "partition"
TOPIC: Final = "topic"


class Level(IntEnum):
    """As Python's logging has them. ERROR: records are lost, or something is not mirrored until its cause is removed;
    WARNING: everything is mirrored, with a limitation or after a short interruption; INFO: there is nothing to do."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class Kind:
    """`per_flow`: reports of several lanes are one event of their flow. `hold_s`: an event that comes back within this time is
    the same alert. `lasts_s`: for something that cannot be undone, how long it stays open. `level`: of its line in the
    log. `about`: `PARTITION` or `TOPIC` where the event's entity is one."""

    meaning: str
    remedy: str
    per_flow: bool = False
    hold_s: float = HOLD_S
    lasts_s: float | None = None
    level: Level = Level.WARNING
    about: str = ""


_REMIRROR: Final = "To mirror the topic again from the start of the source: drlib remirror FILE TOPIC."

KINDS: Final[Mapping[str, Kind]] = {
    "SourceUnreachable": Kind(
        "the source cluster cannot be read; records already fetched are still delivered",
        "Check its brokers and the link; mirroring resumes by itself. If it stays down: drlib failover FILE.",
        per_flow=True,
        level=Level.ERROR,
    ),
    "OfflinePartition": Kind(
        "a partition of the source has no leader and cannot be read; other partitions are mirrored",
        "Start a broker that has a replica: kafka-topics.sh --describe --unavailable-partitions names them. Reading resumes by "
        "itself.",
        level=Level.ERROR,
        about=PARTITION,
    ),
    "LaneFault": Kind(
        "the connection to the target broke; the lane claims again and reads back what was written",
        "Nothing, if it resolves. If it stays: check that the target's brokers run and its topics accept writes.",
        per_flow=True,
    ),
    "LaneLost": Kind(
        "another worker claimed the lane",
        "Nothing to do: mirroring continues under the newer claim, or here if the group assigns the lane to this worker again.",
        level=Level.INFO,
    ),
    "WorkersDiffer": Kind(
        "workers of one flow have other topics or names of mirrors in their files: a topic is mirrored only where its lane's "
        "worker knows it",
        "Give all workers of the flow the same file, and restart those that have another. Another set of topics needs aliases "
        "of its own.",
        per_flow=True,
        level=Level.ERROR,
    ),
    "LaneFailed": Kind(
        "an unexpected error ended a lane; its partitions are not mirrored",
        "Restart this worker; it resumes at the exact record. Send the error and the worker's output to its developers.",
        level=Level.ERROR,
    ),
    "DiscoveryFailed": Kind(
        "topics could not be listed or created; those already mirrored continue",
        "See the error; new topics follow at the next refresh after it is solved.",
    ),
    "FlowUnreachable": Kind(
        "a cluster of this flow does not answer, so the flow has not started; other flows run",
        "Check that its brokers run and bootstrap.servers is right; the flow starts by itself when they answer.",
        level=Level.ERROR,
    ),
    "FlowFailed": Kind(
        "a flow of this worker ended with an error or cannot start again, so nothing of it is mirrored; other flows run",
        "Remove the cause that the event names; the flow is tried again by itself.",
        level=Level.ERROR,
    ),
    "FlowFailedOver": Kind(
        "applications have moved to the target since a failover, so nothing of the source is mirrored: records that were not "
        "mirrored have to be settled first",
        "Settle them and move back: drlib failback FILE FLOW. Where the source serves: drlib runs settle FILE --flow FLOW "
        "--serves SOURCE.",
    ),
    "FlowStateUnreadable": Kind(
        "the worker may not read whether the flow is failed over, and mirrors it as if it were not",
        "Grant READ on the topics that the event names: drlib doctor FILE --rights --role mirror.",
    ),
    "MembershipRefused": Kind(
        "the target does not let this worker be a member of the flow's group, so no lane is assigned to it",
        "Grant the right or correct the setting that the event names; the worker joins by itself.",
        level=Level.ERROR,
    ),
    "TopicLoop": Kind(
        "a topic would be copied in a cycle between clusters that keep its name, so it is not mirrored",
        "Mirror it one way only, or use DefaultReplicationPolicy.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "RecordsReturned": Kind(
        "records that were copied return to the source, because another replicator copies the topic back under the same name: "
        "the topic is not mirrored any more",
        "Stop the other replicator or leave the topic out of one direction, then restart the worker. To copy it in both "
        "directions enable both flows in one file.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "ReturnSuspected": Kind(
        "records that equal copied ones are written to the source again and again, so their partition is held back for seconds "
        "to find out whether that is because it is copied",
        "Nothing: it is copied further, or an event RecordsReturned says what was found.",
        about=PARTITION,
    ),
    "WaitingForMirrorMaker": Kind(
        "MirrorMaker 2 still runs this flow, so it is not taken over yet",
        "Stop MirrorMaker 2; the takeover continues by itself.",
    ),
    "MirrorMakerSilent": Kind(
        "MirrorMaker 2 mirrors this flow and writes no heartbeats any more, so nothing is mirrored",
        "Start MirrorMaker 2 again, or take the flow over: drlib mirror FILE continues after its last copy.",
        level=Level.ERROR,
    ),
    "TakenOver": Kind(
        "a flow of MirrorMaker 2 was continued after its last copy",
        "Nothing to do.",
        lasts_s=3600.0,
        about=PARTITION,
        level=Level.INFO,
    ),
    "StartChosen": Kind(
        "a topic without a position begins where auto.offset.reset or drlib.start.timestamp says; records before that are not "
        "mirrored",
        "Nothing to do, if that is what the file is meant to say.",
        lasts_s=3600.0,
        about=PARTITION,
        level=Level.INFO,
    ),
    "NoStartPosition": Kind(
        "a topic without a position waits, as auto.offset.reset = none says; other topics are mirrored",
        "Set the source consumer's auto.offset.reset to earliest or latest, or drlib.start.timestamp, and restart the worker.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "StartUnknown": Kind(
        "a topic without a position waits until the source can say where all its partitions begin; others are mirrored",
        "Start the brokers that have its replicas, or grant Describe on the topic; it then begins by itself.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "TakeoverStale": Kind(
        "MirrorMaker 2's committed offset is not about the topic or the mirror that exist now, and is not used",
        "Check whether the source was restored from a backup, or the topic or its mirror was re-created.",
        lasts_s=DAY_S,
        about=PARTITION,
    ),
    "TakeoverRecordSkipped": Kind(
        "a topic of MirrorMaker 2 holds records that it cannot have written; they are not used",
        "Find out who else writes to that topic.",
        lasts_s=DAY_S,
        about=TOPIC,
    ),
    "TakeoverUnsure": Kind(
        "the exact offset where MirrorMaker 2 stopped is unknown; mirroring starts at the lower bound, so some records may be "
        "on the target twice",
        "Compare the named range of the mirror topic with its source if duplicates matter there.",
        lasts_s=DAY_S,
        about=PARTITION,
    ),
    "TakeoverDiffers": Kind(
        "below some offset, what MirrorMaker 2 copied cannot be matched with its source; positions there stay bounded",
        "Nothing, if a connector transforms or filters these records. Else compare both topics: drlib run nightly-audit.",
        lasts_s=DAY_S,
        about=PARTITION,
    ),
    "TakeoverUnexplained": Kind(
        "a topic that both directions copy has records on the target, from before MirrorMaker 2 was taken over, that the "
        "source does not have; the flow back waits",
        "See the event: say that clients of the target wrote them, or that they are copies.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "TopicNotFound": Kind(
        "a topic that the file names does not exist on the source, or may not be described",
        "Correct topics, create it or grant Describe on it; mirroring of it then starts by itself.",
        about=TOPIC,
    ),
    "PatternTooSlow": Kind(
        "matching a name on the clusters with a pattern of the file takes too long, so the name counts as not matched: its "
        "topic or group is not mirrored, its setting not copied",
        "Write the pattern without an ambiguous repetition, such as (a|aa)+, or list the names, and restart the worker.",
        lasts_s=DAY_S,
        level=Level.ERROR,
    ),
    "GroupTailUnavailable": Kind(
        "__consumer_offsets of the source cannot be read; commits are polled instead and may be seen later",
        "Grant the worker's principal Read and Describe on the topic __consumer_offsets of the source.",
    ),
    "Parked": Kind(
        "a record cannot be delivered, so its partition is parked before it; other partitions are mirrored",
        "See the broker's reason; the partition is tried again by itself, from the same record.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "TargetRefused": Kind(
        "the target refuses a record, so its partition is parked before it; other partitions are mirrored",
        "Change the configuration that the event names on the mirror topic; the partition is tried again by itself.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "TimestampsRewritten": Kind(
        "a mirror topic replaces the records' timestamps with its own",
        "Set message.timestamp.type=CreateTime on the mirror topic; it applies from the next record on.",
        about=TOPIC,
    ),
    "SourceCorrupt": Kind(
        "the source's log is damaged, so the partition is parked before the damage; other partitions are mirrored",
        "Inspect the partition's segment with kafka-dump-log.sh and restore it from another replica; the partition is tried "
        "again by itself.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "SourceStalled": Kind(
        "the source returns no records of a partition although its log continues; fetching is tried again and again",
        "Inspect the partition's last segments with kafka-dump-log.sh --files SEGMENT.log. If a batch is damaged, restore "
        "the partition from another replica; if the log cleaner left no record, this ends with the next record.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "SourceTruncated": Kind(
        "the source's log went back behind what was mirrored (unclean election, old backup), so the partition is parked",
        "Decide which history counts, and export what the mirror has beyond the source if it matters. " + _REMIRROR,
        about=PARTITION,
        level=Level.ERROR,
    ),
    "SourceTopicGone": Kind(
        "a topic was deleted on the source while it was read; its mirror keeps what was copied",
        "Nothing, if that was intended. A topic re-created under its name is found at the next refresh.",
        about=PARTITION,
    ),
    "SourceUnproven": Kind(
        "the source gives a topic no ID, and nothing in its log shows whether it is the topic that was mirrored, so the "
        "partition is parked",
        "Find out whether the topic was deleted and created again. It is compared again by itself; if it was re-created, or "
        "cannot be compared any more: " + _REMIRROR,
        about=PARTITION,
        level=Level.ERROR,
    ),
    "SourceLossParked": Kind(
        "records expired before they were read, and drlib.source.loss.policy = park: the partition is parked before the gap",
        "Restore the range if it matters. To skip it, set drlib.source.loss.policy = continue and restart the worker.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "JournalLost": Kind(
        "a mirror topic holds records that the journal does not know, so it is parked: starting again would duplicate them",
        "Restore the journal, or delete the mirror topic on the target to have it mirrored again.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "RecordsUnexplained": Kind(
        "a topic that both directions, or a ring, copy held records before the first claim, and it is not known who wrote them",
        "See the event: say that they are the target's own, or delete the topic on one side.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "CopiesUnknown": Kind(
        "it is unknown which records of the source the reverse flow (in a ring: the incoming flow) copied there, so the "
        "partition is parked",
        "Restore that flow's journal. Or mirror the topic one way only: leave it out of that flow, restart the workers and, "
        "once the source has all that the target has, delete it on the target and have it copied again: drlib remirror. It is "
        "tried again by itself.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "ReverseFlowNotReady": Kind(
        "a topic that both directions, or a ring, copy under one name waits until the flow that fills the source claimed it",
        "Run both directions, or the whole ring; it begins by itself, unless another flow's event asks for something first.",
        about=PARTITION,
    ),
    "LaneStalled": Kind(
        "a lane has records to mirror, or a claim to complete, and has made no progress for more than 20 s",
        "See the other open events and the event's detail for the cause. Without any: restart this worker, it resumes at the "
        "exact record, and send the event and the worker's status to its developers.",
        per_flow=True,
        level=Level.ERROR,
    ),
    "MirrorUnavailable": Kind(
        "a partition of a mirror topic has no leader, too few replicas in sync, or does not exist, so it is parked; others are "
        "mirrored",
        "Start the brokers of the target that have its replicas: kafka-topics.sh --describe --unavailable-partitions and "
        "--under-min-isr-partitions name them. The partition continues by itself within seconds. One that does not exist is "
        "created.",
        level=Level.ERROR,
        about=PARTITION,
    ),
    "ServiceFailed": Kind(
        "a service beside the copy (heartbeats, checkpoints, offset syncs, topics, configs, ACLs, groups, lag, watches) ended; "
        "records are mirrored, and the service starts again by itself",
        "Remove the cause that the event names. If it stays without a visible cause, report the event.",
    ),
    "LaneUnauthorized": Kind(
        "the journal or the transactional ID of a lane may not be used, so nothing of the lane is mirrored",
        "Grant the right that the event names; the lane then continues by itself.",
        per_flow=True,
        level=Level.ERROR,
    ),
    "WrongCluster": Kind(
        "the addresses of a cluster lead to another cluster; its answers are ignored, and nothing is sent to it",
        "Correct the address (DNS, a load balancer); mirroring resumes by itself when the right cluster answers.",
        level=Level.ERROR,
    ),
    "TargetSlow": Kind(
        "the target has not answered for seconds; nothing is lost, requests in flight are waited for",
        "Check the target's brokers and the link; mirroring resumes by itself.",
    ),
    "SourceSlow": Kind(
        "the source has not answered for seconds; records already fetched are still delivered",
        "Check the source's brokers and the link; mirroring resumes by itself.",
    ),
    "ClockSkew": Kind(
        "a cluster's clock differs from this machine's, and lags in seconds are wrong by as much",
        "Set the clock (NTP) of the machine that is wrong.",
    ),
    "SourceLoss": Kind(
        "retention deleted records of the source before they were mirrored; the range is in the journal",
        "Restore the range from a backup if it matters. Raise retention.ms or retention.bytes of the topic, or the bandwidth "
        "of the link, so that it does not happen again.",
        lasts_s=DAY_S,
        about=PARTITION,
        level=Level.ERROR,
    ),
    "JournalTruncated": Kind(
        "the journal lost entries that its brokers had acknowledged; a mirror partition that cannot be proven without them is "
        "parked, and this ends with the last of those",
        "Set unclean.leader.election.enable=false on the journal topic, with three replicas and min.insync.replicas=2.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "TopicRecreated": Kind(
        "a source topic was deleted and re-created under the same name",
        "Check that this was intended: its mirror topic now holds records of both, and those that a backup restored twice. To "
        "have only the new topic's: delete the mirror topic, then drlib remirror FILE TOPIC.",
        lasts_s=DAY_S,
        about=TOPIC,
    ),
    "ForeignWriter": Kind(
        "another client wrote to a mirror topic; mirroring continues after its records, none is lost or duplicated",
        "Find out which client produces to this mirror topic and revoke its write permission.",
        lasts_s=DAY_S,
        about=PARTITION,
    ),
    "MirrorTopicRecreated": Kind(
        "a mirror topic was deleted or re-created, so the positions of its records are lost; its partitions are parked",
        "Keep consumers away from it, and find out who deleted it. " + _REMIRROR,
        about=PARTITION,
        level=Level.ERROR,
    ),
    "MirrorContradiction": Kind(
        "the journal and a mirror topic contradict each other, so the partition is parked rather than mirrored on a guess",
        "Find out who truncated or wrote to the mirror topic. " + _REMIRROR,
        about=PARTITION,
        level=Level.ERROR,
    ),
    "BrokerConfigUnknown": Kind(
        "the target's broker configuration could not be read; Kafka's defaults are assumed for how long it remembers producers",
        "Grant the worker's principal DescribeConfigs on the target cluster, then restart the worker.",
    ),
    "RetentionAhead": Kind(
        "records of the source will expire before they are mirrored, at the current rates",
        "Raise retention.ms or retention.bytes of the topic on the source until the mirror has caught up, or raise the link's "
        "bandwidth.",
        about=PARTITION,
        level=Level.ERROR,
    ),
    "OpenTransaction": Kind(
        "an open transaction on the source holds back all records after it, for its own consumers as well as for the mirror",
        "Let its application end it, or abort it with kafka-transactions.sh --bootstrap-server SOURCE abort.",
        about=PARTITION,
    ),
    "WatchFailed": Kind(
        "retention settings or positions could not be read, so the forecast is out of date",
        "Grant Describe and DescribeConfigs on the source's topics to the worker's principal, or see the error.",
    ),
    "EndpointUnavailable": Kind(
        "the address for status and metrics could not be opened; mirroring continues without it",
        "Give an address of this machine that is free: --metrics HOST:PORT; port 0 takes any free port.",
    ),
    "InternalTopicDeleted": Kind(
        "the topic of heartbeats, checkpoints or offset syncs was deleted while the flow ran",
        "Find out who deleted it. Consumers that translate by its records find those written since.",
        lasts_s=DAY_S,
        about=TOPIC,
    ),
    "JournalSettings": Kind(
        "the journal has log segments so large that claims take long: it is of an older version, or the cluster keeps its own",
        "Nothing to do where its settings were changed, or are the cluster's own; else run the command in the event.",
    ),
    "Mm2RecordRefused": Kind(
        "heartbeats, checkpoints or offset syncs are refused by their topic; records are mirrored",
        "Grant the worker's principal Write on the topic, or correct the setting that the error names.",
        about=TOPIC,
    ),
    "StatusUnwritable": Kind(
        "the worker's status file cannot be written, so readers of the file see an old state; mirroring continues",
        "Free space on that disk or correct its permissions; the file is written again at the next report.",
    ),
    "NoWorker": Kind(
        "no worker of this flow is running, so nothing is mirrored",
        "Start one: drlib mirror FILE. It resumes at the exact record.",
        level=Level.ERROR,
    ),
    "LaneUnowned": Kind(
        "no worker owns this lane, so its partitions are not mirrored",
        "Wait for the end of a rebalance; if it stays, start another worker or see the output of those that run.",
        level=Level.ERROR,
    ),
    "WorkerSilent": Kind(
        "a worker is a member of the group and does not answer at its address",
        "Check the process. Its lanes are assigned to another worker when its session ends.",
    ),
    "SourceUnauthorized": Kind(
        "the worker may not read a topic of the source, so this topic is not mirrored; others are",
        "Grant the right that the event names on the source; mirroring of the topic then starts by itself.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "TargetUnauthorized": Kind(
        "the worker may not write to a mirror topic, so this topic is not mirrored; others are",
        "Grant the right that the event names on the target; mirroring of the topic then starts by itself.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "MirrorTopicRefused": Kind(
        "the target refuses to create or grow a mirror topic; other topics are mirrored",
        "Correct what the event names; it is tried again at the next refresh.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "HeartbeatsRefused": Kind(
        "the target refuses a mirror topic of heartbeats that another flow brought to the source; no application misses them",
        "Grant what the event names, or set heartbeats.replication.enabled = false.",
        about=TOPIC,
    ),
    "SourceTopicDeleted": Kind(
        "a mirrored topic was deleted on the source; its mirror keeps what was copied",
        "Nothing, if that was intended. Re-create it to have it mirrored again.",
        lasts_s=DAY_S,
        about=TOPIC,
    ),
    "SourceTopicForbidden": Kind(
        "a mirrored topic may no longer be described on the source; its mirror keeps what was copied",
        "Grant Describe and Read on the topic to the worker's principal.",
        about=TOPIC,
        level=Level.ERROR,
    ),
    "TopicConfigDrift": Kind(
        "the configuration of a mirror topic was changed; it was set back to the source's",
        "Change the source's configuration instead, or name the setting in config.properties.exclude.",
        about=TOPIC,
    ),
    "TopicConfigRefused": Kind(
        "the target refuses a configuration of the source's topic; the topic's other configurations are copied",
        "Grant AlterConfigs on the mirror topic, or name the setting in config.properties.exclude.",
        about=TOPIC,
    ),
    "TopicConfigUnreadable": Kind(
        "the configuration of a topic could not be read, so it is not compared",
        "Grant DescribeConfigs on the topic, on the source and on its mirror.",
        about=TOPIC,
    ),
    "TopicConfigSyncFailed": Kind(
        "topic configurations could not be compared this time", "See the error; it is tried again at the next interval."
    ),
    "AclSyncOff": Kind(
        "a cluster has no authorizer, so there are no ACLs to copy",
        "Set sync.topic.acls.enabled = false, or give the cluster an authorizer.",
        level=Level.INFO,
    ),
    "AclRefused": Kind(
        "the target refuses an ACL; the others are copied",
        "Grant Alter on the target cluster to the worker's principal.",
    ),
    "LocalTopicRefused": Kind(
        "the target refuses to create a topic that applications write to; the others are created",
        "Grant what the event names, or create the topic by hand; it is tried again at the next interval.",
        about=TOPIC,
    ),
    "LocalTopicSyncFailed": Kind(
        "topics that applications write to could not be compared this time",
        "See the error; it is tried again at the next interval.",
    ),
    "QuotaSyncFailed": Kind(
        "quotas of producers could not be compared, or were refused, this time",
        "Grant what the error names (DescribeConfigs on both clusters, AlterConfigs on the target); it is tried again.",
    ),
    "AclSyncFailed": Kind(
        "ACLs could not be compared this time", "See the error; it is tried again at the next interval."
    ),
    "GroupLive": Kind(
        "the group is in use on the target, so its offsets there are not synchronized",
        "Nothing, if its consumers moved there. Otherwise stop the client that commits under this group.",
        level=Level.INFO,
    ),
    "GroupAhead": Kind(
        "a committed offset on the target is ahead of the translated one; it is never set back",
        "Nothing, if the group moved there. Otherwise find the client that commits under this group on the target.",
        level=Level.INFO,
    ),
    "GroupPastEnd": Kind(
        "a translated offset is past the end of the mirror topic, so it is not committed",
        "Wait for the mirror to catch up; if it stays, check whether the mirror topic was re-created.",
    ),
    "GroupNotTranslated": Kind(
        "a committed offset of the group cannot be translated exactly, so it is not committed on the target",
        "See the detail, or run drlib translate for the reason.",
    ),
    "GroupRewound": Kind(
        "the group went back on the source, and its offset on the target was set back too",
        "Nothing, if that was intended; the detail names the offsets.",
        level=Level.INFO,
    ),
    "GroupSyncRefused": Kind(
        "the target refuses to commit a group's offset",
        "Grant Read on the group and on its mirror topics on the target to the worker's principal.",
    ),
    "GroupUnreadable": Kind(
        "a group of the source may not be described, so its positions are not followed; or what share groups acknowledged is "
        "not known, as __share_group_state may not be read",
        "Grant what the detail names on the source to the worker's principal.",
    ),
    "GroupsUnlisted": Kind(
        "the source lists no group, or not every group, to the worker: there may be groups that are not followed",
        "Grant Describe on the source cluster to the worker's principal.",
    ),
    "GroupsUnseen": Kind(
        "committed offsets of the source's groups could not be read, so how they translate is unknown",
        "See the reason, and run drlib status again.",
    ),
    "GroupSyncBackFailed": Kind(
        "positions that groups reached on mirror topics could not be committed on the source",
        "Remove the cause that the error names; it is tried again at the next interval.",
    ),
    "GroupSyncFailed": Kind(
        "committed offsets of groups could not be compared this time",
        "See the error; it is tried again at the next interval.",
    ),
    "TargetUnreachable": Kind(
        "the target cluster does not answer, or refuses a right, so only what a worker last reported is known",
        "Grant the right that the event names (drlib doctor FILE --rights), raise the quota that it names, or check that its "
        "brokers run and bootstrap.servers is right.",
        level=Level.ERROR,
    ),
}

UNLISTED: Final = Kind("", "See the worker's output.")


def kind_of(name: str) -> Kind:
    """The table's row of an event, or `UNLISTED`."""
    return KINDS.get(name, UNLISTED)
