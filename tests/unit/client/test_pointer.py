"""Which applications a pointer of all leaves where their own pointers say."""

from __future__ import annotations

from drlib.client.pointer import Pointer, staying
from drlib.client.pointer_topic import Published
from drlib.errors import Unreachable

ROME, HUB = Pointer(5, "rome", "r:1"), Pointer(4, "hub", "h:1", "rome.")


def at_rome(pointer: Pointer) -> bool:
    return pointer.active == "rome"


def test_application_that_stays_gets_a_version_above_the_pointer_of_all() -> None:
    assert staying([("bills", ROME), ("carts", HUB)], 3, 6, at_rome) == {"bills": Pointer(7, "rome", "r:1")}


def test_pointers_that_stay_have_versions_of_their_own() -> None:
    kept = staying([("b", ROME), ("a", ROME), ("c", ROME)], 0, 6, at_rome)
    assert [each.version for each in kept.values()] == [7, 8, 9]


def test_application_whose_own_pointer_was_replaced_follows_that_of_all() -> None:
    assert staying([("bills", ROME)], 5, 6, at_rome) == {}


def test_the_newest_copy_of_a_pointer_counts() -> None:
    assert staying([("bills", ROME), ("bills", Pointer(6, "hub", "h:1")), ("bills", ROME)], 0, 7, at_rome) == {}


def test_pointers_that_are_above_already_are_written_to_copies_that_miss_them_as_they_are() -> None:
    above = Pointer(7, "rome", "r:1")
    assert staying([("bills", ROME), ("bills", above)], 6, 6, at_rome) == {"bills": above}


def test_published_pointer_is_shown_as_a_table_in_terminals_and_notebooks() -> None:
    silent = Unreachable("paris", "it does not answer", "Start it.")
    moved = Pointer(3, "lyon", "l:9092", "paris.", {"paris.orders": (40, 41)}, hold=True)
    published = Published(moved, ("lyon",), {"paris": silent})
    text = repr(published)
    for words in (
        "Pointer 3: applications use lyon",
        "l:9092",
        "paris.orders: 40, 41",
        "not written to paris",
        "without hold",
    ):
        assert words in text
    assert "Pointer(" not in text
    shown = published._repr_mimebundle_()
    assert shown["text/plain"] == text
    assert "<table>" in str(shown["text/html"])
    plain = repr(Published(Pointer(1, "lyon", "l:9092"), ("lyon", "paris")))
    assert "lyon, paris" in plain
    for words in ("begin with", "up to", "hold", "not written"):
        assert words not in plain
