"""Who counts as left behind after a move: a table of what was, what is, and what that means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.drill.inventory.left_behind import QUIET_MS, Stand, compare, in_words, left_of, unanswered
from drlib.drill.inventory.rules import NOT_SELECTED, OPEN, Application, Inventory, Kind, Way

MOVED, NOW = 1_000_000, 1_100_000


def row(name: str, kind: Kind = Kind.GROUP, **changes: object) -> Application:
    whole = Application("paris", kind, name, "", 2, (), (), (), None, Way.EITHER, "positions are translated")
    return replace(whole, **changes)  # type: ignore[arg-type]


WRITER = row("producer ID 7", Kind.IDEMPOTENT, members=None, last_ms=MOVED - 5)


@pytest.mark.parametrize(
    ("was", "now", "stand", "why"),
    [
        (row("billing"), row("billing", members=1), Stand.THERE, "it has 1 member"),
        (row("billing"), row("billing", members=0), Stand.GONE, "it has no members"),
        (row("billing"), None, Stand.GONE, "the group does not exist"),
        (row("jobs", Kind.SHARE), row("jobs", Kind.SHARE), Stand.THERE, "it has 2 members"),
        (row("jobs", Kind.SHARE), row("jobs", Kind.SHARE, members=0), Stand.GONE, "it has no members"),
        (row("sums", Kind.STREAMS), row("sums", Kind.GROUP, members=0), Stand.GONE, "it has no members"),
        (row("x", Kind.OTHER), row("x", Kind.OTHER, members=None, unknown="why"), Stand.NOT_KNOWN, "why"),
        (WRITER, WRITER, Stand.GONE, "no new record"),
        (WRITER, replace(WRITER, last_ms=MOVED + 1), Stand.THERE, "it wrote after the move"),
        (WRITER, replace(WRITER, state=OPEN), Stand.THERE, "its transaction is open"),
        (WRITER, None, Stand.GONE, "brokers no longer know it"),
    ],
)
def test_application_is_there_gone_or_not_known(
    was: Application, now: Application | None, stand: Stand, why: str
) -> None:
    found = Inventory(() if now is None else (now,))
    (moved,) = compare([was], found, "paris", MOVED, NOW)
    assert (moved.stand, moved.why) == (stand, why)


def test_producer_that_fell_silent_after_the_move_is_gone() -> None:
    later = replace(WRITER, last_ms=MOVED + 1)
    (moved,) = compare([WRITER], Inventory((later,)), "paris", MOVED, MOVED + 2 + QUIET_MS)
    assert moved.stand is Stand.GONE


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (Inventory((), silent={"paris": "refused"}), "paris does not answer: refused"),
        (Inventory((), {"paris": ("groups: not authorized",)}), "groups: not authorized"),
        (Inventory((), {"paris": ("brokers: not all of paris's answer",)}), "brokers: not all of paris's answer"),
    ],
)
def test_group_that_cannot_be_asked_for_is_not_known_and_never_gone(now: Inventory, why: str) -> None:
    (moved,) = compare([row("billing")], now, "paris", MOVED, NOW)
    assert (moved.stand, moved.why) == (Stand.NOT_KNOWN, why)


def test_group_is_known_where_only_producers_could_not_be_asked_for() -> None:
    now = Inventory((), {"paris": ("producers of orders-0: it has no leader that answers",)})
    found = {each.application.name: each.stand for each in compare([row("a"), WRITER], now, "paris", MOVED, NOW)}
    assert found == {"a": Stand.GONE, WRITER.name: Stand.NOT_KNOWN}


LEADERLESS = ("producers of orders-1: it has no leader that answers",)


@pytest.mark.parametrize("unknown", [LEADERLESS, ("brokers: not all of paris's answer",)])
def test_producer_that_may_write_where_nothing_answers_is_not_gone(unknown: tuple[str, ...]) -> None:
    """Its record before the move is on a partition that answers; one after it may be on another one."""
    now = Inventory((WRITER, row("a", members=0)), {"paris": unknown})
    moved = compare([WRITER, row("a")], now, "paris", MOVED, NOW)
    assert [(each.stand, each.why) for each in moved] == [
        (Stand.NOT_KNOWN, unknown[0]),
        (Stand.GONE, "it has no members"),
    ]
    again = Inventory((replace(WRITER, last_ms=MOVED + 1),), {"paris": unknown})
    assert [each.stand for each in compare([WRITER], again, "paris", MOVED, NOW)] == [Stand.THERE]


def test_group_that_was_in_no_inventory_and_is_not_described_is_not_known() -> None:
    now = Inventory((row("x", members=None, unknown="not authorized"), row("y", members=None), row("z", members=0)))
    moved = compare([], now, "paris", MOVED, NOW)
    assert [(each.application.name, each.stand, each.why) for each in moved] == [
        ("x", Stand.NOT_KNOWN, "not authorized"),
        ("y", Stand.NOT_KNOWN, "its members are not known"),
    ]


@pytest.mark.parametrize(
    ("now", "lines", "words"),
    [
        (
            Inventory((), silent={"paris": "refused"}),
            ("paris does not answer: refused",),
            "not known whether an application is left on paris: no application is known; paris does not answer: refused",
        ),
        (
            Inventory((), {"paris": ("groups: refused", "producers: refused"), "lyon": ("groups: refused",)}),
            ("groups: refused", "producers: refused"),
            "not known whether an application is left on paris: no application is known; groups: refused and 1 more",
        ),
        (Inventory((), silent={"lyon": "refused"}), (), "no application is left on paris: no application is known"),
    ],
)
def test_cluster_that_has_not_said_who_is_there_is_not_known_to_be_left(
    now: Inventory, lines: tuple[str, ...], words: str
) -> None:
    assert unanswered(now, "paris") == lines
    assert in_words((), "paris", lines) == words


def test_who_began_there_after_the_move_is_left_and_who_was_not_moved_is_not() -> None:
    stays = row("audit", way=NOT_SELECTED[0], how=NOT_SELECTED[1])
    fresh = replace(WRITER, name="producer ID 9", last_ms=MOVED + 1)
    idle = row("idle", members=0)
    elsewhere = row("billing", cluster="lyon")
    now = Inventory((stays, fresh, idle, elsewhere, row("new")))
    moved = compare([stays, row("gone")], now, "paris", MOVED, NOW)
    assert [(each.application.name, each.stand) for each in moved] == [
        ("new", Stand.NEW),
        ("producer ID 9", Stand.NEW),
        ("audit", Stand.STAYS),
        ("gone", Stand.GONE),
    ]
    assert [each.application.name for each in left_of(moved)] == ["new", "producer ID 9"]
    assert in_words(moved, "paris") == "left on paris: 2 there since the move, 1 not moved by the flow, 1 gone"
    assert in_words(moved[2:], "paris") == "no application is left on paris: 1 not moved by the flow, 1 gone"
    assert in_words((), "paris") == "no application is left on paris: no application is known"
