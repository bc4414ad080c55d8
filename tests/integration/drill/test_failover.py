"""Applications are moved between clusters that a properties file names: rehearsed, planned and put back, and in an emergency.

The clusters are a lab's, but the drills know only the file, the pointer and what workers say at their address. The tests run in
their order: the last one kills LEFT.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import testbed_moves
from fix_engine import wait_for
from repository_root import ROOT
from testbed_moves import Place, step

from drlib import open_drill, publish_pointer
from drlib.client import pointer_file
from drlib.client.pointer_topic import read_pointer
from drlib.drill.plan.plan import Mode, Rollback
from drlib.drill.run.request import Request
from drlib.drill.session.session import DrillSession
from drlib.drill.step import step_output as details
from drlib.drill.testbed.failover_testbed import GROUPS, FailoverTestbed, Traffic
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import Lab
from drlib.model import TopicPartition
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.journal import JOURNAL, Line
from drlib.runs.scorecard import Scorecard

EMERGENCY = ROOT / "runbooks" / "emergency-failover.yaml"
GROUPS_OF_LAB = "arrivals|delays"


@dataclass(frozen=True)
class Flowing:
    """A lab with its applications at LEFT, mirrored by a worker that says at its address how far it is."""

    lab: Lab
    stage: FailoverTestbed
    place: Place

    def positions(self, alias: str, group: str) -> dict[TopicPartition, int]:
        with Cluster(self.lab.clusters[alias].settings()) as cluster:
            return {tp: at.offset for tp, at in cluster.group_offsets(group).items()}

    def ends(self, alias: str, topic: str) -> dict[TopicPartition, int]:
        with Cluster(self.lab.clusters[alias].settings()) as cluster:
            return cluster.log_ends(TopicPartition(topic, number) for number in range(6))

    def follow(self) -> None:
        """What the clusters' pointer says, for applications that follow a file."""
        found = read_pointer([self.lab.clusters["RIGHT"].settings()]).pointer
        assert found is not None
        version = pointer_file.read(self.stage.pointer_path).version + 1
        pointer_file.write_atomic(self.stage.pointer_path, replace(found, version=version))


@pytest.fixture(scope="module")
def flowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flowing]:
    lab = Lab(tmp_path_factory.mktemp("moving"), detach=True)
    try:
        lab.up()
        stage = FailoverTestbed(lab, tmp_path_factory.mktemp("applications"), Traffic(400.0, 2000, 300.0))
        keys: dict[str, Any] = {
            f"{alias}.bootstrap.servers": cluster.bootstrap for alias, cluster in lab.clusters.items()
        }
        more: dict[str, Any] = {"drlib.metrics.address": "127.0.0.1:0", "drlib.session.timeout.ms": "3000"}
        file = lab.write_properties(topics="flights.*", **keys, **more)
        stage.start_applications()
        argv = [sys.executable, "-m", "drlib.cli", "mirror", str(file), "--status", str(stage.mirror_status_path)]
        lab.registry.start("mirror-1", argv, log=lab.root / "mirror-1.log", die_with_parent=False)
        wait_for("the mirror runs", stage.mirror_runs)
        wait_for("records are mirrored", lambda: stage.applications.done("flights") > 2500 and stage.mirror().lag < 400)
        wait_for("groups make progress", lambda: all(stage.applications.done(group) > 500 for group in GROUPS))
        place = Place(properties=str(file), pointer=str(stage.pointer_path))
        yield Flowing(lab, stage, place)
    finally:
        lab.down()


def lines(folder: Path, event: str) -> list[Line]:
    return [line for line in journal.read(folder / JOURNAL) if line.event == event]


