"""When the drain ends, by what the source and the workers say: without clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sample_flow import FLOW, NOW, partition, survey, worker
from testbed_moves import Place

from drlib.drill.actions.failover import drain
from drlib.drill.actions.failover.data_loss import PartitionLoss
from drlib.drill.actions.failover.drain import DrainMirror
from drlib.drill.actions.failover.observe_flow import ObservedFlow
from drlib.errors import Unreachable
from drlib.mirror.monitor.flow_view import overview
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status.worker_status import PartitionStatus, WorkerStatus
from drlib.runs.abort import Abort

LEADERLESS = "mirrored partitions without a leader, whose ends are unknown: 1, orders-0"
IN_PART = survey(partitions=(partition(0, 90, -1), partition(1, 5, 5)), source_partly=LEADERLESS)
WHOLE = survey(partitions=(partition(0, 90, 90), partition(1, 5, 5)))


def reports(*partitions: PartitionStatus) -> WorkerStatus:
    says = worker()
    return replace(says, flows=(replace(says.flows[0], partitions=partitions),))


def seen(found: Survey, *workers: WorkerStatus) -> ObservedFlow:
    return ObservedFlow(found, overview(found, workers, NOW), None)


def drained(
    states: Sequence[ObservedFlow],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    more: str = "",
    **arguments: object,
) -> dict[str, object]:
    """The evidence of a drain that observes `states`, the last of them again and again."""
    left = list(states)
    file = folder / "mirror.properties"
    file.write_text(
        "clusters = LEFT, RIGHT, THIRD\nTHIRD.bootstrap.servers = 127.0.0.1:3\n"
        "LEFT.bootstrap.servers = 127.0.0.1:1\nRIGHT.bootstrap.servers = 127.0.0.1:2\n"
        f"{FLOW}.enabled = true\n{more}"
    )

    def losses(_: object, flow: object, state: ObservedFlow) -> tuple[PartitionLoss, ...]:
        return ()

    monkeypatch.setattr(drain, "ask_in_run", lambda *_: {"LEFT": None})
    monkeypatch.setattr(drain, "observe_flow", lambda *_: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(drain, "partition_losses", losses)
    monkeypatch.setattr(DrainMirror, "source_state", lambda _: "it answers")
    action = DrainMirror(**{"deadline_s": 2.0, "probe_s": 1.0, **arguments}).bind(  # type: ignore[arg-type]
        Place(properties=str(file)).workplace(folder), "drain"
    )
    return dict(action.act((), Abort(folder)))


def test_emergency_of_a_partition_without_leader_ends_with_an_unknown_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = drained([seen(IN_PART)], tmp_path, monkeypatch)
    assert (done["rpo_records"], done["rpo_at_least"]) == (None, True)
    assert done["not_determined"] == f"LEFT: {LEADERLESS}"


def test_emergency_of_a_partition_without_leader_whose_last_end_is_mirrored_loses_at_least_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = drained([seen(IN_PART, reports(partition(0, 90, 90), partition(1, 5, 5)))], tmp_path, monkeypatch)
    assert (done["rpo_records"], done["rpo_at_least"]) == (0, True)
    assert done["why"] == "nothing more can arrive: a worker reports it"
    assert done["not_determined"] == f"LEFT: {LEADERLESS}"


def test_emergency_waits_for_what_other_leaders_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = seen(IN_PART, reports(partition(0, 90, 90), partition(1, 5, 8)))
    there = seen(IN_PART, reports(partition(0, 90, 90), partition(1, 8, 8)))
    done = drained([behind] * 4 + [there], tmp_path, monkeypatch, probe_s=20.0, deadline_s=20.0)
    assert done["rpo_records"] == 0
    done = drained([behind], tmp_path, monkeypatch)
    assert (done["rpo_records"], done["why"]) == (3, "the rest did not arrive within 1 s")


def test_planned_drain_waits_for_a_source_that_answers_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = drained([seen(IN_PART)] * 3 + [seen(WHOLE)], tmp_path, monkeypatch, expect="serving", probe_s=20.0)
    assert (done["rpo_records"], done["rpo_at_least"], done["not_determined"]) == (0, False, "")
    with pytest.raises(Unreachable, match="LEFT does not serve") as stays:
        drained([seen(IN_PART)], tmp_path, monkeypatch, expect="serving", probe_s=0.5)
    assert stays.value.why == LEADERLESS


def test_planned_drain_of_a_source_that_does_not_answer_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = survey(partitions=(partition(0, 90, -1),), source_error="refused")
    with pytest.raises(Unreachable, match="LEFT does not serve"):
        drained([seen(lost), seen(WHOLE)], tmp_path, monkeypatch, expect="serving", probe_s=60.0)


@pytest.mark.parametrize("third", [True, False])
def test_planned_drain_waits_for_what_a_third_cluster_fills_as_far_as_it_had_come_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, third: bool
) -> None:
    """It grows on while LEFT is left."""

    def state(mirrored: int, end: int) -> ObservedFlow:
        filled = partition(
            0, mirrored, end, topic="THIRD.clicks", target_topic="LEFT.THIRD.clicks", last_stable=mirrored
        )
        return seen(survey(partitions=(filled, partition(1, 5, 5))))

    states = [state(80, 90), state(89, 99), state(90, 100)]
    more = "THIRD->LEFT.enabled = true\n" if third else ""
    if not third:  # a topic of LEFT's own
        with pytest.raises(Unreachable, match=r"THIRD.clicks-0 by 10"):
            drained(states, tmp_path, monkeypatch, expect="serving", deadline_s=0.5, more=more)
        return
    left = list(states)
    done = drained(left, tmp_path, monkeypatch, expect="serving", deadline_s=5.0, more=more)
    assert done["rpo_records"] == 0
    assert "of THIRD.clicks, which another cluster fills, those of the beginning" in str(done["why"])
    with pytest.raises(Unreachable, match=r"THIRD.clicks-0 by 10"):
        drained(states[:2], tmp_path, monkeypatch, expect="serving", deadline_s=0.5, more=more)
