"""A drill on a real broker whose process is killed: in a step, between two, in a rollback; another one resumes it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import testbed_drill
from fix_engine import wait_for

from drlib.drill.plan.plan import Rollback
from drlib.drill.plan.states import DrillState
from drlib.drill.run import planning
from drlib.drill.run.lease import read_record
from drlib.errors import StalePlan, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow, TopicPartition
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.journal import JOURNAL

DONE = (True, {0: 5, 1: 7}, {0: 9})
BEFORE: tuple[bool, dict[int, int], dict[int, int]] = (False, {}, {0: 3})


@dataclass
class Prepared:
    """A planned drill in a run folder, and what it finds."""

    folder: Path
    bootstrap: str
    topic: str
    old_topic: str

    def run(self, **options: object) -> int:
        return testbed_drill.in_process(self.folder, self.bootstrap, **options)  # type: ignore[arg-type]

    @property
    def now(self) -> tuple[bool, dict[int, int], dict[int, int]]:
        return testbed_drill.found(self.bootstrap, self.topic, self.old_topic)

    def events(self, event: str) -> list[object]:
        return [line.data["step"] for line in journal.read(self.folder / JOURNAL) if line.event == event]


def placed(cluster: Cluster, group: str, topic: str) -> bool:
    """Position 3 in the topic's only partition; a broker that has just started has no coordinator for a moment."""
    try:
        cluster.alter_group_offsets(group, {TopicPartition(topic, 0): CommittedOffset(3)})
    except (ClusterRefused, Unreachable):
        return False
    return True


@pytest.fixture
def prepare(right: str, fresh_topic: Callable[[str], str], tmp_path: Path) -> Callable[..., Prepared]:
    def made(**options: object) -> Prepared:
        topic, old_topic = fresh_topic("orders"), fresh_topic("old")
        with Cluster(ClusterSettings("RIGHT", (right,))) as cluster:
            cluster.create_topic(old_topic, 1, 1)
            wait_for("the group has its position", lambda: placed(cluster, f"old.{topic}", old_topic))
        folder = tmp_path / f"run-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        plan = testbed_drill.make_plan(right, testbed_drill.drill(topic, old_topic, **options))  # type: ignore[arg-type]
        planning.write(plan, folder)
        return Prepared(folder, right, topic, old_topic)

    return made


@pytest.mark.parametrize(
    "kill",
    [
        pytest.param("line:1", marks=pytest.mark.long),  # before the first step
        pytest.param("create_topic:before", marks=pytest.mark.long),
        "create_topic:after",
        "line:3",  # between two steps
        pytest.param("alter_group_offsets:before", marks=pytest.mark.long),
        pytest.param("alter_group_offsets:after", marks=pytest.mark.long),
        pytest.param("line:7", marks=pytest.mark.long),  # before the run says that it ended
    ],
)
def test_run_killed_going_forward_has_the_same_result(prepare: Callable[..., Prepared], kill: str) -> None:
    drill = prepare()
    assert drill.run(kill=kill) == -9
    assert drill.run() == 0
    assert drill.now == DONE
    assert drill.events("step-succeeded") == ["create", "place", "move"]
    assert drill.run() == 2  # it is over


@pytest.mark.parametrize(
    "kill",
    [
        pytest.param("alter_group_offsets:after", marks=pytest.mark.long),
        pytest.param("delete_group:before", marks=pytest.mark.long),
        "delete_topic:after",
    ],
)
def test_run_killed_going_back_has_the_same_result(prepare: Callable[..., Prepared], kill: str) -> None:
    drill = prepare(rollback=Rollback.NEVER)
    assert drill.run(kill="line:7") == -9  # every step is done
    assert drill.now == DONE
    assert drill.run(how="rollback", kill=kill) == -9
    assert drill.run() == 8
    assert drill.now == BEFORE
    assert drill.events("undo-succeeded") == ["move", "place", "create"]


@pytest.mark.long
def test_killed_again_and_again(prepare: Callable[..., Prepared]) -> None:
    drill = prepare()
    for kill in ("create_topic:after", "line:2", "alter_group_offsets:after", "line:2"):
        assert drill.run(kill=kill) == -9
    assert drill.run() == 0
    assert drill.now == DONE


def test_abort_rolls_everything_back(prepare: Callable[..., Prepared]) -> None:
    drill = prepare()
    assert drill.run(kill="line:5") == -9
    assert drill.now == (True, {0: 5, 1: 7}, {0: 3})
    Abort(drill.folder).request("a test")
    assert drill.run() == 8
    assert drill.now == BEFORE


@pytest.mark.long
def test_switchover_positions_changed_since_the_plan_are_refused(prepare: Callable[..., Prepared]) -> None:
    drill = prepare()
    with Cluster(ClusterSettings("RIGHT", (drill.bootstrap,))) as cluster:
        cluster.alter_group_offsets(f"old.{drill.topic}", {TopicPartition(drill.old_topic, 0): CommittedOffset(4)})
    assert drill.run() == StalePlan.exit_code
    assert drill.now == (False, {}, {0: 4})


def test_plan_on_another_cluster_is_refused(prepare: Callable[..., Prepared], left: str) -> None:
    drill = prepare()
    with Cluster(ClusterSettings("LEFT", (left,))) as cluster:
        cluster.create_topic(drill.old_topic, 1, 1)
        wait_for("the group has its position", lambda: placed(cluster, f"old.{drill.topic}", drill.old_topic))
    assert testbed_drill.in_process(drill.folder, left) == StalePlan.exit_code
    assert testbed_drill.found(left, drill.topic, drill.old_topic) == BEFORE


def test_lease_of_a_killed_process_lasts_one_session(
    prepare: Callable[..., Prepared],
) -> None:
    target = f"RIGHT{uuid.uuid4().hex[:6]}"
    drill, flow = prepare(flow=target), Flow("LEFT", target)

    def state() -> tuple[DrillState, str, bool]:
        with Cluster(ClusterSettings("RIGHT", (drill.bootstrap,))) as cluster:
            record = read_record(cluster, flow)
        return record.state, record.run, record.holder is not None

    assert drill.run(kill="alter_group_offsets:after", lease_wait_s=0.0) == -9
    assert state() == (DrillState.RUNNING, drill.folder.name, True)
    assert drill.run(lease_wait_s=0.0) == 10
    assert drill.run(lease_wait_s=30.0) == 0
    assert drill.now == DONE
    assert state() == (DrillState.FAILED_OVER, drill.folder.name, False)
