"""Group events by their cause: 500 partitions that are refused for the same reason are one event with a count. Pure.

Rules: one cause is one name, one flow and one reason: the detail without the names of what it is about, and without numbers.
An event keeps the cause that it opened with, however its detail changes. Events that are open, or were open at the same time,
are one event; its detail is that of the first one, its entities are the first `NAMES`, and its count says how many there are.
At most `MOST_OPEN` open events are listed, those that stop or lose records first, and how many are left out is stated.
Not for: when an event opens and resolves (`event_log`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from drlib.mirror.status.event_kinds import kind_of
from drlib.mirror.status.event_log import Event, reason_of

NAMES: Final = 10  # of entities that an event lists
SHOWN: Final = 3  # of those, in one line of text
MOST_OPEN: Final = 100  # open events that a status lists
MOST_RESOLVED: Final = 100


def cause_of(event: Event) -> tuple[str, str, str]:
    """Name, flow and reason: what events of one cause have in common."""
    return event.name, event.flow, event.cause or reason_of(event.entity, event.detail)


def group_by_cause(events: Iterable[Event]) -> tuple[Event, ...]:
    """One event for all that have the same cause and were open at the same time; in the order in which they opened."""
    groups: list[list[Event]] = []
    newest: dict[tuple[object, ...], tuple[list[Event], int]] = {}  # the last group of each cause, and when it ended
    for event in sorted(events, key=lambda e: e.opened_ms):
        ended_ms = event.resolved_ms
        key = (*cause_of(event), ended_ms is None, ended_ms is None or event.settled)
        group, until_ms = newest.get(key, ([], -1))
        if not group or (ended_ms is not None and event.opened_ms > until_ms):
            groups.append(group := [])
        group.append(event)
        newest[key] = group, max(until_ms, ended_ms or 0)
    return tuple(map(_merged, groups))


def uncovered(found: Iterable[Event], reported: Sequence[Event]) -> list[Event]:
    """Those of `found` that `reported` does not have, nor may have among the entities that it does not list."""
    known = {(event.name, name) for event in reported for name in event.names}
    in_part = {cause_of(event) for event in reported if event.count > len(event.names)}
    return [e for e in found if (e.name, e.entity) not in known and cause_of(e) not in in_part]


def _merged(group: Sequence[Event]) -> Event:
    first = group[0]
    if len(group) == 1:
        return first
    names = dict.fromkeys(name for event in group for name in event.names)
    return replace(
        first,
        cause=cause_of(first)[2],
        resolved_ms=None if first.resolved_ms is None else max(e.resolved_ms or 0 for e in group),
        times=max(event.times for event in group),
        count=sum(event.count for event in group),
        settled=any(event.settled for event in group),
        entities=tuple(islice(names, NAMES)),
    )


def bounded(events: Sequence[Event]) -> tuple[tuple[Event, ...], int]:
    """Open events, at most `MOST_OPEN`, then the newest resolved ones; and how many open events are not listed."""
    opened = [event for event in events if event.resolved_ms is None]
    resolved = sorted((e for e in events if e.resolved_ms is not None), key=lambda e: e.resolved_ms or 0)
    listed = opened
    if len(opened) > MOST_OPEN:
        worst = sorted(opened, key=lambda e: (-kind_of(e.name).level, e.opened_ms))[:MOST_OPEN]
        listed = sorted(worst, key=lambda e: e.opened_ms)
    omitted = sum(e.count for e in opened) - sum(e.count for e in listed)
    return (*listed, *resolved[-MOST_RESOLVED:]), omitted


def subject(event: Event) -> str:
    """What the event is about, in words: one name, or the first names and how many more there are."""
    if event.count == 1:
        return event.entity
    shown = event.names[:SHOWN]
    more = event.count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
