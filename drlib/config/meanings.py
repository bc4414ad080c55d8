"""What each key that is honoured means here, in one line: what `drlib config explain` prints beside its value.

Rules: every key that `drlib.config.settings` asks for has a line, which a test holds it to; units are in the line.
Not for: keys without effect, whose reasons are in `drlib.config.keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MEANINGS: Final[Mapping[str, str]] = {
    "clusters": "the aliases of all clusters of this file",
    "bootstrap.servers": "host:port addresses of brokers the others are found through",
    "security.protocol": "how connections are encrypted and authenticated",
    "enabled": "whether this direction is mirrored",
    "topics": "topics to mirror: Java patterns that must match a whole name",
    "topics.exclude": "topics left out, whatever `topics` says",
    "groups": "groups whose positions are translated: Java patterns that must match a whole name",
    "groups.exclude": "groups left out, whatever `groups` says",
    "config.properties.exclude": "topic configurations that are not copied: Java patterns",
    "use.defaults.from": "whose default a topic configuration has that the source leaves at its default",
    "replication.policy.class": "what a topic is called on the target",
    "replication.policy.separator": "what stands between alias and topic",
    "replication.policy.internal.topic.separator.enabled": "whether internal topics use that separator or a period",
    "replication.factor": "replicas of a new mirror topic, -1 for the target's default",
    "heartbeats.topic.replication.factor": "replicas of the heartbeats topic, -1 for the target's default",
    "checkpoints.topic.replication.factor": "replicas of the checkpoints topic, -1 for the target's default",
    "offset-syncs.topic.replication.factor": "replicas of the offset-syncs topic, -1 for its cluster's default",
    "offset-syncs.topic.location": "the cluster MirrorMaker 2's offset-syncs topic is written to",
    "emit.offset-syncs.enabled": "whether MirrorMaker 2's offset syncs are written for its readers",
    "offset.lag.max": "records between two of those offset syncs, at most; our own translation needs none",
    "refresh.topics.enabled": "whether new topics and partitions are looked for",
    "refresh.topics.interval.seconds": "seconds between two looks for new topics and partitions",
    "refresh.groups.enabled": "whether new groups are looked for",
    "refresh.groups.interval.seconds": "seconds between two looks for new groups; their commits are followed at once",
    "sync.topic.configs.enabled": "whether mirror topics get the source's topic configurations",
    "sync.topic.configs.interval.seconds": "seconds between two comparisons of topic configurations",
    "sync.group.offsets.enabled": "whether translated positions are committed on the target",
    "sync.group.offsets.interval.seconds": "seconds between two such commits",
    "emit.checkpoints.enabled": "whether translated positions are written as MirrorMaker 2's checkpoints",
    "emit.checkpoints.interval.seconds": "seconds between two checkpoints of a group in MirrorMaker 2; here at once",
    "emit.heartbeats.enabled": "whether heartbeats are written to the target",
    "emit.heartbeats.interval.seconds": "seconds between two heartbeats",
    "heartbeats.replication.enabled": "whether heartbeats topics are mirrored, whatever `topics` says",
    "admin.timeout.ms": "milliseconds an administrative request may take, such as creating a topic",
    "topic.filter.class": "how topics are chosen; only MirrorMaker 2's own class is here",
    "group.filter.class": "how groups are chosen; only MirrorMaker 2's own class is here",
    "config.property.filter.class": "how topic configurations are chosen; only MirrorMaker 2's own class is here",
    "drlib.cluster.id": "the only cluster that is meant by this alias, by its cluster ID; empty: whichever answers",
    "drlib.lanes": "shares of the partitions that workers take over as one; never lower it on a live flow",
    "drlib.metrics.address": "host:port where Prometheus reads metrics, none when empty",
    "drlib.group.positions.poll.ms": "milliseconds between two full questions for group positions",
    "offset.storage.topic": "where a MirrorMaker 2 that is taken over stored its offsets; empty: MM2's own name",
    "config.storage.topic": "where a MirrorMaker 2 that is taken over is configured; empty: MM2's own name",
    "drlib.takeover.group": "the Connect group of a MirrorMaker 2 that is taken over; empty: <source>-mm2",
    "drlib.session.timeout.ms": "milliseconds until the lanes of a silent worker are given away",
    "drlib.journal.replication.factor": "replicas of the journal topic, -1 for the target's default",
    "client.id": "how brokers know this client, in quotas and logs; the role follows it",
}
SECURITY: Final = "a key of Kafka's TLS and SASL clients"
