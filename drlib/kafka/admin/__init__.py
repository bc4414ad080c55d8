"""A small synchronous handle on one Kafka cluster."""

from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, GroupListing, Isolation, Range, Record, TopicDescription
from drlib.kafka.admin.errors import ClusterRefused, GroupNotEmpty, OffsetsGone

__all__ = [
    "Cluster",
    "ClusterRefused",
    "CommittedOffset",
    "GroupListing",
    "GroupNotEmpty",
    "Isolation",
    "OffsetsGone",
    "Range",
    "Record",
    "TopicDescription",
]
