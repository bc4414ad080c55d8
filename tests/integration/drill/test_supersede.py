"""A run that another one left unfinished, on a real broker: refused, superseded, stopped while it works, never resumed."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from fix_engine import wait_for
from testbed_supersede import Run, events

from drlib.drill.actions.groups.rehearsal import PREFIX
from drlib.drill.plan import lease_record
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillEvent, DrillState
from drlib.drill.session.declare_serving import declare_serving
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.model import Flow, TopicPartition

Make = Callable[..., Run]


@pytest.fixture
def make(right: str, tmp_path: Path) -> Make:
    flow = Flow("paris", f"lyon{uuid.uuid4().hex[:6]}")

    def made(name: str, **more: object) -> Run:
        return Run(tmp_path / f"{name}-{uuid.uuid4().hex[:6]}", right, **{"flow": flow, **more})  # type: ignore[arg-type]

    return made


def test_failed_rehearsal_is_refused_to_an_emergency_and_superseded_with_one_flag(
    make: Make, fresh_topic: Callable[[str], str]
) -> None:
    rehearsal = make("rehearsal", mode=Mode.PRACTICE, fails=True)
    assert rehearsal.do() == 6
    assert rehearsal.state is DrillState.TEST_INCOMPLETE
    topic, shadow = fresh_topic("orders"), f"{PREFIX}{rehearsal.name}.billing"
    with Cluster(rehearsal.target) as cluster:
        cluster.create_topic(topic, 1, 1)
        cluster.alter_group_offsets(shadow, {TopicPartition(topic, 0): CommittedOffset(0)})

    night = make("night")
    assert night.do() == 2
    assert not night.work.path.exists()
    for said in (rehearsal.name, "test-incomplete", "not undone: work", str(rehearsal.folder), "drlib run --resume"):
        assert said in night.error
    assert f"drlib run x --supersede {rehearsal.name}" in night.error

    night = make("night", supersede=rehearsal.name)
    assert night.do() == 0
    assert night.state is DrillState.FAILED_OVER
    (line,) = (
        json.loads(text) for text in (night.folder / "journal.jsonl").read_text().splitlines() if '"supersedes"' in text
    )
    assert line["data"]["detail"] == rehearsal.name
    assert line["data"]["standing"] == "work"
    assert "1 shadow groups" in line["data"]["left"]
    with Cluster(night.target) as cluster:
        assert not [listing for listing in cluster.groups() if listing.group == shadow]
    assert events(rehearsal)[-1] == f"superseded {night.name}"
    for how in ("resume", "rollback"):
        assert rehearsal.do(how) == 2
        assert f"superseded by {night.name}" in rehearsal.error
    assert rehearsal.work.path.read_text() == "half"


def test_superseded_run_whose_folder_is_elsewhere_is_refused_by_the_state_on_the_target(make: Make) -> None:
    planned = make("planned", mode=Mode.PLANNED, fails=True)
    assert planned.do() == 6
    kept = (planned.folder / "journal.jsonl").read_bytes()
    night = make("night", supersede=planned.name)
    assert night.do() == 0
    (planned.folder / "journal.jsonl").write_bytes(kept)  # as on another host, where it was not marked
    assert planned.do("rollback") == 2
    assert f"superseded by {night.name}" in planned.error
    rehearsal = make("rehearsal", mode=Mode.PRACTICE, supersede=night.name)
    assert rehearsal.do() == 2  # it has failed over: that is no unfinished run
    assert "Allowed now: reprotect, fail-over" in rehearsal.error


def test_living_run_is_stopped_before_the_emergency_acts(make: Make) -> None:
    planned = make("planned", mode=Mode.PLANNED, hangs=True)
    process = planned.start()
    plain = make("night")
    assert plain.do() == 10
    assert f"--supersede {planned.name}" in plain.error
    assert process.is_alive()
    rehearsal = make("rehearsal", mode=Mode.PRACTICE, supersede=planned.name)
    assert rehearsal.do() == 10
    assert "does not supersede it" in rehearsal.error
    assert process.is_alive()

    night = make("night", supersede=planned.name)
    began = time.monotonic()
    assert night.do() == 0, night.error
    assert time.monotonic() - began < 15
    acted = night.work.path.stat().st_mtime
    process.join(20)
    assert process.exitcode == 10
    assert "was lost" in planned.error
    assert float(planned.work.beats.read_text().split()[-1]) < acted
    assert events(planned)[-1] == f"superseded {night.name}"
    assert "undo-started work" not in events(planned)


def test_client_of_a_stopped_run_that_joins_once_more_is_removed_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It joins, is polled until it has, and then never again: librdkafka keeps such a member in the group by heartbeats."""
    planned = make("planned", mode=Mode.PLANNED, fails=True)
    assert planned.do() == 6
    monkeypatch.setattr(socket, "gethostname", lambda: "another-host")  # how its run ends is not seen from here
    settings: dict[str, str | int] = {
        "bootstrap.servers": planned.bootstrap,
        "group.id": lease_record.group(planned.flow),
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 200,
        "log_level": 0,
    }
    client, lost, joined_again, ended = Consumer(settings), threading.Event(), threading.Event(), threading.Event()

    def join_twice() -> None:
        while not joined_again.is_set() and not ended.is_set():
            client.poll(0.05)
        ended.wait(60)
        client.close()

    def assigned(*_: object) -> None:
        if lost.is_set():
            joined_again.set()

    client.subscribe([lease_record.TOPIC], on_assign=assigned, on_lost=lambda *_: lost.set())
    staying = threading.Thread(target=join_twice)
    staying.start()
    try:
        with Cluster(planned.target) as cluster:
            group = lease_record.group(planned.flow)
            wait_for("it is a member", lambda: any(m.assignment for m in cluster.group_members(group)))
        night = make("night", supersede=planned.name)
        assert night.do() == 0, night.error
        assert joined_again.is_set()
    finally:
        ended.set()
        staying.join()


