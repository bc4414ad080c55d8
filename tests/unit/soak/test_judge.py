"""The judge of the soak finds what is planted, and nothing where nothing is."""

from __future__ import annotations

import pytest
from soak.__main__ import known_seeds
from soak.judge import (
    Finding,
    Log,
    acknowledged_stand,
    compare,
    incarnations_stand,
    map_is_exact,
    newest_stand,
    prefix_stands,
)
from soak.plan import dice_of, plan
from soak.traffic import Traffic

ROWS = [(at + at // 4, 100 + at, 7000 + at) for at in range(12)]  # a marker after every fourth record
Rows = list[tuple[int, int, int]]


def found(rows: Rows, **options: object) -> list[str]:
    return [f.what for f in compare("t-0", "on the source", Log(ROWS), "in the mirror", Log(rows), **options)]  # type: ignore[arg-type]


def moved(rows: Rows, by: int) -> Rows:
    return [(o + by, n, d) for o, n, d in rows]


def test_judge_same_records_at_any_offset_are_no_finding() -> None:
    assert found(moved(ROWS, 3)) == []


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        (ROWS[:5] + ROWS[6:], "1 records on the source are not in the mirror"),
        (ROWS[:-1], "1 records on the source are not in the mirror"),
        ([], "12 records on the source are not in the mirror"),
        ([*ROWS, (99, 103, 7003)], "1 records are more than once in the mirror, 0 reported"),
        ([*ROWS, (99, 55, 1)], "1 records in the mirror were never on the source"),
        ([*ROWS[:3], (3, 103, 1), *ROWS[4:]], "1 records in the mirror are not as they were"),
        ([*ROWS[:3], ROWS[4], ROWS[3], *ROWS[5:]], "1 records in the mirror come after later ones"),
    ],
)
def test_judge_finds_each_planted_fault(planted: Rows, expected: str) -> None:
    assert expected in found(planted)


def test_judge_excuses_only_journaled_losses() -> None:
    lost = ROWS[:2] + ROWS[4:]
    assert found(lost, may_miss=lambda offset: offset in (2, 3)) == []
    assert found(lost, may_miss=lambda offset: offset == 2) != []
    twice = [*ROWS[:6], *moved(ROWS[4:], 10)]
    assert found(twice, may_double=2) == []
    assert found(twice, may_double=1) == ["2 records are more than once in the mirror, 1 reported"]
    assert found([*ROWS, (99, 55, 1)], in_doubt=frozenset({55})) == []


def test_judge_acknowledged_record_is_at_its_offset() -> None:
    assert acknowledged_stand("t-0", Log(ROWS), Log(ROWS)) == []
    (finding,) = acknowledged_stand("t-0", Log(ROWS), Log(moved(ROWS, 20)))
    assert finding.what == "12 records are not at the offset that the producer got"
    assert acknowledged_stand("t-0", Log(ROWS), Log(ROWS[1:]))


def test_judge_producer_duplicates_appear_equally_on_both_sides() -> None:
    source = [*ROWS[:3], (50, 101, 7001), (51, 102, 7002), *moved(ROWS[3:], 60)]
    assert compare("t-0", "on the source", Log(source), "in the mirror", Log(moved(source, 5))) == []
    assert acknowledged_stand("t-0", Log(ROWS[:3]), Log(source[:5]), may_double=5) == []
    assert acknowledged_stand("t-0", Log(ROWS[:3]), Log(source[:5]))
    (again,) = compare("t-0", "on the source", Log(source), "in the mirror", Log([*source, (99, 111, 7011)]))
    assert again.what == "1 records are more than once in the mirror, 0 reported"
    (fewer,) = compare("t-0", "on the source", Log(source), "in the mirror", Log(ROWS))
    assert fewer.what == "2 records on the source are not in the mirror as often"


def test_judge_recreated_topic_last_incarnation_is_complete() -> None:
    one, two = Log(ROWS[:6]), Log(ROWS[6:])

    def judged(there: Rows, reported: int = 1) -> list[Finding]:
        return incarnations_stand("t-0", [one, two], Log(there), reported)

    assert judged(ROWS, reported=0) == []
    assert judged(ROWS[:4] + ROWS[6:]) == []
    assert judged(ROWS[6:]) == []
    assert judged(ROWS[:4] + ROWS[6:], reported=0), "a silent loss"
    assert judged(ROWS[:3] + ROWS[4:]), "a gap within an incarnation"
    assert judged(ROWS[:-1])
    assert judged(ROWS[6:] + ROWS[:6])


