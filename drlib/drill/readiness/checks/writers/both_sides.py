"""Findings about topics that clients of both clusters write to under one name.

Rules: such a topic is a warning, with the records of the last hour on each side: nothing is lost, and each log has an order of
its own, so that a group that moves reads some again and no key is in order across both. Written to on one side, it is ok only
where both were counted. Where nothing is copied in both directions under one name, there is nothing to check.
"""

from collections.abc import Sequence
from typing import Final

from drlib.drill.readiness.checks.objectives import AGAIN, Judgements, again, count, passed
from drlib.drill.readiness.score import Severity
from drlib.drill.writers.rules import TopicWritten, Written

FIX: Final = (
    "Let producers write to one cluster: drlib inventory FILE lists them, source.fence with deny_write keeps others out. "
    "docs/drills.md#denying-writes"
)


def written_on_both(found: Sequence[TopicWritten] | None) -> Judgements:
    """Do clients of both clusters write to one topic? None: no topic is copied in both directions under one name."""
    if found is None:
        return passed("no topic is copied in both directions under one name: each mirror topic is its flow's alone")
    if not found:
        return passed("no topic that both directions copy under one name exists on both clusters yet")
    rows: Judgements = [row for each in found if (row := _topic(each)) is not None]
    if rows:
        return rows
    used = sum(any(isinstance(one, Written) and one.records for one in each.by_cluster.values()) for each in found)
    return passed(
        f"{count(len(found), 'topic')} that both directions copy: in the last hour clients wrote to {used} of them, on one "
        "cluster each"
    )


def _topic(each: TopicWritten) -> tuple[str, Severity, str, str] | None:
    known = {alias: one for alias, one in each.by_cluster.items() if isinstance(one, Written)}
    if len(known) == len(each.by_cluster) and all(one.records for one in known.values()):
        rates = " and ".join(f"{_number(one)} on {alias}" for alias, one in known.items())
        why = (
            f"clients write to it on both clusters, records in the last hour: {rates}. The logs differ in order, so that a "
            "group that moves reads some records again, and keys written on both have no common order"
        )
        return each.topic, Severity.WARN, why, FIX
    for alias, one in each.by_cluster.items():
        if isinstance(one, str):
            return each.topic, Severity.UNKNOWN, f"not counted on {alias}: {one}", again(one)
        if one.at_least and not one.records:
            why = f"not counted on {alias}: too much of its log is not copied yet to be read"
            return each.topic, Severity.UNKNOWN, why, AGAIN
    return None


def _number(one: Written) -> str:
    return f"at least {one.records:,}" if one.at_least else f"{one.records:,}"
