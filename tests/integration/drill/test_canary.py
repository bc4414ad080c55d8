"""The canary of a rehearsal on real brokers, of a group that was ahead of the mirror: one that keeps up with its topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from fix_engine import Engine, commit, create_topic, produce

from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.run.registry import make_action
from drlib.drill.step import step_output
from drlib.drill.step.context import DrillContext
from drlib.model import Flow
from drlib.runs.abort import Abort
from drlib.runs.check import CANARY, Verdict


def act(place: DrillContext, name: str, **arguments: str | float) -> dict[str, object]:
    given = tuple(Argument(key, value) for key, value in arguments.items())
    action = make_action(Call(name, given), place, name.replace(".", "-"))
    return dict(action.act(action.changes(action.observe()), Abort(place.run_dir)))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("read", [25, 30])
def test_canary_of_a_group_ahead_of_the_mirror_waits_for_it_and_measures_what_is_read_again(
    engine: Engine, tmp_path: Path, read: int
) -> None:
    """`read`: by the group, of the 30 records of which 20 were mirrored."""
    create_topic(engine.left, engine.topics, 1)
    produce(engine.left, engine.topics, 20, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(engine.topics, 1)
    engine.stop(worker)
    produce(engine.left, engine.topics, 10, partitions=1, first=20)
    commit(engine.left, f"{engine.topics}.app", engine.topics, read)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    settings = load_mirror_settings(engine.properties)
    flow = Flow(engine.source, engine.target)
    place = DrillContext(clusters=settings.clusters, flow=flow, run_dir=run_dir, properties=engine.properties)
    act(place, "groups.shadow", groups=f"{engine.topics}.app", checkpoints_s=1.0)
    worker = engine.start()
    seen = act(place, "canary.read")
    engine.stop(worker)
    assert (seen["the_same"], seen["reads_again"], seen["reads_again_at_most"]) == (1, read - 20, read - 20)
    (check,) = step_output.read_part(run_dir, "canary-read").checks
    assert (check.name, check.verdict) == (CANARY, Verdict.PASS)
