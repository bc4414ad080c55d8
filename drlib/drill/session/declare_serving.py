"""Declare which cluster of a flow serves its applications, where they were moved without drlib.

Rules: the flow's lease is taken for it, so it is refused while a process runs a drill. An unfinished run is superseded, and can
never be resumed or rolled back. No cluster is asked whether it is so: people know.
Not for: moving anything.
"""

import socket

from drlib import clock
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.states import DECLARED, DrillEvent, unfinished
from drlib.drill.run.lease import Lease
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow
from drlib.runs.abort import user_name


def declare_serving(target: ClusterSettings, flow: Flow, serves: str) -> LeaseRecord:
    """Write on `target`, the flow's, that the cluster `serves` serves the applications; returns what is written.

    Raises `UsageError` for a cluster that the flow does not have, `LeaseHeld` while a run is held, `Unreachable`.
    """
    events = {flow.source: DrillEvent.SOURCE_SERVES, flow.target: DrillEvent.TARGET_SERVES}
    if serves not in events:
        raise UsageError(f"cluster {serves}", f"{flow} does not have it", f"Name {flow.source} or {flow.target}.")
    by = f"settled by {user_name()} on {socket.gethostname()}"
    with Lease(target, flow, by) as lease:
        past = lease.record.given_up(by, clock.now_ms()) if unfinished(lease.state) else None
        lease.write(DECLARED[events[serves]], superseded=past)
        return lease.record
