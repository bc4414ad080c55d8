"""The causes of public postmortems: the seeds that play them, and which of them make groups read records again."""

from __future__ import annotations

from drlib.training.incidents.rules.postmortems import POSTMORTEMS


def test_postmortems_are_played_by_the_seeds_that_the_trainers_page_names() -> None:
    assert [*POSTMORTEMS] == [*range(13, 21)]


def test_postmortems_that_make_groups_read_again_do_not_charge_it() -> None:
    assert {each.name for each in POSTMORTEMS.values() if not each.spares_positions} == {
        "reset-to-latest",
        "wrong-failover",
    }
