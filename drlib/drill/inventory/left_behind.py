"""Say who of an inventory is still on the cluster that its applications were moved from. Pure.

Rules:
- A group is there while it has members, and gone once it has none or does not exist. Brokers know no connection of a producer:
  it is there while its transaction is open, or its newest record is later than the move and at most `QUIET_MS` old, and gone
  else. That time is its client's clock.
- Who was not in the inventory and is active there after the move is listed, too: an application that was started again with the
  former address has another producer ID.
- What cannot be asked is not known, never gone: a cluster that is down, groups or producers without an answer, a group whose
  members are not described. That holds without an inventory, too: then it is not known who is there (`unanswered`).
- Groups that the flow's `groups` do not select were not moved, so they stay (`STAYS`) and are not left behind; they read what
  no application writes any more.
Not for: asking (`drlib.drill.readiness.observe.applications.applications`), files (`kept`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.drill.inventory.rules import (
    BROKERS,
    GROUPS,
    NOT_SELECTED,
    OPEN,
    PRODUCERS,
    Application,
    Inventory,
    Kind,
    in_order,
)
from drlib.formats import first_few

QUIET_MS: Final = 10 * 60_000
OF_PRODUCERS: Final = (Kind.TRANSACTIONAL, Kind.IDEMPOTENT)


class Stand(StrEnum):
    """Where an application is, as its former cluster shows it."""

    THERE = "still there"
    NEW = "there since the move"
    NOT_KNOWN = "not known"
    STAYS = "not moved by the flow"
    GONE = "gone"


ENDED: Final = frozenset({Stand.STAYS, Stand.GONE})


@dataclass(frozen=True, slots=True)
class Moved:
    """One application of the inventory, as it is now where it is still there. `why`: what that rests on."""

    application: Application
    stand: Stand
    why: str


def compare(kept: Sequence[Application], now: Inventory, cluster: str, moved_ms: int, now_ms: int) -> tuple[Moved, ...]:
    """Every application of `kept` on `cluster`, and those that are there and not in it.

    `moved_ms`: when the applications were moved, `now_ms`: when `now` was taken (Unix time in milliseconds).
    """
    wrote_ms = max(moved_ms, now_ms - QUIET_MS)
    was = {_key(row): row for row in kept if row.cluster == cluster}
    there = {_key(row): row for row in now.applications if row.cluster == cluster}
    found = [_stand(row, there.get(key), now, wrote_ms) for key, row in was.items()]
    fresh = [row for key, row in there.items() if key not in was]
    found += [Moved(row, Stand.NEW, why) for row in fresh if (why := _active(row, wrote_ms))]
    found += [Moved(row, Stand.NOT_KNOWN, _undescribed(row)) for row in fresh if _undescribed(row)]
    by_row = {id(each.application): each for each in found}
    order = {stand: number for number, stand in enumerate(Stand)}
    rows = [by_row[id(row)] for row in in_order([each.application for each in found])]
    return tuple(sorted(rows, key=lambda each: order[each.stand]))


def left_of(moved: Sequence[Moved]) -> tuple[Moved, ...]:
    """Those who are left behind, and those of whom that is not known."""
    return tuple(each for each in moved if each.stand not in ENDED)


def unanswered(now: Inventory, cluster: str) -> tuple[str, ...]:
    """Why applications may be on the cluster that `now` does not have; empty where it has all."""
    if (silence := now.silent.get(cluster)) is not None:
        return (f"{cluster} does not answer: {silence}",)
    return tuple(now.unknown.get(cluster, ()))


def in_words(moved: Sequence[Moved], cluster: str, unknown: Sequence[str] = ()) -> str:
    """One line: how many are where, and what is `unanswered`."""
    counts = {stand: sum(each.stand is stand for each in moved) for stand in Stand}
    said = ", ".join(f"{count} {stand.value}" for stand, count in counts.items() if count) or "no application is known"
    if left_of(moved):
        return f"left on {cluster}: {said}"
    if unknown:
        return f"not known whether an application is left on {cluster}: {said}; {first_few(unknown, 1)}"
    return f"no application is left on {cluster}: {said}"


def _key(row: Application) -> tuple[bool, str]:
    """A group's kind may change with its members; its name does not."""
    return row.kind in OF_PRODUCERS, row.name


def _stand(was: Application, row: Application | None, now: Inventory, wrote_ms: int) -> Moved:
    cluster, producer = was.cluster, was.kind in OF_PRODUCERS
    if cluster in now.silent:
        return Moved(was, Stand.NOT_KNOWN, unanswered(now, cluster)[0])
    if row is not None and (why := _active(row, wrote_ms)):
        return Moved(row, Stand.STAYS if _stays(row) else Stand.THERE, why)
    if row is not None and (why := _undescribed(row)):
        return Moved(row, Stand.NOT_KNOWN, why)
    if row is not None and not producer:  # its coordinator has answered
        return Moved(row, Stand.GONE, "it has no members")
    kinds = (BROKERS, PRODUCERS if producer else GROUPS)
    if unasked := [why for why in unanswered(now, cluster) if why.startswith(kinds)]:
        return Moved(row or was, Stand.NOT_KNOWN, unasked[0])  # a producer may write now where nothing was answered
    if row is not None:
        return Moved(row, Stand.GONE, "no new record")
    return Moved(was, Stand.GONE, "brokers no longer know it" if producer else "the group does not exist")


def _undescribed(row: Application) -> str:
    """Why the members of a group are not known; empty where they are, and of a producer."""
    return "" if row.kind in OF_PRODUCERS or row.members is not None else row.unknown or "its members are not known"


def _stays(row: Application) -> bool:
    return (row.way, row.how) == NOT_SELECTED


def _active(row: Application, wrote_ms: int) -> str:
    """Why it is in use; empty where it is not, or that is not known. `wrote_ms`: after which a producer has to have written."""
    if row.kind in OF_PRODUCERS:
        if row.state == OPEN:
            return "its transaction is open"
        return "it wrote after the move" if row.last_ms is not None and row.last_ms > wrote_ms else ""
    if not row.members:
        return ""
    return "it has 1 member" if row.members == 1 else f"it has {row.members} members"
