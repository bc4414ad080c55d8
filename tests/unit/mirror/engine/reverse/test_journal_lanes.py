"""Random schedules of two flows with several lanes, partitions and workers, by drlib's own follower of the journals."""

from __future__ import annotations

import random
from collections import ChainMap
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from lanes_model import Lanes

from drlib.mirror.engine.reverse import journal as module
from drlib.mirror.engine.reverse.journal import Hold, JournalLane, JournalTopic, ReverseJournal
from drlib.mirror.engine.reverse.rules import Known

SCHEDULES = 500


def schedule(monkeypatch: pytest.MonkeyPatch, seed: int, *, damage: bool) -> list[str]:
    world = Lanes(random.Random(seed))
    monkeypatch.setattr(module, "iter_batches", iter)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: world.now))
    try:
        world.run(120, damage=damage)
    except AssertionError as error:
        return [str(error)]
    return world.findings()


@pytest.mark.parametrize("damage", [False, True], ids=["journals kept", "journals damaged"])
def test_random_schedules_of_lanes_copy_each_record_once_or_name_why_not(
    monkeypatch: pytest.MonkeyPatch, damage: bool
) -> None:
    for seed in range(SCHEDULES):
        assert not (found := schedule(monkeypatch, seed, damage=damage)), (seed, found)


hold, known_of = ReverseJournal.hold, ReverseJournal.known_of


async def judges_at_once(self: ReverseJournal, stream: Any, response: Any, journal: Any) -> Hold | None:
    """Reads to admit a partition, and not before it judges a producer that is not known."""
    before = self._read_at
    if (stream.key, stream.target_id) in self._admitted:
        self._read_at = float("inf")
    held = await hold(self, stream, response, journal)
    self._read_at = min(before, self._read_at)
    return held


def claims_of_all_lanes(self: ReverseJournal, stream: Any) -> Known:
    lanes = [lane.newest for each in self._journals for lane in each.lanes.values()]
    return replace(known_of(self, stream), newest=ChainMap(*lanes))


def remembers_by_topic(self: JournalLane, source_id: Any, partition: int) -> bool:
    return source_id in self.shared


async def forgotten(*_: object) -> bool:
    return False


FAULTS: dict[str, tuple[type, str, object]] = {
    "the first lane's journal for every partition": (JournalTopic, "number_of", lambda *_: 0),
    "a producer is judged before the journals are read to their ends": (ReverseJournal, "hold", judges_at_once),
    "claims of all lanes are one set": (ReverseJournal, "known_of", claims_of_all_lanes),
    "a partition counts as begun": (JournalLane, "writes", lambda *_: True),
    "nothing is waited for before a partition is read": (ReverseJournal, "_unready", lambda *_: None),
    "nothing is remembered for the flow back": (ReverseJournal, "is_remembered", forgotten),
    "the flow back is not waited for": (ReverseJournal, "_written_before", lambda *_: None),
    "a lane remembers a topic as a whole": (JournalLane, "remembers", remembers_by_topic),
    "one partition is remembered, and no other one": (ReverseJournal, "_parts_to_remember", lambda *_: set()),
    "what the former owner of a lane journaled is not read": (ReverseJournal, "claimed", lambda *_: None),
    "no batch is a copy": (Known, "is_copy", lambda *_: False),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_schedules_of_lanes_with_a_fault_show_it(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    where, what, instead = FAULTS[fault]
    monkeypatch.setattr(where, what, instead)
    assert any(schedule(monkeypatch, seed, damage=seed % 2 == 1) for seed in range(2 * SCHEDULES))
