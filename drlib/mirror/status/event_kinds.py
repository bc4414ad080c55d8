"""Every event there is: what its name means, what a person can do about it, and how long it is worth telling.

Rules: a literal table. An event that is not in it is told without a meaning, and a test refuses that; `docs/faults.md` has
a row for each, with its test.
Not for: opening and resolving (`drlib.mirror.status.event_log`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

DAY_S: Final = 86_400.0
HOLD_S: Final = 5.0  # longer than the longest pause between two looks of anybody who reports


@dataclass(frozen=True, slots=True)
class Kind:
    meaning: str
    remedy: str
    per_flow: bool = False
    hold_s: float = HOLD_S
    lasts_s: float | None = None  # a fact, not a state: it ends by itself


_ANEW: Final = (
    "To mirror the topic anew from the start of the source: delete the mirror topic on the target, name the topic in "
    "drlib.remirror.topics, and restart the worker."
)

KINDS: Final[Mapping[str, Kind]] = {
    "SourceUnreachable": Kind(
        "the source cluster cannot be read; what was fetched is still delivered",
        "See whether its brokers run and the link is up; mirroring goes on by itself. If it stays down: drlib translate, "
        "then fail over.",
        per_flow=True,
    ),
    "OfflinePartition": Kind(
        "a partition of the source has no leader, so nothing of it can be read; others go on",
        "Bring a replica's broker back: kafka-topics.sh --describe --unavailable-partitions names them. It is read again by "
        "itself.",
    ),
    "LaneFault": Kind(
        "the target broke off; the lane claims again and reads back what stands",
        "Nothing, if it resolves. If it stays: see whether the target's brokers run and its topics accept writes.",
        per_flow=True,
    ),
    "LaneLost": Kind(
        "another worker claimed the lane",
        "Nothing to do: the newer claim goes on where this one ended, or this worker does if the group leaves it the lane.",
        lasts_s=60.0,
    ),
    "LaneFailed": Kind(
        "a lane ended by an error nobody foresaw; its partitions stand still",
        "Restart this worker; what was promised is read back. Send the error with the worker's output to its developers.",
    ),
    "DiscoveryFailed": Kind(
        "topics could not be listed or made; those that are mirrored go on",
        "Look at the error; new topics follow at the next refresh after it is gone.",
    ),
    "FlowUnreachable": Kind(
        "a cluster of this flow does not answer, or not yet, so the flow has not begun; others go on",
        "See whether its brokers run and bootstrap.servers is right; it is tried again by itself.",
    ),
    "TopicLoop": Kind(
        "a topic would go round between clusters that keep its name, so it is not mirrored",
        "Mirror it one way only, or use DefaultReplicationPolicy.",
    ),
    "WaitingForMirrorMaker": Kind(
        "MirrorMaker 2 still runs this flow, so it is not taken over yet", "Stop MirrorMaker 2; this goes on by itself."
    ),
    "TakenOver": Kind("a flow of MirrorMaker 2 was carried on behind its last copy", "Nothing to do.", lasts_s=3600.0),
    "TakeoverStale": Kind(
        "MirrorMaker 2's committed offset lies beyond the source's log and is not used",
        "Check whether the source was restored from a backup or the topic made again.",
        lasts_s=DAY_S,
    ),
    "TakeoverUnsure": Kind(
        "where MirrorMaker 2 stopped cannot be told exactly; the lower bound counts, so some records may stand twice",
        "Compare the named range of the mirror topic with its source if duplicates matter there.",
        lasts_s=DAY_S,
    ),
    "TopicNotFound": Kind(
        "a topic that the file names is not on the source, as far as the worker may see",
        "Correct topics, create it or grant Describe on it; it is then picked up by itself.",
    ),
    "GroupTailUnavailable": Kind(
        "__consumer_offsets of the source cannot be followed; commits are polled instead and may be seen later",
        "Grant the worker's principal Read and Describe on the topic __consumer_offsets of the source.",
    ),
    "Parked": Kind(
        "a record cannot be delivered, so this partition alone stands still before it",
        "See the broker's reason; the partition is tried again by itself, from the same record.",
    ),
    "TargetRefused": Kind(
        "the target refuses a record, so this partition alone stands still before it",
        "Change the setting that the event names on the mirror topic; the partition is tried again by itself.",
    ),
    "TimestampsRewritten": Kind(
        "a mirror topic gives records times of its own instead of keeping theirs",
        "Set message.timestamp.type=CreateTime on the mirror topic; it counts from the next record on.",
    ),
    "SourceCorrupt": Kind(
        "the source's log is damaged there, so this partition alone stands still before the damage",
        "Look at the partition's segment with kafka-dump-log.sh and restore it from another replica; the partition is tried "
        "again by itself.",
    ),
    "SourceStalled": Kind(
        "the source gives nothing of a partition although its log goes on; it is asked again and again",
        "Look at the partition's last segments with kafka-dump-log.sh --files SEGMENT.log. Where a batch is damaged, restore "
        "the partition from another replica; where the cleaner left nothing, this ends with the next record.",
    ),
    "SourceTruncated": Kind(
        "the source's log went back behind what was mirrored (unclean election, old backup), so this partition stands still",
        "Decide which history counts, and export what the mirror has beyond the source if it matters. " + _ANEW,
    ),
    "SourceTopicGone": Kind(
        "the topic that was read is not there any more on the source; its mirror keeps what was copied",
        "Nothing, if that was meant. A topic made again under its name is found at the next refresh.",
    ),
    "SourceLossParked": Kind(
        "records expired before they were read, and drlib.source.loss.policy = park: the partition stands still before the gap",
        "Restore the range if it matters. To go on without it set drlib.source.loss.policy = continue and restart the worker.",
    ),
    "JournalLost": Kind(
        "a mirror topic holds records that the journal knows nothing of, so it stands still: beginning anew would double them",
        "Restore the journal, or delete the mirror topic on the target to have it mirrored anew.",
    ),
    "LaneUnauthorized": Kind(
        "the journal or the transactional ID of a lane may not be used, so the lane stands still",
        "Grant the right that the event names; the lane then goes on by itself.",
        per_flow=True,
    ),
    "WrongCluster": Kind(
        "the addresses of a cluster lead to another one now; none of its answers is used, and nothing is sent to it",
        "Correct the address (DNS, a load balancer); it goes on by itself when the right cluster answers.",
    ),
    "TargetSlow": Kind(
        "the target has not answered for seconds; nothing is lost, what was sent waits",
        "Look at the target's brokers and the link; it goes on by itself.",
    ),
    "SourceSlow": Kind(
        "the source has not answered for seconds; what was fetched is still delivered",
        "Look at the source's brokers and the link; it goes on by itself.",
    ),
    "ClockSkew": Kind(
        "a cluster's clock is another one than this machine's, and lags in seconds are off by as much",
        "Set the clock (NTP) of the machine that is wrong.",
    ),
    "SourceLoss": Kind(
        "retention deleted records of the source before they were mirrored; the range is in the journal's ledger",
        "Restore the range from a backup if it matters. Raise retention.ms or retention.bytes of the topic, or widen the "
        "link, so that it does not happen again.",
        lasts_s=DAY_S,
    ),
    "TopicRecreated": Kind(
        "a source topic was deleted and made again under the same name",
        "Check that this was meant: its mirror topic now holds records of both.",
        lasts_s=DAY_S,
    ),
    "ForeignWriter": Kind(
        "somebody else wrote to a mirror topic; the copy goes on behind it, nothing of it is lost or doubled",
        "Find out who else produces to this mirror topic and take away its write permission.",
        lasts_s=DAY_S,
    ),
    "MirrorTopicRecreated": Kind(
        "a mirror topic was deleted or made again, so what stood there and where is gone; its partitions stand still",
        "Keep consumers away from it, and find out who deleted it. " + _ANEW,
    ),
    "MirrorContradiction": Kind(
        "the journal and a mirror topic contradict each other, so this partition stands still instead of guessing",
        "Find out who cut or wrote the mirror topic. " + _ANEW,
    ),
    "BrokerConfigUnknown": Kind(
        "the target's broker settings could not be read; Kafka's defaults are assumed for how long it remembers producers",
        "Grant the worker's principal DescribeConfigs on the target cluster, then restart the worker.",
    ),
    "RetentionAhead": Kind(
        "records of the source will expire before they are mirrored, at the rates measured now",
        "Raise retention.ms or retention.bytes of the topic on the source until the mirror has caught up, or widen the link.",
    ),
    "OpenTransaction": Kind(
        "an open transaction on the source holds back every record behind it, for its own readers as for the mirror",
        "Let its application end it, or abort it with kafka-transactions.sh --bootstrap-server SOURCE abort.",
    ),
    "WatchFailed": Kind(
        "retention settings or positions could not be read, so the forecast is older than it should be",
        "Grant Describe and DescribeConfigs on the source's topics to the worker's principal, or see the error.",
    ),
    "EndpointUnavailable": Kind(
        "the address for status and metrics could not be opened; mirroring goes on without it",
        "Give each worker of a machine an address of its own with --metrics HOST:PORT, port 0 for any free one.",
    ),
    "NoWorker": Kind(
        "no worker of this flow is running, so nothing is mirrored",
        "Start one: drlib mirror FILE. It goes on from the exact record.",
    ),
    "LaneUnowned": Kind(
        "nobody owns this lane, so its partitions stand still",
        "Wait for the end of a rebalance; if it stays, start another worker or look at the output of those that run.",
    ),
    "WorkerSilent": Kind(
        "a worker is a member of the group and does not answer at its address",
        "Look at the process. Its lanes go to another worker when its session ends.",
    ),
    "SourceUnauthorized": Kind(
        "the worker may not read a topic of the source, so that topic alone stands still",
        "Grant the right that the event names on the source; mirroring of the topic then begins by itself.",
    ),
    "TargetUnauthorized": Kind(
        "the worker may not write a mirror topic, so that topic alone stands still",
        "Grant the right that the event names on the target; mirroring of the topic then begins by itself.",
    ),
    "MirrorTopicRefused": Kind(
        "the target refuses to make or grow a mirror topic; the others go on",
        "Correct what the event names; it is tried again at the next refresh.",
    ),
    "SourceTopicDeleted": Kind(
        "a mirrored topic is gone from the source; its mirror keeps what was copied",
        "Nothing, if that was meant. Create it again to have it mirrored again.",
    ),
    "SourceTopicForbidden": Kind(
        "a mirrored topic may no longer be seen on the source; its mirror keeps what was copied",
        "Grant Describe and Read on the topic to the worker's principal.",
    ),
    "TopicConfigDrift": Kind(
        "somebody changed a setting of a mirror topic; it is as on the source again",
        "Change the source's setting instead, or name it in config.properties.exclude.",
    ),
    "TopicConfigRefused": Kind(
        "the target refuses a setting of the source's topic; the topic's other settings follow",
        "Grant AlterConfigs on the mirror topic, or name the setting in config.properties.exclude.",
    ),
    "TopicConfigUnreadable": Kind(
        "settings of a topic could not be read, so they are not compared",
        "Grant DescribeConfigs on the topic, on the source and on its mirror.",
    ),
    "TopicConfigSyncFailed": Kind(
        "topic settings could not be compared this time", "See the error; it is tried again at the next interval."
    ),
    "AclSyncOff": Kind(
        "a cluster has no authorizer, so there are no ACL rules to copy",
        "Set sync.topic.acls.enabled = false, or give the cluster an authorizer.",
    ),
    "AclRefused": Kind(
        "the target refuses an ACL rule; the others are copied",
        "Grant Alter on the target cluster to the worker's principal.",
    ),
    "AclSyncFailed": Kind(
        "ACL rules could not be compared this time", "See the error; it is tried again at the next interval."
    ),
    "GroupLive": Kind(
        "somebody uses this group on the target, so its positions are left to it",
        "Nothing, if its consumers moved there. Otherwise stop whoever commits under this group.",
    ),
    "GroupAhead": Kind(
        "a position on the target is ahead of its translation and is never set back",
        "Nothing, if the group moved there.",
    ),
    "GroupPastEnd": Kind(
        "a translated position lies past the end of the mirror topic, so it is not written",
        "Wait for the mirror to catch up; if it stays, look for a mirror topic that was made again.",
    ),
    "GroupNotTranslated": Kind(
        "a position of the group cannot be translated exactly, so it is not written",
        "See the reason in the detail, or drlib translate for what can be said of it.",
    ),
    "GroupRewound": Kind(
        "the group went back on the source and its position here is not lowered",
        "See the detail; move it by hand if it was meant.",
    ),
    "GroupSyncRefused": Kind(
        "the target refuses to move a group's position",
        "Grant Read on the group and on its mirror topics on the target to the worker's principal.",
    ),
    "GroupUnreadable": Kind(
        "a group of the source may not be described, so its positions are not followed",
        "Grant Describe on the group on the source to the worker's principal.",
    ),
    "GroupsUnlisted": Kind(
        "the source lists no group, or not every group, to us: there may be groups that are not followed",
        "Grant Describe on the source cluster to the worker's principal.",
    ),
    "GroupsUnseen": Kind(
        "positions of the source's groups could not be asked for, so where they would go on is unknown",
        "See the reason; the next look asks again.",
    ),
    "GroupSyncFailed": Kind(
        "positions of groups could not be compared this time", "See the error; it is tried again at the next interval."
    ),
    "TargetUnreachable": Kind(
        "the target cluster cannot be asked, so what is known is only what a worker last said",
        "See whether its brokers run and bootstrap.servers is right.",
    ),
}

UNLISTED: Final = Kind("", "Look at the worker's output.")


def kind_of(name: str) -> Kind:
    """The table's row, or one that claims nothing."""
    return KINDS.get(name, UNLISTED)
