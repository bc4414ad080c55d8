"""What a runbook for own clusters needs on a lab that is started for it: a mirror, and applications that follow the pointer.

Rules: they are processes of the lab and end with it. Nothing is left to do when this returns: the mirror runs and has the
groups' positions.
Not for: drills that are written for a lab; they start what they need as their steps.
"""

from dataclasses import replace
from typing import Final

from drlib.drill.testbed.failover_testbed import ENDS_BY_ITSELF, GROUPS, FailoverTestbed, Traffic
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import not_crossed
from drlib.lab.workload.topics import SOURCE_TOPICS, log_ends
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow

_TRAFFIC: Final = Traffic(records_per_second=200.0, backlog=2000, delays_per_second=400.0)
_WAIT_S: Final = 60.0


def start_practice(lab: Lab, flow: Flow) -> None:
    """Start them on a new lab, and wait until they work. Raises `Unreachable`, `UsageError`."""
    testbed = FailoverTestbed(lab, lab.root / "practice", _TRAFFIC, lanes=2, flow=flow)
    testbed.start_applications()
    testbed.worker(1).launch()
    testbed.wait("the mirror runs", testbed.mirror_runs, _WAIT_S)
    # Its records are old, so that a lag in them counts as years.
    testbed.wait(f"{ENDS_BY_ITSELF} has ended", lambda: not testbed.applications.runs(ENDS_BY_ITSELF), _WAIT_S)
    ends = log_ends(lab.clusters[flow.source], [topic.name for topic in SOURCE_TOPICS])
    testbed.wait_for_count("the mirror caught up", lambda: -not_crossed(testbed.mirror(), flow, ends), 0, _WAIT_S)
    testbed.wait("every group has read", lambda: all(testbed.applications.done(each) > 0 for each in GROUPS), _WAIT_S)
    testbed.wait("the mirror has every group's position", lambda: _positions_of(testbed) >= {*GROUPS}, _WAIT_S)
    testbed.wait_for_count("the mirror keeps up", lambda: -testbed.mirror().lag, -_TRAFFIC.records_per_second, _WAIT_S)


def _positions_of(testbed: FailoverTestbed) -> set[str]:
    clusters = {alias: each.settings() for alias, each in testbed.lab.clusters.items()}  # the mirror may not read them
    return {group for group, _ in checkpointed_positions(replace(testbed.settings, clusters=clusters), testbed.flow)}