def test_judge_compacted_topic_has_the_newest_of_each_key() -> None:
    keys = {number: b"%d" % (number % 3) for _, number, _ in ROWS}
    acked, cleaned = Log(ROWS), Log(ROWS[:1] + ROWS[7:])
    assert newest_stand("t-0", acked, keys, cleaned, Log(ROWS[4:])) == []
    assert newest_stand("t-0", acked, keys, cleaned, Log(ROWS[:11]))
    assert newest_stand("t-0", acked, keys, Log(ROWS[:9]), acked)
    assert newest_stand("t-0", acked, keys, cleaned, Log([*ROWS, (99, 109, 7009)]))


def test_judge_finds_wrong_or_incomplete_map() -> None:
    here, there = Log(ROWS), Log((3 + at, n, d) for at, (_, n, d) in enumerate(ROWS))
    segments = [(0, 3, 4), (5, 7, 4), (10, 11, 4)]
    assert map_is_exact("t-0", segments, here, there) == []
    assert map_is_exact("t-0", segments[:2], here, there)
    assert map_is_exact("t-0", [*segments[:2], (10, 12, 4)], here, there)


def test_plan_is_determined_by_its_seed() -> None:
    inside, outside, alone = ("a", "b"), ("c", "d", "e"), ("f",)

    def first(seed: int, count: int) -> list[object]:
        steps = plan(seed, inside, outside, alone)
        return [next(steps) for _ in range(count)]

    assert first(7, 50) == first(7, 50)
    assert first(7, 80)[:50] == first(7, 50)
    assert first(7, 50) != first(8, 50)
    names = {name for step in first(7, 60) for name in step.faults}  # type: ignore[attr-defined]
    assert names == {*inside, *outside, *alone}
    assert dice_of(7, 3, "a").random() == dice_of(7, 3, "a").random() != dice_of(7, 4, "a").random()


class Delivered:
    """A delivery report. The client has no offset for what it takes for delivered without an answer."""

    def __init__(self, number: int, offset: int | None) -> None:
        self.value, self.key, self.partition = (lambda: b"%d x" % number), (lambda: b"1"), (lambda: 0)
        self.offset = lambda: offset


def test_traffic_delivery_without_offset_is_in_doubt() -> None:
    traffic = Traffic("127.0.0.1:1", "t", 1, 7)
    for number, offset in ((1, 0), (2, None), (3, -1001), (4, 1)):
        traffic._acknowledged(0, None, Delivered(number, offset))
    assert list(traffic.acked[0].numbers) == [1, 4]
    assert traffic.in_doubt == {2, 3}


@pytest.mark.parametrize(
    ("mirror", "source", "expected"),
    [
        (ROWS[:8], [*ROWS[:5], (9, 200, 9)], []),  # stopped at a loss of three, behind which the source went on
        (ROWS[:8], ROWS[:8], []),
        ([], ROWS, []),
        (ROWS[:3] + ROWS[4:8], ROWS[:5], ["1 records from before the loss are not in the mirror"]),
        ([*ROWS[:5], ROWS[4]], ROWS[:5], ["1 records are more than once in the mirror, 0 reported"]),
        ([*ROWS[:5], (9, 999, 9)], ROWS[:5], ["1 records in the mirror were never sent"]),
        ([*ROWS[:4], (5, 104, 9)], ROWS[:4], ["1 records in the mirror are not as they were"]),
        ([*ROWS[:2], ROWS[3], ROWS[2]], ROWS[:4], ["1 records in the mirror come after later ones"]),
    ],
)
def test_judge_mirror_of_a_source_that_lost_records_is_a_prefix(
    mirror: Rows, source: Rows, expected: list[str]
) -> None:
    sent = Log(ROWS)
    assert [f.what for f in prefix_stands("t-0", sent, frozenset(), Log(source), Log(mirror))] == expected


def test_judge_record_in_doubt_may_be_in_the_mirror() -> None:
    mirror = Log([*ROWS[:5], (9, 999, 9)])
    assert prefix_stands("t-0", Log(ROWS), frozenset({999}), Log(ROWS[:5]), mirror) == []


def test_known_seeds_are_numbers() -> None:
    assert all(seed >= 0 for seed in known_seeds())
