"""What groups read again after a move with bounds, as the step that waits for them to leave measures it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failback.groups_left import GroupsLeft
from drlib.drill.actions.groups import decided, read_again
from drlib.drill.actions.groups.read_again import Compared
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.run.registry import make_action
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import read_part
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict

AT = TopicPartition("orders", 0)
EXACT = PositionMove("billing", AT, 5, AT, 5, TranslationKind.EXACT, 0, 1)
BOUNDED = PositionMove("billing", AT, 5, AT, 3, TranslationKind.BOUNDED, 40, 1)


def step(tmp_path: Path, **arguments: float) -> GroupsLeft:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n")
    context = DrillContext(
        clusters=load_mirror_settings(path).clusters, flow=Flow("A", "B"), run_dir=tmp_path, properties=path
    )
    made = make_action(
        Call("groups.left", tuple(Argument(key, value) for key, value in arguments.items())), context, "left"
    )
    assert isinstance(made, GroupsLeft)
    return made


def test_measured_nothing_where_all_positions_are_exact(tmp_path: Path) -> None:
    assert step(tmp_path)._measured([EXACT], Abort(tmp_path)) == ((), ())  # and no cluster is asked


@pytest.mark.parametrize(
    ("found", "re_read", "verdict"),
    [
        (Compared("the same behind 6 that are read again", 6), 6, Verdict.PASS),
        (Compared("not compared: none of the source's next records"), None, Verdict.CONDITIONS),
        (Compared("wrong: 2 records that the source has before 9 are not there"), None, Verdict.FAIL),
    ],
)
def test_measured_beside_what_was_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Compared, re_read: int | None, verdict: Verdict
) -> None:
    monkeypatch.setattr(read_again, "measure", lambda *_: [None, found])
    (score,), (check,) = step(tmp_path)._measured([EXACT, BOUNDED], Abort(tmp_path))
    assert (score.group, score.re_read, score.re_read_at_most) == ("billing", re_read, 40)
    assert (check.name, check.verdict) == ("no group skips records on A", verdict)


@pytest.mark.parametrize("by_an_earlier_run", [False, True])
def test_no_group_that_was_moved_is_no_pass_and_ends_no_run(tmp_path: Path, by_an_earlier_run: bool) -> None:
    if not by_an_earlier_run:
        decided.write(tmp_path, "A", ())
    left = step(tmp_path)
    assert left.act((), Abort(tmp_path))["groups"] == 0
    (check,) = read_part(tmp_path, left.step).checks
    assert (check.verdict, check.evidence) == (Verdict.CONDITIONS, "not checked: no group was moved")


def test_cluster_that_does_not_say_who_is_there_is_unknown_and_ends_no_run(tmp_path: Path) -> None:
    decided.write(tmp_path, "A", [EXACT])
    left = step(tmp_path, within_s=0.1)
    found = left.act((), Abort(tmp_path))
    assert (found["groups"], found["still_in_use"], found["not_known"]) == (1, "", "billing")
    (check,) = read_part(tmp_path, left.step).checks
    assert check.verdict is Verdict.UNKNOWN
    assert check.evidence.startswith("not known of billing: ")
