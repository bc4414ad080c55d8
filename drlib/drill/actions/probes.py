"""Probes of a hypothesis that any drill may use, registered by name in `probes`.

Rules: a probe only looks, with a handle of its own. What does not hold at first may come to within `within_seconds`, where
it takes that argument; what nobody could say is `holds=None`, which is no yes. The evidence has the numbers.

`cluster.answers` cluster · `topic.exists` cluster, topic, partitions · `group.active` cluster, group, within_seconds: it has
members, or its committed positions move · `mirror.lag` at_most (records), within_seconds · `readiness.score` at_least.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping
from typing import Final

from drlib.drill.plan.plan import Call
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import MINIMUM
from drlib.drill.step import arguments
from drlib.drill.step.action import Answer, Probe, ProbeMaker
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.context import DrillContext
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.mirror.monitor.survey import Surveyor
from drlib.model import TopicPartition
from drlib.runs.abort import Abort

_WITHIN_S: Final = 10.0
_LOOK_S: Final = 0.2


def probes(workplace: DrillContext) -> dict[str, ProbeMaker]:
    """The probes of this module. A maker raises KeyError for an argument that is missing, `UsageError` for a wrong one."""
    return {
        "cluster.answers": functools.partial(_cluster_answers, workplace),
        "topic.exists": functools.partial(_topic_exists, workplace),
        "group.active": functools.partial(_group_active, workplace),
        "mirror.lag": functools.partial(_mirror_lag, workplace),
        "readiness.score": functools.partial(_readiness, workplace),
    }


def _cluster_answers(workplace: DrillContext, call: Call) -> Probe:
    arguments.only(call, ("cluster",))
    settings = workplace.cluster(arguments.required(call, "cluster"))

    def probe(_: Abort) -> Answer:
        began = time.monotonic()
        try:
            found = cluster_id(settings)
        except Unreachable as error:
            return Answer(False, str(error))
        return Answer(True, f"{settings.alias} is cluster {found} and answered in {time.monotonic() - began:.2f} s")

    return probe


def _topic_exists(workplace: DrillContext, call: Call) -> Probe:
    arguments.only(call, ("cluster", "topic", "partitions"))
    settings, topic = workplace.cluster(arguments.required(call, "cluster")), arguments.required(call, "topic")
    wanted = arguments.whole(call, "partitions", 0)

    def probe(_: Abort) -> Answer:
        with Cluster(settings) as cluster:
            found = cluster.topics([topic]).get(topic)
        if found is None:
            return Answer(False, f"there is no topic {topic} on {settings.alias}")
        asked = f", and {wanted} are asked for" if wanted and found.partitions != wanted else ""
        return Answer(not asked, f"{topic} on {settings.alias} has {found.partitions} partitions{asked}")

    return probe


def _group_active(workplace: DrillContext, call: Call) -> Probe:
    arguments.only(call, ("cluster", "group", "within_seconds"))
    settings, group = workplace.cluster(arguments.required(call, "cluster")), arguments.required(call, "group")
    within_s = arguments.number(call, "within_seconds", _WITHIN_S)
    before: Mapping[TopicPartition, int] | None = None

    def look() -> Answer:
        nonlocal before
        with Cluster(settings) as cluster:
            members = cluster.group_members(group)
            now = {p: at.offset for p, at in cluster.group_offsets(group).items()}
        before = now if before is None else before
        if members:
            return Answer(True, f"{group} has {len(members)} members on {settings.alias}")
        moved = [p for p, offset in now.items() if offset > before.get(p, offset)]
        if moved:
            return Answer(True, f"{group} moved on in {len(moved)} of {len(now)} partitions on {settings.alias}")
        stands = f"its {len(now)} positions stand still" if now else "it has no positions"
        return Answer(False, f"{group} has no members on {settings.alias}, and {stands}")

    return lambda abort: _within(within_s, abort, look)


def _mirror_lag(workplace: DrillContext, call: Call) -> Probe:
    arguments.only(call, ("at_most", "within_seconds"))
    most, within_s = arguments.whole(call, "at_most", None), arguments.number(call, "within_seconds", _WITHIN_S)

    def look() -> Answer:
        settings = workplace.mirror_settings()
        flow = settings.flow(workplace.flow.source, workplace.flow.target)
        survey = asyncio.run(Surveyor(settings, flow).survey())
        silent = survey.source_error or survey.target_error
        if silent:
            return Answer(None, silent)
        if not survey.partitions:
            return Answer(None, f"nothing is mirrored by {flow.flow} yet")
        unknown = [f"{p.topic}-{p.partition}" for p in survey.partitions if not p.known]
        if unknown:
            return Answer(None, f"where {unknown[0]} ends is not known")
        lag = sum(p.lag for p in survey.partitions)
        return Answer(
            lag <= most, f"{lag} records of {len(survey.partitions)} partitions are not mirrored, {most} may be"
        )

    return lambda abort: _within(within_s, abort, look)


def _readiness(workplace: DrillContext, call: Call) -> Probe:
    arguments.only(call, ("at_least",))
    least = arguments.whole(call, "at_least", MINIMUM)

    def probe(_: Abort) -> Answer:
        (found,) = doctor(workplace.mirror_settings(), flow=workplace.flow, runs=workplace.run_dir.parent)
        critical = ", ".join(dict.fromkeys(finding.check for finding in found.critical))
        told = f", critical: {critical}" if critical else ""
        return Answer(found.ready(least), f"{found.flow} scores {found.score} of 100, {least} asked{told}")

    return probe


def _within(seconds: float, abort: Abort, look: Callable[[], Answer]) -> Answer:
    """The first answer that is a yes, or the last one when time is up."""
    end = time.monotonic() + seconds
    while True:
        answer = look()
        if answer.holds or time.monotonic() >= end:
            return answer
        abort.wait(_LOOK_S)
