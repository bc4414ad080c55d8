"""Is an incident over? What still speaks against it, from looks at the clusters alone.

Rules: a literal match of each cause; an empty answer means that it is over. What could not be seen speaks against it:
nobody can say that something is over which nobody can look at. Recovery is what the clusters do, never what an
operator says or did. Not for: looking, nor for waiting until it holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from drlib.training.incidents.rules.causes import Planted
from drlib.training.incidents.rules.symptoms import (
    Look,
    behind,
    differs,
    earlier,
    grows,
    positions_stand,
    stands,
    times_off,
)


def unresolved(planted: Sequence[Planted], looks: Sequence[Look], usual: Look) -> tuple[str, ...]:
    """What still speaks against recovery from all of `planted`, in words. `looks`: oldest first; `usual`: while it
    was well."""
    now, before = looks[-1], earlier(looks)
    if before is None:
        return ("it was not looked at for long enough",)
    found = [*_ill(before, now, usual)]
    for one in planted:
        found += _own(one, looks, before, now)
    return tuple(dict.fromkeys(found))


def _ill(before: Look, now: Look, usual: Look) -> list[str]:
    """What any incident has to have back: sites, mirror, applications."""
    found = [f"{site} does not answer" for site in now.silent]
    if not now.mirror_runs:
        found.append("the mirror does not run")
    for topic in now.topics:
        if topic.lag is None:
            found.append(f"how far {topic.topic} has crossed is not known")
        elif behind(before.topic(topic.topic), topic):
            found.append(f"{topic.topic} does not cross")
    for was in usual.applications:
        found += _of_application(before, now, was.name)
    return found


def _of_application(before: Look, now: Look, name: str) -> list[str]:
    here = now.application(name)
    if here is None or here.phase == "gone":
        return [f"{name} does not run"]
    return [f"{name} stands still"] if stands(before, here) else []


def _own(planted: Planted, looks: Sequence[Look], before: Look, now: Look) -> list[str]:
    match planted.cause:
        case "topic-recreated":
            return [] if "kitchen" in now.rewound else ["group kitchen does not stand at the start of menus"]
        case "partitions-added":
            return [f"{t.topic} has another shape elsewhere" for t in now.topics if differs(t)]
        case "stopped-group-sync":
            return _synced(looks, now)
        case "foreign-writer":
            writer = now.application(planted.how)
            running = writer is not None and writer.phase != "gone"
            return [f"{planted.how} still writes"] if running else []
        case "clock-skew":
            then, topic = before.topic(planted.where), now.topic(planted.where)
            known = topic.newest_ms is not None and not times_off(then, topic, now.at_ms)
            written = topic.end is not None and then.end is not None and topic.end > then.end
            return [] if known and written else [f"new records of {planted.where} do not bear the time of now"]
        case "split-brain":
            found = ["LEFT is still written to"] if grows(before, now, "LEFT") else []
            return found + ([] if grows(before, now, "RIGHT") else ["RIGHT is not written to"])
    return []


def _synced(looks: Sequence[Look], now: Look) -> list[str]:
    if positions_stand(looks):
        return ["positions of groups stand still on RIGHT"]
    moved = [
        one.group
        for one in now.groups
        if one.right is not None and (then := looks[0].group(one.group).right) is not None and one.right > then
    ]
    return [] if moved else ["no group's position has moved on RIGHT"]
