"""Probes that must hold while a run is on: real threads and a real runner, steps that wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from drlib.drill.plan.plan import Call, Change, Drill, Expectation, Fact, Mode, Step, canonical, parse
from drlib.drill.plan.progress import Reach
from drlib.drill.run import planning
from drlib.drill.run.runner import Runner
from drlib.drill.step import stop_conditions
from drlib.drill.step.action import Answer, Changes, Evidence, Probe, reach
from drlib.errors import Aborted
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.journal import JOURNAL

LAG = Expectation("the mirror keeps up", Call("p"))
DRILL = Drill(
    name="d",
    flow=Flow("A", "B"),
    mode=Mode.PLANNED,
    steps=(Step(name="one", title="One", action=Call("write")),),
    stop_conditions=(LAG,),
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_conditions, "EVERY_S", 0.01)


class Waits:
    """Writes a file, and then waits until it is aborted, or let go."""

    def __init__(self, path: Path, asked: threading.Event | None = None) -> None:
        self.path, self.asked = path, asked

    def observe(self) -> Sequence[Fact]:
        return (Fact("file", self.path.exists()),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return (Change("file", False, True),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.path.touch()
        if self.asked is not None:
            assert self.asked.wait(60)
            return {}
        abort.wait(60)
        raise AssertionError("it was not aborted")

    def probe(self, changes: Changes) -> Reach:
        return reach(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        self.path.unlink()

    def cluster_id(self) -> str:
        return "id"


def runner(folder: Path, action: Waits, probe: Probe) -> Runner:
    folder.mkdir()
    plan = planning.make_plan(DRILL, {"one": action})
    return Runner(folder, plan, {"one": action}, {LAG.title: probe})


def in_turn(*answers: Answer | Exception, asked: threading.Event | None = None) -> Probe:
    """Gives the answers one after the other, the last one again and again."""
    left: Iterator[Answer | Exception] = iter(answers)
    last: list[Answer | Exception] = []

    def probe(abort: Abort) -> Answer:
        last[:] = [next(left, last[0] if last else Answer(True, ""))]
        if len(answers) > 1 and last[0] is answers[-1] and asked is not None:
            asked.set()
        if isinstance(last[0], Exception):
            raise last[0]
        return last[0]

    return probe


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((Answer(True, "1 behind"), Answer(False, "900 behind")), "does not hold: 900 behind"),
        ((Answer(True, ""), Answer(None, "no answer")), "could not be checked 3 times: no answer"),
        ((RuntimeError("broken"),), "could not be checked 3 times: "),
    ],
)
def test_run_whose_stop_condition_fails_is_aborted_and_rolled_back(
    tmp_path: Path, answers: tuple[Answer | Exception, ...], why: str
) -> None:
    action = Waits(tmp_path / "file")
    with pytest.raises(Aborted, match="undone"):
        runner(tmp_path / "run", action, in_turn(*answers)).run()
    assert not action.path.exists()
    asked = next(line for line in journal.read(tmp_path / "run" / JOURNAL) if line.event == "abort-requested")
    assert f"stop condition 'the mirror keeps up' {why}" in str(asked.data["detail"])


def test_run_whose_conditions_hold_or_are_unknown_for_a_moment_goes_on(tmp_path: Path) -> None:
    asked = threading.Event()
    unknown = Answer(None, "no answer")
    action = Waits(tmp_path / "file", asked)
    probe = in_turn(unknown, unknown, Answer(True, ""), unknown, unknown, Answer(True, "well"), asked=asked)
    runner(tmp_path / "run", action, probe).run()
    assert action.path.exists()
    assert not any(thread.name == "stop-conditions" for thread in threading.enumerate())


def test_question_that_waits_for_its_answer_ends_with_the_run(tmp_path: Path) -> None:
    asked = threading.Event()

    def probe(abort: Abort) -> Answer:
        asked.set()
        abort.wait(600)
        raise AssertionError("it waited to its end")

    runner(tmp_path / "run", Waits(tmp_path / "file", asked), probe).run()
    assert not any(thread.name == "stop-conditions" for thread in threading.enumerate())


def test_plan_without_conditions_is_written_as_before_there_were_any() -> None:
    def written(drill: Drill) -> str:
        return canonical(planning.make_plan(drill, {"one": Waits(Path("/none"))}))

    plain = Drill(name="d", flow=DRILL.flow, mode=DRILL.mode, steps=DRILL.steps)
    assert "stop_conditions" not in written(plain)
    assert parse(written(plain)).drill == plain
    assert parse(written(DRILL)).drill.stop_conditions == (LAG,)


def test_title_of_two_probes_is_refused() -> None:
    with pytest.raises(ValueError, match="title of two probes"):
        Drill(name="d", flow=DRILL.flow, mode=DRILL.mode, steps=DRILL.steps, hypothesis=(LAG,), stop_conditions=(LAG,))
