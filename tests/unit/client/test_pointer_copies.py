"""Copies of the pointer compared: what applies, which places differ, and what a move and a repair start from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drlib.client import pointer_file
from drlib.client.history.entries import History, Past
from drlib.client.pointer import Pointer, PointerConflict, decode, encode
from drlib.client.pointer_copies import (
    Copy,
    Move,
    PointerCopies,
    pointer_by_hand,
    read_copies,
    repair,
    topics_with_ends,
)
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import Unreachable, UsageError
from drlib.model import Flow

HERE, THERE = Pointer(3, "paris", "p:1"), Pointer(4, "lyon", "l:1")


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster here answers, now or later."""
    monkeypatch.setattr("drlib.client.pointer_copies.READ_S", 0.2)


def copies(silent: tuple[str, ...] = (), **held: dict[str, Pointer]) -> PointerCopies:
    """`paris={"*": pointer}`: what each place holds."""
    places = {place: {name: Copy(p, 1000 * p.version) for name, p in each.items()} for place, each in held.items()}
    return PointerCopies(places, dict.fromkeys(silent, "refused"), (*held, *silent))


def test_copies_that_are_equal_agree() -> None:
    equal = copies(paris={"*": HERE}, lyon={"*": HERE})
    assert (equal.agree, equal.differing("*"), equal.next_version) == (True, {}, 4)
    assert equal.effective("orders") == HERE


def test_copies_without_any_pointer_do_not_agree() -> None:
    assert not copies(paris={}, lyon={}).agree


def test_copies_with_a_silent_place_do_not_agree() -> None:
    assert not copies(("lyon",), paris={"*": HERE}).agree


def test_copies_older_and_missing_are_named() -> None:
    behind = copies(paris={"*": HERE}, lyon={"*": THERE}, rome={})
    assert behind.differing("*") == {"paris": "older: version 3, the newest is 4", "rome": "missing"}
    assert (behind.effective("*"), behind.written_ms("*")) == (THERE, 4000)


def test_copies_of_one_version_that_differ_are_a_conflict_until_a_newer_one() -> None:
    two = copies(paris={"*": Pointer(4, "paris", "p:1")}, lyon={"*": THERE})
    assert set(two.differing("*")) == {"paris", "lyon"}
    with pytest.raises(PointerConflict):
        two.effective("*")
    with pytest.raises(PointerConflict):
        repair([], two, "*")
    assert two.next_version == 5


def test_moves_are_listed_newest_first_with_where_they_are_kept_and_without_holds() -> None:
    first, own = Past("*", Pointer(1, "paris", "p:1"), 10), Past("bills", Pointer(2, "lyon", "l:1"), 20)
    held = replace(THERE, version=5, hold=True)
    now = copies(paris={"*": THERE}, lyon={"*": held, "orders": HERE})
    at_paris: History = {
        first.key: replace(first, written_ms=11),
        own.key: own,
        "*/x": UsageError("here", "no", "entry"),
    }
    moved = replace(now, past={"paris": at_paris, "lyon": {first.key: first}})
    assert moved.moves("*") == [
        Move(Past("*", THERE, 4000), ("paris",)),
        Move(Past("orders", HERE, 3000), ("lyon",)),
        Move(own, ("paris",)),
        Move(first, ("paris", "lyon")),
    ]
    assert [each.was.pointer.version for each in moved.moves("orders")] == [4, 3, 1]
    assert moved.unreadable == ["here: no"]
    two = copies(paris={"*": Pointer(4, "paris", "p:1")}, lyon={"*": THERE})
    assert {each.was.pointer.active for each in two.moves("*")} == {"paris", "lyon"}


def test_copies_of_an_application_count_until_a_newer_pointer_of_all_replaces_them() -> None:
    own = copies(paris={"*": HERE, "orders": THERE}, lyon={"*": HERE})
    assert (own.effective("orders"), own.effective("bills")) == (THERE, HERE)
    assert own.differing("orders") == {"lyon": "missing"}
    all_moved = copies(paris={"*": Pointer(5, "rome", "r:1"), "orders": THERE}, lyon={"*": Pointer(5, "rome", "r:1")})
    assert all_moved.agree
    assert repair([], all_moved, "orders") is None


def test_copies_file_alone_is_read_and_repaired_from_itself(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    missing = read_copies([], path)
    assert (missing.agree, missing.topics, missing.applications) == (False, (), ())
    pointer_file.write_atomic(path, HERE)
    found = read_copies([], path, application="orders")
    assert (found.agree, found.effective("orders")) == (True, HERE)
    path.write_text("{")
    assert "not a pointer" in read_copies([], path).differing("*")[str(path)]


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = paris, lyon\nparis.bootstrap.servers = 127.0.0.1:1\nlyon.bootstrap.servers = 127.0.0.1:2\n"
        "paris->lyon.enabled = true\n"
    )
    return load_mirror_settings(path)


def test_pointer_by_hand_to_an_unknown_or_silent_cluster_is_refused(settings: MirrorSettings) -> None:
    here = copies(paris={"*": HERE})
    with pytest.raises(UsageError, match="paris, lyon"):
        pointer_by_hand(settings, here, "rome", "*")
    with pytest.raises(Unreachable, match="does not answer"):
        pointer_by_hand(settings, here, "lyon", "*")


def test_pointer_by_hand_forced_names_remote_topics_without_an_end(settings: MirrorSettings) -> None:
    """`OrderedConsumer` refuses such a pointer, and loses nothing by a guess."""
    forced = pointer_by_hand(settings, copies(paris={"*": HERE}), "lyon", "*", force_reason="power is coming back")
    assert forced == Pointer(4, "lyon", "127.0.0.1:2", "paris.")
    assert forced.by == "drlib pointer move, forced: power is coming back"


def test_pointer_by_hand_to_where_it_is_ends_a_hold_and_else_changes_nothing(settings: MirrorSettings) -> None:
    held = Pointer(3, "paris", "p:1", "lyon.", {"lyon.orders": (4,)}, hold=True, hold_limit_s=60)
    after = pointer_by_hand(settings, copies(paris={"*": held}), "paris", "*", force_reason="it is not needed here")
    assert after == Pointer(4, "paris", "p:1", "lyon.", {"lyon.orders": (4,)})
    assert pointer_by_hand(settings, copies(paris={"*": HERE}), "paris", "*", force_reason="no") is None


def test_pointer_says_who_wrote_it_and_is_the_same_without() -> None:
    by = Pointer(3, "paris", "p:1", by="run 7")
    assert decode(encode(by)).by == "run 7"
    assert by == HERE
    assert b'"by"' not in encode(HERE)


IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


@pytest.mark.parametrize(
    ("more", "ended"),
    [
        ("", ["paris.orders"]),
        (IDENTITY, None),
        (IDENTITY + "lyon->paris.enabled = true\n", ["orders", "invoices", "paris.orders"]),
        (IDENTITY + "lyon->paris.enabled = true\nlyon->paris.topics = orders\n", ["orders"]),
    ],
)
def test_moved_pointer_has_ends_of_remote_topics_and_of_those_that_both_directions_copy(
    settings: MirrorSettings, more: str, ended: list[str] | None
) -> None:
    settings.path.write_text(settings.path.read_text() + more)
    chosen = topics_with_ends(load_mirror_settings(settings.path), Flow("paris", "lyon"))
    every = ("orders", "invoices", "paris.orders", "heartbeats", "paris.heartbeats", "__consumer_offsets")
    assert (None if chosen is None else [name for name in every if chosen(name)]) == ended
