"""A small synchronous handle on one Kafka cluster."""

from drlib.clusters.cluster import Cluster
from drlib.clusters.descriptions import CommittedOffset, GroupListing, Isolation, Range, Record, TopicDescription
from drlib.clusters.faults import ClusterRefused, GroupNotEmpty, OffsetsGone

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
