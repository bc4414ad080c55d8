"""What a plan says of a worker that the same drill starts, and that is not there yet."""

import pytest

from drlib.drill.plan.plan import Argument, Call, Change
from drlib.drill.scenarios.failover.mirror import EndingAction, KillMirror, StopMirror


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (KillMirror, Change("process of worker mirror-1 (SIGKILL)", "started by an earlier step", "killed")),
        (StopMirror, Change("process of worker mirror-1 (SIGTERM)", "started by an earlier step", "stopped")),
    ],
)
def test_plan_of_a_worker_that_is_to_end_does_not_say_that_it_is_not_there(
    kind: type[EndingAction], said: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "worker", "mirror-1")  # named after the lab's mirror
    monkeypatch.setattr(kind, "reached", lambda _: False)
    step = kind.parse(Call(kind.name, (Argument("number", 1),)), kind.name)
    assert step.changes(step.observe()) == (said,)
