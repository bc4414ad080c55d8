"""Earlier pointers: what an entry says, which are refused, and which ones a cluster keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.client.history import entries
from drlib.client.history.entries import MOST, Past, apply_entry, changes, decode, encode, is_entry, replaced_by, union
from drlib.client.pointer import Pointer
from drlib.errors import UsageError

LYON = Past("*", Pointer(5, "lyon", "l:1", "paris.", {"paris.orders": (7, 9)}, by="run 7"), 1_700_000_000_000)


def past(version: int, active: str = "paris", application: str = "*", written_ms: int = 1) -> Past:
    return Past(application, Pointer(version, active, "h:1"), written_ms)


def by_key(*those: Past) -> dict[str, Past | UsageError]:
    return {each.key: each for each in those}


@pytest.mark.parametrize("one", [LYON, past(0, application="a/b"), past(3, application="orders")])
def test_entry_is_read_as_it_was_written(one: Past) -> None:
    assert is_entry(one.key.encode())
    found = decode(one.key.encode(), encode(one), "here")
    assert found == one
    assert found.pointer.by == one.pointer.by


@pytest.mark.parametrize("key", [b"*", b"orders", b"", None])
def test_key_of_an_application_is_no_entry(key: bytes | None) -> None:
    assert not is_entry(key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"*/6/*", encode(LYON)),
        (b"*/05/*", encode(LYON)),
        (b"*/5", encode(LYON)),
        (b"*/5/", encode(LYON)),
        (b"*/5/\xff", encode(LYON)),
        (b"*/5/*", encode(replace(LYON, written_ms=-1))),
        (b"*/5/*", encode(replace(LYON, written_ms=entries.LATEST_MS + 1))),
        (b"*/5/*", encode(LYON).replace(b"1700000000000", b"true")),
        (b"*/5/*", b'{"version": 5, "active": "lyon", "bootstrap": "l:1"}'),
        (b"*/5/*", b"junk"),
    ],
)
def test_what_is_not_an_entry_is_refused_and_kept_apart(key: bytes, value: bytes) -> None:
    with pytest.raises(UsageError, match=r"offset 3 is not"):
        decode(key, value, "offset 3")
    history: dict[str, Past | UsageError] = {}
    apply_entry(history, key, value, "offset 3")
    assert [type(each) for each in history.values()] == [UsageError]
    assert changes(history, past(7), {}) == {"*/7/*": encode(past(7))}
    apply_entry(history, key, None, "offset 4")
    assert history == {}


def test_large_entry_is_kept_without_the_ends_of_topics() -> None:
    large = replace(
        LYON, pointer=replace(LYON.pointer, cutover={f"paris.topic-{n}": (2**40,) * 30 for n in range(3000)})
    )
    found = decode(large.key.encode(), encode(large), "here")
    assert found.pointer == replace(large.pointer, cutover={})


def test_only_a_pointer_that_a_newer_one_replaces_and_that_is_no_hold_becomes_history() -> None:
    newer, held = Pointer(6, "paris", "p:1"), replace(LYON.pointer, hold=True)
    assert replaced_by(newer, "*", LYON.pointer, LYON.written_ms) == LYON
    for stored in (None, UsageError("not", "a", "pointer"), held, newer):
        assert replaced_by(newer, "*", stored, 5) is None
    for at_ms, kept_ms in ((-1, 0), (1 << 62, entries.LATEST_MS)):
        assert replaced_by(newer, "*", LYON.pointer, at_ms) == replace(LYON, written_ms=kept_ms)


def test_replaced_pointer_is_kept_once() -> None:
    assert changes({}, LYON, {}) == {LYON.key: encode(LYON)}
    assert changes(by_key(LYON), LYON, {}) == {}
    assert changes(by_key(LYON), None, {}) == {}


def test_cluster_that_was_away_gets_what_others_have_with_the_earliest_time() -> None:
    elsewhere = union([[past(3, written_ms=30), past(4, written_ms=40)], [past(3, written_ms=35)]])
    assert elsewhere == by_key(past(3, written_ms=30), past(4, written_ms=40))
    here = by_key(past(2), past(3, written_ms=35))
    assert changes(here, past(4, written_ms=60), elsewhere) == {"*/4/*": encode(past(4, written_ms=40))}


def test_two_pointers_of_one_version_are_both_kept_where_they_are() -> None:
    elsewhere = union([[past(4, "paris")], [past(4, "lyon")]])
    assert changes({}, past(4, "lyon"), elsewhere) == {"*/4/*": encode(past(4, "lyon"))}
    assert changes(by_key(past(4, "lyon")), None, elsewhere) == {}


def test_newest_entries_are_kept_and_older_ones_get_a_tombstone(monkeypatch: pytest.MonkeyPatch) -> None:
    here = by_key(*(past(version) for version in range(1, MOST + 1)))
    written = changes(here, past(MOST + 1), {})
    assert written == {f"*/{MOST + 1}/*": encode(past(MOST + 1)), "*/1/*": None}
    assert changes(here, None, by_key_of_past(past(0))) == {}
    monkeypatch.setattr(entries, "MOST_BYTES", 3 * len(encode(past(100))))
    assert changes(here, None, {}) == dict.fromkeys((f"*/{version}/*" for version in range(1, MOST - 2)), None)


def by_key_of_past(*those: Past) -> dict[str, Past]:
    return {each.key: each for each in those}
