"""What of a lesson's testbed needs no broker: names of orders, and which lab a lesson needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from drlib.errors import UsageError
from drlib.lab.brokers.cluster import link_names, new_specs
from drlib.lab.lab import Lab
from drlib.model import TopicPartition
from drlib.training.academy.secured_testbed import SECURED, SecuredTestbed
from drlib.training.academy.testbed import LessonLab, LessonTestbed, order_number

PORTS = {name: 1 for alias in ("LEFT", "RIGHT") for name in link_names(alias, 1)}


def test_text_that_is_no_order_is_none() -> None:
    texts = ("order 7", "order", "7", "order -1", "orders 7", "")
    assert [order_number(text) for text in texts] == [7, -1, -1, -1, -1, -1]


def test_lab_of_its_own_is_beside_the_learners_lab(tmp_path: Path) -> None:
    assert LessonLab().folder(tmp_path / ".lab") == tmp_path / ".lab"
    assert SECURED.folder(tmp_path / ".lab") == tmp_path / ".lab-secured"
    assert SECURED.folder(Path()).parent == Path.cwd().parent
    assert SECURED.aliases == ("paris", "lyon")


def test_ended_names_brokers_proxy_and_workers_but_not_what_was_stopped_or_is_another_lessons(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    lab._adopt({alias: new_specs(alias, str(lab.root), PORTS, 1) for alias in ("LEFT", "RIGHT")})
    testbed = LessonTestbed(lab, "L0", "3fa2")
    worker = testbed.mirror().name
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    for name in ("proxy", "LEFT-1", "RIGHT-1", worker, "lesson-l0-b00c-left", "pulse"):
        lab.registry.start(name, sleeps, log=tmp_path / "log")
    try:
        assert testbed.ended(("LEFT", "RIGHT")) == {}
        pids = {one.name: one.pid for one in lab.status()}
        for name in ("LEFT-1", worker, "lesson-l0-b00c-left", "pulse"):
            lab.registry.kill(name)
        assert testbed.ended(("LEFT", "RIGHT")) == {"LEFT-1": pids["LEFT-1"], worker: pids[worker]}
        lab.registry.stop("RIGHT-1")
        lab.registry.stop(worker)
        assert testbed.ended(("LEFT", "RIGHT")) == {"LEFT-1": pids["LEFT-1"], "RIGHT-1": 0}
        assert testbed.ended(("RIGHT",)) == {"RIGHT-1": 0}
    finally:
        lab.registry.stop_all(deadline_s=5.0)


@pytest.mark.parametrize(
    ("partition", "offset", "why"),
    [
        (2, 5, "there is no partition 2: t on RIGHT has partitions 0 to 1"),
        (-1, 5, "no partition -1"),
        (0, "5", "'5' is no offset"),
        (0, None, "None is no offset"),
        (1, -1, "-1 is no offset"),
        (1, True, "True is no offset"),
    ],
)
def test_commit_of_what_is_no_position_is_refused_before_a_broker_is_asked(
    partition: int, offset: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LessonTestbed, "end_offsets", lambda *_: [9, 9])
    with pytest.raises(UsageError, match=why):
        LessonTestbed(Lab(tmp_path), "L3", "3fa2").commit("RIGHT", "g", {TopicPartition("t", partition): offset})


def test_worker_of_the_secured_lesson_is_its_own(tmp_path: Path) -> None:
    assert SecuredTestbed(Lab(tmp_path), "L7", "3fa2").workers == ("lesson-l7-3fa2-mirror",)
