"""Unfinished runs as doctor, status and the console name them: from the target's state, bounded, else from the folder."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.progress import Noted
from drlib.drill.plan.states import DrillState
from drlib.drill.run.request import ClusterTarget
from drlib.drill.session import unfinished_runs
from drlib.drill.session.unfinished_runs import find, lines
from drlib.errors import Unreachable
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow
from drlib.runs.journal import JOURNAL, DrillJournal

THERE, BACK = Flow("paris", "lyon"), Flow("lyon", "paris")
FLOWS = [(flow, ClusterSettings(flow.target, ("127.0.0.1:1",))) for flow in (THERE, BACK)]
PLACE = ClusterTarget(properties=Path("/nowhere/m.properties"))
LEFT_OVER = LeaseRecord(
    state=DrillState.TEST_INCOMPLETE,
    run="r1",
    mode=Mode.PRACTICE,
    since_ms=1_000,
    host="ops1",
    folder="/runs/my r1",
    standing=("translate",),
)


def test_unfinished_run_is_named_with_where_it_is_and_every_command(tmp_path: Path) -> None:
    def read(_: ClusterSettings, flow: Flow) -> LeaseRecord:
        return LEFT_OVER if flow == THERE else LeaseRecord(state=DrillState.FAILED_OVER, run="r0")

    found = find(FLOWS, tmp_path, PLACE, read=read)
    (run,) = found.runs
    assert found.of("paris->lyon") == run
    assert found.of("lyon->paris") is None
    assert found.moved == {"lyon->paris"}
    assert found.unknown == ()
    said = "\n".join(lines(found, 61_000))
    for words in ("r1 (practice), test-incomplete for 60 s", "/runs/my r1 on ops1", "not undone: translate"):
        assert words in said
    assert "drlib run --resume '/runs/my r1'" in said
    assert "drlib run --rollback '/runs/my r1'" in said
    assert "--supersede r1" in said


def test_unfinished_run_whose_undo_was_refused_is_named_with_a_new_run_first(tmp_path: Path) -> None:
    written = DrillJournal(tmp_path / JOURNAL)
    written.write(Noted.UNDO_FAILED, step="go-home", error="they are home")
    written.close()
    elsewhere = LEFT_OVER.model_copy(update={"folder": str(tmp_path)})  # on another host
    assert find(FLOWS[:1], tmp_path, PLACE, read=lambda *_: elsewhere).runs[0].refused == ""
    left = elsewhere.model_copy(update={"host": socket.gethostname()})
    found = find(FLOWS[:1], tmp_path, PLACE, read=lambda *_: left)
    assert found.runs[0].refused == "go-home"
    said = "\n".join(lines(found, 61_000))
    assert "--resume" not in said
    assert said.index("--supersede r1") < said.index(f"undo of go-home: drlib run --rollback {tmp_path}")


def test_target_that_hangs_or_fails_is_named_in_bounded_time(tmp_path: Path) -> None:
    def read(_: ClusterSettings, flow: Flow) -> LeaseRecord:
        if flow == BACK:
            raise Unreachable("reading", "nothing answers", "Start it.")
        time.sleep(unfinished_runs.ANSWER_S + 2)
        return LEFT_OVER

    began = time.monotonic()
    found = find(FLOWS, tmp_path, PLACE, read=read)
    assert time.monotonic() - began < unfinished_runs.ANSWER_S + 1.5
    assert found.runs == ()
    assert dict(found.unknown)["paris->lyon"] == "lyon does not answer"
    assert "nothing answers" in dict(found.unknown)["lyon->paris"]
    assert len(lines(found, 0)) == 2


def test_cluster_that_is_known_to_be_down_is_not_asked(tmp_path: Path) -> None:
    asked: list[Flow] = []

    def read(_: ClusterSettings, flow: Flow) -> LeaseRecord:
        asked.append(flow)
        return LeaseRecord()

    found = find(FLOWS, tmp_path, PLACE, down=("lyon",), read=read)
    assert asked == [BACK]
    assert [flow for flow, _ in found.unknown] == ["paris->lyon"]


def test_nothing_unfinished_says_nothing(tmp_path: Path) -> None:
    assert lines(find(FLOWS, tmp_path, PLACE, read=lambda *_: LeaseRecord()), 0) == ()
