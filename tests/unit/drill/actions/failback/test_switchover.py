"""How long a planned move stops the applications: until one of them writes on the other cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from drlib.drill.actions.failback import switchover
from drlib.drill.actions.moving.growth import Growth
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.model import TopicPartition
from drlib.runs.abort import Abort

AT = TopicPartition("orders", 0)
Ends = Mapping[TopicPartition, int]


class Growing:
    """A cluster whose log ends at one offset after the other, then at the last one."""

    def __init__(self, ends: Sequence[int]) -> None:
        self._ends = list(ends)

    def log_ends(self, _: object) -> Ends:
        return {AT: self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]}


class Written:
    """Clients wrote from an offset on; None: the journal, which says what was copied, cannot be read."""

    def __init__(self, client: int | None) -> None:
        self._client = client
        self.asked: list[tuple[int, int]] = []

    def written(self, before: Ends, now: Ends) -> bool:
        self.asked.append((before[AT], now[AT]))
        if self._client is None:
            raise Unreachable("the journal cannot be read", "it has no leader", "Start its broker.")
        return now[AT] > self._client


def first(tmp_path: Path, ends: Sequence[int], written: Written) -> float | None:
    growth, target = cast(Growth, written), cast(Cluster, Growing(ends))
    return switchover._first(target, {AT: 5}, growth, time.monotonic(), Abort(tmp_path))


def test_first_record_behind_copies_and_markers_of_the_mirror_is_a_clients(tmp_path: Path) -> None:
    written = Written(client=7)
    assert first(tmp_path, [5, 6, 6, 7, 9], written) is not None
    assert written.asked == [(5, 6), (6, 7), (7, 9)]


def test_first_record_where_only_the_mirror_writes_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switchover, "_FIRST_S", 0.2)
    assert first(tmp_path, [6], Written(client=9)) is None


def test_first_record_where_it_is_not_known_who_wrote_is_none(tmp_path: Path) -> None:
    assert first(tmp_path, [6], Written(client=None)) is None
