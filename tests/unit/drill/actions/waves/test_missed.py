"""What a wave is missing once it has moved."""

from __future__ import annotations

import pytest

from drlib.drill.actions.groups.verify_rules import GroupVerdict, Seen
from drlib.drill.actions.waves.missed import Missed, missed
from drlib.drill.actions.waves.rules import Wave, WaveApplication

BILLING = WaveApplication("billing", ("billing-.*",), ("invoices",))
LEDGER = WaveApplication("ledger", ("ledger", "billing-.*"), idle=True)
MONEY = Wave("money", (BILLING, LEDGER))
SHOP = Wave("shop", (WaveApplication("shop", (), ("orders", "invoices")),))
REST = Wave("rest", (WaveApplication("rest", (".*",)),))


def verdict(seen: Seen, detail: str = "") -> GroupVerdict:
    return GroupVerdict(seen, detail or seen.value)


def test_wave_whose_groups_read_on_and_topics_are_written_misses_nothing() -> None:
    owners = {"billing-1": "billing", "ledger": "ledger"}
    verdicts = {group: verdict(Seen.SERVED) for group in owners}
    assert missed(MONEY, "RIGHT", owners, verdicts, owners, {"invoices": ""}) == ()


@pytest.mark.parametrize("seen", [Seen.IDLE, Seen.STOPPED, Seen.NO_MEMBERS, Seen.WAITING, Seen.MISSES, Seen.UNKNOWN])
def test_group_that_was_not_seen_to_read_on_is_missed_unless_it_is_said_to_be_idle(seen: Seen) -> None:
    owners = {"billing-1": "billing", "ledger": "ledger"}
    verdicts = {group: verdict(seen) for group in owners}
    found = missed(MONEY, "RIGHT", owners, verdicts, (), {"invoices": ""})
    assert found[0] == Missed("billing", "group billing-1 reads on on RIGHT", seen.value)
    assert [each.application for each in found[1:]] == (["ledger"] if seen.failed else [])


def test_nothing_to_look_at_is_missed() -> None:
    found = missed(MONEY, "RIGHT", {}, {}, (), {})
    assert found == (
        Missed("billing", "a group that matches billing-.* on RIGHT", "there is none"),
        Missed("billing", "a record is written to invoices on RIGHT", "it was not looked at"),
        Missed("ledger", "a group that matches ledger, billing-.* on RIGHT", "there is none"),
    )
    (group,) = missed(REST, "RIGHT", {"x": "rest"}, {}, (), {})
    assert str(group) == "rest: expected group x reads on on RIGHT; seen: it was not looked at"


def test_topic_without_a_record_is_missed_with_what_is_known_of_it() -> None:
    found = missed(SHOP, "RIGHT", {}, {}, (), {"orders": "", "invoices": "it does not exist"})
    assert found == (Missed("shop", "a record is written to invoices on RIGHT", "it does not exist"),)
