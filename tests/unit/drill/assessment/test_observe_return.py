"""What the assessment of the way back observes where a question about the source ends with an error, without brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
from silent_clusters import silent_clusters

from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failover.triage_rules import Side
from drlib.drill.assessment import observe_return
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.states import DrillState
from drlib.drill.session import unfinished_runs
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.errors import ClusterRefused
from drlib.model import Flow

NO_READ = ClusterRefused("lyon refuses it", "no Read on paris.journal", "Grant it.", code="TOPIC_AUTHORIZATION_FAILED")


@pytest.mark.parametrize(
    ("error", "unanswered"), [(NO_READ, False), (Unreachable("lyon is not reached", "no answer", "Look."), True)]
)
def test_error_while_the_source_is_judged_is_kept_and_its_silence_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: DrlibError, unanswered: bool
) -> None:
    def failing(*_: object) -> None:
        raise error

    record = LeaseRecord(state=DrillState.FAILED_OVER, run="r1")
    monkeypatch.setattr(observe_return, "_side", lambda *_: Side("lyon", 1, 1))
    monkeypatch.setattr(observe_return, "_record", lambda *_: record)
    monkeypatch.setattr(observe_return, "observe_source", failing)
    monkeypatch.setattr(observe_return, "_workers", lambda *_: 0)
    monkeypatch.setattr(observe_return, "_pointer", lambda *_: None)
    monkeypatch.setattr(unfinished_runs, "find", lambda *_, **__: unfinished_runs.NONE)
    with silent_clusters(tmp_path / "mm2.properties", "paris", "lyon") as file:
        seen = observe_return.observe_return(load_mirror_settings(file), Flow("paris", "lyon"), tmp_path / "runs")
    assert (seen.record, seen.source_why, seen.unanswered) == (record, str(error), unanswered)
    assert (seen.tail, seen.tail_why) == (None, str(error))