def evidence_of(folder: Path, name: str) -> dict[str, object]:
    """The evidence of a step that is done."""
    return dict(next(line for line in lines(folder, "step-succeeded") if line.data["step"] == name).data)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_rehearsal_killed_reads_right_records_and_cleans_up(flowing: Flowing, tmp_path: Path) -> None:
    drill = testbed_moves.drill(
        step("translate", "groups.shadow", groups=GROUPS_OF_LAB),
        step("verify", "canary.read", records=4),
        mode=Mode.PRACTICE,
        rollback=Rollback.DEFAULT,
    )

    def shadows() -> set[str]:
        with Cluster(flowing.lab.clusters["RIGHT"].settings()) as cluster:
            return {listing.group for listing in cluster.groups() if listing.group.startswith("drill.")}

    assert testbed_moves.in_process(tmp_path, drill, flowing.place, kill=3) == -9  # the canary is next
    assert shadows() == {f"drill.{tmp_path.name}.{group}" for group in GROUPS}
    assert testbed_moves.in_process(tmp_path, drill, flowing.place) == 0
    rows = details.read_rows(tmp_path, "verify")
    assert {row["group"] for row in rows} == set(GROUPS)
    assert sum(row["compared"] == "the same" for row in rows if row["group"] == "delays") > 3
    assert not [row for row in rows if str(row["compared"]).startswith("wrong")]
    (check,) = details.read_part(tmp_path, "verify").checks
    assert check.verdict is Verdict.PASS, check
    assert shadows() == set()
    assert all(not flowing.positions("RIGHT", group) for group in GROUPS)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_switchover_loses_nothing_and_rolls_back_after_a_kill(flowing: Flowing, tmp_path: Path) -> None:
    drill = testbed_moves.drill(
        step("decide", "failover.triage", expect="serving"),
        step("fence", "source.fence", still_s=0.5),
        step("drain", "mirror.drain", expect="serving"),
        step("translate", "groups.translate", groups=GROUPS_OF_LAB, positions_from="source"),
        rollback=Rollback.ALWAYS,
    )
    before = pointer_file.read(flowing.stage.pointer_path)
    assert testbed_moves.in_process(tmp_path, drill, flowing.place, kill=4) == -9  # the fence has begun
    assert testbed_moves.in_process(tmp_path, drill, flowing.place, kill=9) == -9  # rolling back, or about to
    assert testbed_moves.in_process(tmp_path, drill, flowing.place) == 0
    assert evidence_of(tmp_path, "fence")["groups_still_in_use"] == ""
    assert evidence_of(tmp_path, "drain")["rpo_records"] == 0
    assert evidence_of(tmp_path, "drain")["rpo_at_least"] is False
    rows = details.read_rows(tmp_path, "translate")
    assert {row["group"] for row in rows} == set(GROUPS)
    assert {row["meaning"] for row in rows} == {"exact"}
    undone = [line.data["step"] for line in lines(tmp_path, "undo-succeeded")]
    assert undone == ["translate", "drain", "fence", "decide"]
    after = pointer_file.read(flowing.stage.pointer_path)
    assert (after.active, after.hold, after.version) == ("LEFT", False, before.version + 2)
    assert all(not flowing.positions("RIGHT", group) for group in GROUPS)
    seen = flowing.stage.applications.done("flights")
    wait_for("the producers go on", lambda: flowing.stage.applications.done("flights") > seen)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_emergency_failover_source_that_answers_is_refused(flowing: Flowing, tmp_path: Path) -> None:
    refused = testbed_moves.drill(step("decide", "failover.triage"), mode=Mode.EMERGENCY)
    (tmp_path / "refused").mkdir()
    assert testbed_moves.in_process(tmp_path / "refused", refused, flowing.place) == 5
    assert "LEFT answers: 1 broker" in str(lines(tmp_path / "refused", "step-failed")[0].data["error"])
    publish_pointer(flowing.place.properties, "LEFT")
    folder = tmp_path / "run"
    flowing.lab.clusters["LEFT"].kill()
    wait_for("the worker notices", lambda: bool(flowing.stage.alert()))

    folder.mkdir()
    Request(
        runbook=EMERGENCY,
        properties=Path(flowing.place.properties),
        approved=("fence",),
    ).write(folder)

    def opened() -> DrillSession:
        return open_drill(EMERGENCY, folder)

    with opened() as drill:
        drill.until("fence")
        flowing.follow()
        drill.until("translate")
    flowing.lab.clusters["LEFT"].restart()  # it returns in the middle, before any application has moved
    with opened() as drill:
        drill.until("move")
        flowing.follow()
        assert drill.finish().title == "Verdict: conditions"  # what LEFT took last is counted when it is home again
    card = Scorecard.read(folder / "scorecard.json")
    assert card.rpo.at_least
    assert [c.verdict for c in card.checks if "RPO" in c.name] == [Verdict.CONDITIONS]
    (begun,) = lines(folder, "run-started")
    assert "the source of LEFT->RIGHT is gone, and the target can take over" in str(dict(begun.data))
    # What producers had on its way when LEFT died arrived as LEFT came back, and is of the tail; nothing is written there
    # since they moved.
    returned, here = flowing.ends("LEFT", "flights"), flowing.ends("RIGHT", "flights")
    wait_for("more is written", lambda: sum(flowing.ends("RIGHT", "flights").values()) > sum(here.values()) + 1000)
    assert flowing.ends("LEFT", "flights") == returned
    assert evidence_of(folder, "fence")["fenced"] is False
    assert isinstance(evidence_of(folder, "drain")["rpo_records"], int)
    assert str(evidence_of(folder, "drain")["source"]).startswith("no answer")
    assert evidence_of(folder, "translate")["groups"] == 2
    assert evidence_of(folder, "translate")["left"] == 0
    assert evidence_of(folder, "move")["source"] == "it answers"
    for alias in ("LEFT", "RIGHT"):
        pointer = read_pointer([flowing.lab.clusters[alias].settings()]).pointer
        assert pointer is not None
        assert (pointer.active, pointer.remote_prefix, pointer.hold) == ("RIGHT", "LEFT.", False)
        assert len(pointer.cutover["LEFT.flights"]) == 6
    assert Scorecard.read(folder / "scorecard.json").rto_seconds.total == evidence_of(folder, "verify")["rto_seconds"]
