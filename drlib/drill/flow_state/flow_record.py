"""Read what a flow's target knows of the flow's drills: the last committed record of `drlib.drills.internal`.

Rules: read-only, within the deadline of the handle that is given.
Not for: what the record means (`drlib.drill.plan.lease_record`), and holding the flow (`drlib.drill.run.lease`).
"""

from typing import Final

from drlib.drill.plan import lease_record as drill_lease
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow, TopicPartition

OPPOSITE_S: Final = 3.0
_PARTITION: Final = TopicPartition(drill_lease.TOPIC, drill_lease.PARTITION)


def read_record(cluster: Cluster, flow: Flow) -> LeaseRecord:
    """What the cluster knows of `flow`: the last committed record."""
    if drill_lease.TOPIC not in cluster.topics([drill_lease.TOPIC]):
        return LeaseRecord()
    start = cluster.log_starts([_PARTITION])[_PARTITION]
    end = cluster.log_ends([_PARTITION], Isolation.READ_COMMITTED)[_PARTITION]
    value: bytes | None = None
    for record in cluster.read({_PARTITION: Range(start, end)}):
        if record.key == drill_lease.key(flow):
            value = record.value
    return drill_lease.decode(value, flow)


def read_opposite(source: ClusterSettings | None, flow: Flow) -> LeaseRecord | None:
    """The record of the flow opposite to `flow`, on its `source`; None where that does not answer within `OPPOSITE_S`."""
    if source is None:
        return None
    try:
        with Cluster(source, timeout_s=OPPOSITE_S) as cluster:
            return read_record(cluster, Flow(flow.target, flow.source))
    except DrlibError:
        return None