def test_frozen_run_is_killed_before_the_emergency_acts(make: Make) -> None:
    planned = make("planned", mode=Mode.PLANNED, hangs=True)
    process = planned.start()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    night = make("night", supersede=planned.name)
    assert night.do() == 0
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    assert events(planned)[-1] == f"superseded {night.name}"


def test_killed_holder_in_every_activity_is_resumed_rolled_back_or_superseded(make: Make) -> None:
    """The second half of the table: reprotect and fail back; failed, killed, aborted, resumed, rolled back, superseded."""
    assert make("failover").do() == 0
    for activity, doing, left, home, done in (
        (
            DrillEvent.REPROTECT,
            DrillState.REPROTECTING,
            DrillState.REPROTECT_INCOMPLETE,
            DrillState.FAILED_OVER,
            DrillState.REPROTECTED,
        ),
        (
            DrillEvent.FAIL_BACK,
            DrillState.FAILING_BACK,
            DrillState.FAILBACK_INCOMPLETE,
            DrillState.REPROTECTED,
            DrillState.READY,
        ),
    ):
        failed = make("failed", activity=activity, mode=Mode.PLANNED, fails=True)
        assert failed.do() == 6
        assert failed.state is left
        assert failed.do("rollback") == 5
        assert failed.state is home

        killed = make("killed", activity=activity, mode=Mode.PLANNED, hangs=True)
        process = killed.start()
        process.kill()
        process.join(20)
        assert killed.state is doing
        killed.hangs, killed.wait_s = False, 20.0
        (killed.folder / "abort").write_text("a test\n")
        assert killed.do("resume") == 8, killed.error
        assert killed.state is left

        again = make("again", activity=activity, mode=Mode.PLANNED, supersede=killed.name)
        assert again.do() == 0
        assert again.state is done
        assert killed.do("resume") == 2
        assert f"superseded by {again.name}" in killed.error
    assert make("next").do() == 0  # the next failover works


def test_settled_flow_is_as_people_declare_it_and_gives_up_the_unfinished_run(make: Make) -> None:
    planned = make("planned", mode=Mode.PLANNED, fails=True)
    assert planned.do() == 6
    flow, target = planned.flow, planned.target
    with pytest.raises(UsageError, match=f"paris or {flow.target}"):
        declare_serving(target, flow, "rome")
    assert declare_serving(target, flow, flow.target).state is DrillState.FAILED_OVER
    record = planned.record
    assert (record.state, record.holder) == (DrillState.FAILED_OVER, None)
    assert planned.do("resume") == 2
    assert "superseded by settled by" in planned.error
    assert make("reprotect", mode=Mode.PLANNED, activity=DrillEvent.REPROTECT).do() == 0
    assert declare_serving(target, flow, "paris").state is DrillState.READY
    assert make("rehearsal", mode=Mode.PRACTICE).do() == 0


def test_failover_there_back_and_there_again_needs_no_flag(left: str, right: str, make: Make) -> None:
    there = make("there", source=left)
    back_flow = Flow(there.flow.target, there.flow.source)
    assert there.do() == 0
    rehearsal = make("rehearsal", mode=Mode.PRACTICE, source=left)
    assert rehearsal.do() == 2
    back = Run(there.folder.with_name(f"back-{uuid.uuid4().hex[:6]}"), left, back_flow, source=right)
    assert back.do() == 0
    rehearsal = make("rehearsal", mode=Mode.PRACTICE, source=left)
    assert rehearsal.do() == 0  # the opposite flow's record says that the source serves again
    assert rehearsal.state is DrillState.TESTED
    assert make("again", source=left).do() == 0
    again = Run(there.folder.with_name(f"back-{uuid.uuid4().hex[:6]}"), left, back_flow, source=right)
    assert again.do() == 0
