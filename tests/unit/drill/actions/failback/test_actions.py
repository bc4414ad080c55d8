"""Steps of the way back, as far as no cluster is needed: their arguments, and what they would change."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.client.pointer_file import write_atomic
from drlib.drill.actions.failback.actions import refuse_inexact
from drlib.drill.actions.failback.switchover import PlannedMove
from drlib.drill.plan.plan import Argument, Call, Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.run.registry import make_action
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind
from drlib.runbook.file import model
from drlib.runs.abort import Abort

FLOW = Flow("LEFT", "RIGHT")
CLUSTERS = {alias: ClusterSettings(alias, ("127.0.0.1:1",)) for alias in ("LEFT", "RIGHT")}
RUNBOOKS = ROOT / "runbooks"


def made(place: Path, name: str, **arguments: str | int | bool | tuple[str, ...]) -> Action:
    workplace = DrillContext(clusters=CLUSTERS, flow=FLOW, run_dir=place, pointer=place / "pointer.json")
    call = Call(name, tuple(Argument(key, value) for key, value in arguments.items()))
    return make_action(call, workplace, "one")


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("tail.settle", {}, "'how' is missing"),
        ("tail.settle", {"how": "drop"}, "'drop' is not one of recover, quarantine, leave"),
        ("tail.recover", {"topics": 7}, "7 is not a list of texts"),
        ("tail.recover", {"keep_order": "yes"}, "'yes' is not true or false"),
        ("proof.round_trip", {"tail": "drop"}, "'drop' is not one of"),
    ],
)
def test_action_wrong_argument_is_named(tmp_path: Path, name: str, arguments: dict[str, str | int], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(tmp_path, name, **arguments)


def position(kind: TranslationKind, unread: int = 0, expired: int = 0) -> GroupTranslation:
    at = TopicPartition("orders", 0)
    return GroupTranslation("billing", at, 7, at, Translation(5, kind, 2, expired), 0, unread=unread)


def test_position_with_a_bound_is_refused_but_where_mirror_maker_mirrors() -> None:
    bounded, behind = position(TranslationKind.BOUNDED), position(TranslationKind.BEHIND)
    refuse_inexact([position(TranslationKind.EXACT)], FLOW)
    with pytest.raises(Deviated, match="would not resume at its exact record"):
        refuse_inexact([bounded], FLOW)
    refuse_inexact([bounded], FLOW, bounded=True)
    with pytest.raises(Deviated, match="is behind"):
        refuse_inexact([bounded, behind], FLOW, bounded=True)
    with pytest.raises(Deviated, match="has not read 3 records"):
        refuse_inexact([position(TranslationKind.BOUNDED, unread=3)], FLOW, bounded=True)
    with pytest.raises(Deviated) as refused:
        refuse_inexact([position(TranslationKind.LOST, expired=2)], FLOW)
    assert refused.value.remedy.endswith(f"set it behind the records that have expired on {FLOW.target}.")


def test_switchover_changes_start_from_the_pointers_cluster(tmp_path: Path) -> None:
    step = made(tmp_path, "switchover.move")  # by default back from the drill's target to its source
    entity = "active cluster, as pointer.json says"
    assert step.observe() == (Fact(entity, None),)
    assert step.changes((Fact(entity, "RIGHT"),)) == (Change(entity, "RIGHT", "LEFT"),)
    assert step.changes((Fact(entity, "LEFT"),)) == ()
    with pytest.raises(UsageError, match="the pointer names THIRD"):
        step.changes((Fact(entity, "THIRD"),))
    there = made(tmp_path, "switchover.move", source="LEFT", target="RIGHT")
    assert there.changes((Fact(entity, "LEFT"),)) == (Change(entity, "LEFT", "RIGHT"),)


def test_switchover_undo_releases_the_hold_and_never_moves_back(tmp_path: Path) -> None:
    step, pointer = made(tmp_path, "switchover.move"), tmp_path / "pointer.json"
    with pytest.raises(UsageError, match="no pointer that applications follow"):
        step.probe(())
    write_atomic(pointer, Pointer(1, "RIGHT", "127.0.0.1:1", "LEFT.", {"LEFT.t": (5,)}))
    assert step.probe(()) is Reach.UNTOUCHED
    assert isinstance(step, PlannedMove)
    step.pointers.hold(60.0)
    assert step.probe(()) is Reach.PARTLY
    step.undo(step.changes(step.observe()))
    assert step.probe(()) is Reach.UNTOUCHED
    of_others = Pointer(4, "RIGHT", "127.0.0.1:1", "LEFT.", {"LEFT.t": (5,)}, hold=True)
    write_atomic(pointer, of_others)
    step.undo(step.changes(step.observe()))
    assert pointer_file.read(pointer) == of_others
    write_atomic(pointer, Pointer(5, "LEFT", "127.0.0.1:1", "RIGHT.", {}))
    assert step.probe(()) is Reach.DONE
    assert step.act((), Abort(tmp_path)) == {"stopped_seconds": None, "moved_before": True}
    with pytest.raises(Deviated, match="applications stay at LEFT"):
        step.undo(())


@pytest.mark.parametrize("name", ["failback-drill", "planned-switchover"])
def test_runbook_steps_have_unique_names(name: str) -> None:
    book = model.load(RUNBOOKS / f"{name}.yaml")
    assert book.drill is not None
    names = [step.name for step in book.drill.steps]
    assert "go-home" in names
    assert len(names) == len(set(names))
