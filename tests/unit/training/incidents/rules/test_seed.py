"""Incidents drawn from seeds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from incident_seeds import seed_for
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.runbook.file.model import load
from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.postmortems import LATER, POSTMORTEMS
from drlib.training.incidents.rules.seed import LEVELS, causes_of, draw_plan


def digest(drawn: Iterable[tuple[int, int | None]]) -> str:
    plans = [draw_plan(seed, level) for seed, level in drawn]
    parts = [(p.seed, p.level, [(c.cause, c.where, c.how) for c in p.causes], p.delay_s) for p in plans]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def test_draw_plan_seed_always_gives_the_same_plan() -> None:
    """A literal copy: a change of the order of drawing, or of the table, changes every seed's incident."""
    drawn = [
        [i.level, *(f"{c.cause} {c.where} {c.how}".strip() for c in i.causes), i.delay_s]
        for i in map(draw_plan, range(4))
    ]
    assert drawn == [
        [5, "clock-skew gates 20", "open-transaction bookings", 17.7],
        [1, "link-cut-one-way RIGHT requests", 23.9],
        [5, "clock-skew gates 20", "foreign-writer flights crew-import", 17.9],
        [2, "stopped-group-sync mirror", 28.0],
    ]
    assert draw_plan(7, 3) == draw_plan(7, 3)


def test_draw_plan_incidents_of_levels_1_to_5_are_those_from_before_level_6() -> None:
    """Digests computed before there was a level 6: people who agreed on a seed play what they agreed on."""
    assert (
        digest((seed, level) for level in (1, 2, 3, 4, 5) for seed in range(300))
        == "4ac14b4447cdf1a25dc9ec02491aff18b8a71bf07bbb0822effc7f22be362cae"
    )
    assert (
        digest((seed, None) for seed in range(300) if not 13 <= seed <= 20)
        == "9f718455f215db8691e782ffbff29bec4b65ecb76e4d9591082d3e11e9009756"
    )


def test_draw_plan_seeds_of_postmortems_have_their_cause_and_other_seeds_of_level_6_any_of_them() -> None:
    for seed, cause in POSTMORTEMS.items():
        assert 13 <= seed <= 20
        for level in (None, 6):
            plan = draw_plan(seed, level)
            assert (plan.level, [injected.cause for injected in plan.causes]) == (6, [cause.name])
        assert draw_plan(seed, 2).level == 2
    drawn = {draw_plan(seed, 6).causes[0].cause for seed in range(100, 200)}
    assert drawn == {cause.name for seed, cause in POSTMORTEMS.items() if seed not in LATER}


def test_postmortems_have_the_seeds_that_the_trainers_page_names() -> None:
    """A seed is never given another cause."""
    page = (Path(__file__).parents[5] / "docs/trainer.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `([a-z-]+)` \|", page, re.MULTILINE)
    assert {int(seed): cause for seed, cause in rows} == {seed: cause.name for seed, cause in POSTMORTEMS.items()}


def test_draw_plan_causes_match_level_and_share_no_place() -> None:
    for seed in range(300):
        for level in LEVELS:
            incident = draw_plan(seed, level)
            levels = sorted(injected.definition.level for injected in incident.causes)
            assert incident.level == level
            assert 8 <= incident.delay_s <= 40
            if level in (1, 2, 3, 6):
                assert levels == [level]
                continue
            one, other = incident.causes
            assert one.places.isdisjoint(other.places), incident
            assert levels[-1] == 3 if level == 5 else levels[-1] < 3


def test_draw_plan_two_causes_are_any_that_go_together() -> None:
    pairs = {
        level: {frozenset(f"{c.cause} {c.where}" for c in draw_plan(seed, level).causes) for seed in range(400)}
        for level in (4, 5)
    }
    names = {level: {text.split()[0] for pair in pairs[level] for text in pair} for level in pairs}
    assert names[4] == {cause.name for cause in CAUSES.values() if cause.level < 3}
    assert names[5] == {cause.name for cause in CAUSES.values() if cause.level < 6} - {"split-brain"}
    assert {"full-disk RIGHT", "broker-killed LEFT"} in pairs[5]  # the other site's is free


def test_draw_plan_every_cause_is_drawn_by_some_seed() -> None:
    for name, cause in CAUSES.items():
        assert draw_plan(seed_for(name), cause.level).causes[0].cause == name


def test_draw_plan_unknown_level_or_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="level 9"):
        draw_plan(1, 9)
    with pytest.raises(UsageError, match="seed -1"):
        draw_plan(-1)


@pytest.mark.parametrize("level", LEVELS)
def test_causes_of_a_level_are_all_that_its_seeds_draw(level: int) -> None:
    drawn = {cause.cause for seed in range(400) for cause in draw_plan(seed, level).causes}
    assert causes_of(level) == drawn


def test_game_day_accepts_the_levels_that_there_are() -> None:
    assert load(ROOT / "runbooks" / "game-day.yaml").accepts["level"] == [0, *LEVELS]
