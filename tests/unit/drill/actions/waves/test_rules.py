"""What belongs to which wave, and which topics end with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.drill.actions.waves import rules
from drlib.drill.actions.waves.rules import Wave, WaveApplication, Waves

BILLING = WaveApplication("billing", ("billing-.*",), ("invoices",))
LEDGER = WaveApplication("ledger", ("ledger", "billing-.*"), idle=True)
SHOP = WaveApplication("shop", (), ("orders", "invoices"))
REST = WaveApplication("rest", (".*",))
PLAN = (Wave("money", (BILLING, LEDGER)), Wave("shop", (SHOP,)), Wave("rest", (REST,)))


def test_group_belongs_to_the_first_application_that_matches() -> None:
    first, last = Waves(PLAN, 0), Waves(PLAN, 2)
    assert first.groups_here(["billing-1", "ledger", "else"]) == {"billing-1": "billing", "ledger": "ledger"}
    assert last.groups_here(["billing-1", "ledger", "else"]) == {"else": "rest"}
    assert first.unassigned(["billing-1", "else"]) == ()
    assert Waves(PLAN[:2], 0).unassigned(["z", "billing-1", "else"]) == ("else", "z")


@pytest.mark.parametrize(
    ("at", "ended"),
    [(0, set()), (1, {"orders", "invoices"}), (2, {"orders", "invoices", "unknown"})],
)
def test_topic_ends_with_the_last_wave_that_writes_it_and_an_unknown_one_with_the_last(
    at: int, ended: set[str]
) -> None:
    assert Waves(PLAN, at).ended(["orders", "invoices", "unknown"]) == ended


def test_topic_of_applications_that_are_there_already_ends_with_the_wave_that_moves() -> None:
    first, topics = Waves(PLAN, 0), ["orders", "invoices", "unknown"]
    assert first.ended(topics, {"shop"}) == {"invoices"}  # the others may write to what no wave is said to write to
    assert first.ended(topics, {"shop", "rest"}) == set(topics)


def test_waves_say_what_has_not_moved() -> None:
    first, last = Waves(PLAN, 0), Waves(PLAN, 2)
    assert (first.label, last.label) == ("wave 1 of 3, money", "wave 3 of 3, rest")
    assert first.still_at("LEFT") == "not moved yet, at LEFT: shop (shop), rest (rest)"
    assert last.still_at("LEFT") == "it is the last wave"
    assert (first.earlier, last.earlier, first.last, last.last) == ((), PLAN[:2], False, True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"waves": ["money billing"]}, "is no wave 'NAME: APPLICATION"),
        ({"waves": ["a: x", "a: y"]}, "its name is there twice"),
        ({"waves": ["a: x", "b: x"]}, "application 'x' is in two waves"),
        ({"waves": ["a: *"]}, "application '\\*' is in two waves, or is no name"),
        ({"waves": ["a: ../x"]}, "is no name of letters"),
        ({"waves": ["a: x"], "readers": ["y=g"]}, "'y=g' is not APPLICATION=VALUE of an application in a wave"),
        ({"waves": ["a: x"], "readers": ["x="]}, "'x=' is not APPLICATION=VALUE"),
        ({"waves": ["a: x"], "writers": ["x"]}, "'x' is not APPLICATION=VALUE"),
        ({"waves": ["a: x"], "readers": ["x=g"], "idle": ["y"]}, "idle application 'y' is in no wave"),
        ({"waves": ["a: x"]}, "application 'x' has neither groups nor written topics"),
        ({"waves": ["a: x"], "readers": ["x=g"], "wave": "b"}, "there is no wave 'b'; the waves are: a"),
    ],
)
def test_arguments_that_are_no_waves_are_refused(given: dict[str, list[str]], why: str) -> None:
    wave = str(given.pop("wave", "a"))
    with pytest.raises(ValueError, match=why):
        rules.read(wave, given["waves"], given.get("readers", []), given.get("writers", []), given.get("idle", []))


NAMES = st.from_regex(rules.NAME, fullmatch=True)
TEXTS = st.lists(st.text("abc.*=:, ", min_size=1, max_size=5), max_size=3)


@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=3),
    TEXTS,
    TEXTS,
    st.booleans(),
    st.data(),
)
def test_waves_written_down_are_read_as_they_were(
    names: list[list[str]], groups: list[str], written: list[str], idle: bool, data: st.DataObject
) -> None:
    every = [name for each in names for name in each]
    if len(set(every)) < len(every) or not (groups or written):
        return
    plan = tuple(
        Wave(f"w{number}", tuple(WaveApplication(name, tuple(groups), tuple(written), idle) for name in each))
        for number, each in enumerate(names)
    )
    at = data.draw(st.integers(0, len(plan) - 1))
    texts = rules.written_down(plan)
    found = rules.read(f"w{at}", texts["waves"], texts["readers"], texts["writers"], texts["idle"])
    assert found == Waves(plan, at)


def test_waves_written_down_name_as_idle_those_that_are_said_to_be() -> None:
    assert rules.written_down(PLAN)["idle"] == ["ledger"]
