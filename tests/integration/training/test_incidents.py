"""Incidents on real clusters: each cause injected, observed, repaired and scored; players without or with wrong moves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fix_engine import wait_for
from fix_lab import LabFactory
from own_processes import processes_of
from repository_root import ROOT
from testbed_incidents import Start, incidents_in, names_no_cause, wait_for_symptoms

from drlib.errors import UsageError
from drlib.training.incidents.reference_player import solve
from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.symptoms import Symptom


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    yield from incidents_in(tmp_path)


@pytest.mark.timeout(180)
def test_incident_is_hidden_then_repaired_measured_and_revealed(start: Start, tmp_path: Path) -> None:
    incident = start("topic-recreated")
    public = (incident.folder / "journal.jsonl").read_text() + (incident.folder / "baseline.json").read_text()
    assert "topic-recreated" not in public
    assert not any(
        cause in (incident.folder / "observations.json").read_text()
        for cause in CAUSES
        if incident.record.observations()
    )
    with pytest.raises(UsageError, match="not over"):
        incident.reveal()
    wait_for("it is injected", lambda: bool(incident.record.injected_causes()))
    names_no_cause(incident, CAUSES["topic-recreated"].level)
    reveal = solve(incident)
    assert reveal.score.full, reveal
    assert (reveal.measurements.lost, reveal.measurements.read_again, reveal.measurements.doubled) == (0, 0, 0)
    kinds = [event.kind for event in incident.record.events()]
    assert kinds.index(EventKind.CAUSE_IN) < kinds.index(EventKind.RECOVERED) < kinds.index(EventKind.FINISHED)
    assert processes_of(tmp_path) == [], "its lab still runs"
    with pytest.raises(UsageError, match="is over"):
        incident.act("restart-mirror")
    assert incident.reveal() == reveal


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("cause", [c.name for c in CAUSES.values() if c.level < 6 and c.name != "topic-recreated"])
def test_reference_player_gets_full_marks_for_each_cause(cause: str, start: Start) -> None:
    incident = start(cause)
    wait_for("it is injected", lambda: bool(incident.record.injected_causes()))
    names_no_cause(incident, CAUSES[cause].level)
    reveal = solve(incident)
    assert reveal.score.full, reveal
    assert reveal.measurements.lost == 0


# Two causes at once, and how they interfere.
PAIRS = {
    (4, 4): "no site answers",
    (4, 10): "the ACL also denies the mirror to add partitions",
    (4, 22): "a topic is re-created while the mirror cannot reach its site",
    (5, 3): "partitions are added while the standby site is down",
    (5, 4): "retention deletes records while the other site is down",
    (5, 9): "the site with the full disk is not the only one that is down",
}


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("level", "seed"), PAIRS)
def test_reference_player_gets_full_marks_for_two_causes(level: int, seed: int, start: Start) -> None:
    incident = start(level=level, seed=seed)
    assert len(incident.record.plan().causes) == 2
    wait_for("both are injected", lambda: len(incident.record.injected_causes()) == 2)
    names_no_cause(incident, level)
    reveal = solve(incident)
    assert reveal.score.full, reveal
    assert reveal.measurements.lost == 0


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("level", "seed"), [(4, 4), (5, 2)])
def test_finish_without_action_on_two_causes_scores_zero(level: int, seed: int, start: Start) -> None:
    incident = start(level=level, seed=seed)
    wait_for(
        "both causes show symptoms", lambda: len(incident.record.injected_causes()) == 2 and bool(incident.status()[1])
    )
    reveal = incident.finish(settle_s=3)
    assert (reveal.score.points, reveal.score.recover_s, reveal.measurements.recovered) == (0, None, False)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_finish_with_one_of_two_causes_repaired_scores_detection_only(start: Start) -> None:
    incident = start(level=5, seed=2)
    clock, writer = incident.record.plan().causes
    wait_for_symptoms(incident, Symptom.TIMES_WRONG, Symptom.MIRROR_REPORTS)
    incident.act("acknowledge")
    incident.diagnose(clock.cause)
    incident.act(str(clock.repair[0]))
    wait_for("one problem is left", lambda: incident.unresolved() == (f"{writer.how} still writes",), 40)
    reveal = incident.finish(settle_s=3)
    assert reveal.score.points == 15 + 25 / 2, reveal


@pytest.mark.long
@pytest.mark.timeout(300)
def test_finish_without_action_scores_zero_and_leaves_a_given_lab_up(start: Start, lab_factory: LabFactory) -> None:
    lab = lab_factory()
    with pytest.raises(UsageError, match="an authorizer"):
        start("wrong-acl", lab_dir=lab.root)
    incident = start("broker-killed", lab_dir=lab.root)
    wait_for_symptoms(incident, Symptom.SITE_SILENT, Symptom.APPLICATION_STALLED)
    reveal = incident.finish(settle_s=3)
    assert reveal.score.points == 0
    assert (reveal.score.recover_s, reveal.measurements.recovered) == (None, False)
    assert {process.name for process in lab.status() if process.alive} < {"proxy", "LEFT-1", "RIGHT-1"}
    for cluster in lab.clusters.values():
        if not cluster.alive:
            cluster.restart()
    with pytest.raises(UsageError, match="has been used"):
        start("broker-killed", lab_dir=lab.root)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_wrong_and_harmful_moves_reduce_the_score(start: Start) -> None:
    incident = start("link-cut-one-way")
    link = incident.record.plan().causes[0].where
    wait_for_symptoms(incident, Symptom.MIRROR_BEHIND)
    incident.act("acknowledge")
    incident.diagnose("full-disk")
    incident.act("restart-mirror")
    assert "link" in incident.hint() or incident.record.injected_causes()
    incident.act("move-applications RIGHT")
    incident.diagnose("link-cut-one-way")
    incident.act("heal-link", link)
    reveal = incident.finish(settle_s=60)
    assert (reveal.score.wrong, reveal.score.harmful, reveal.score.hints) == (2, 1, 1)
    lost = 0 if reveal.measurements.lost else 15
    again = 0 if reveal.measurements.read_again else 10
    assert reveal.score.points == 75 + lost + again - 2 * 5 - 20 - 5, reveal


@pytest.mark.long
@pytest.mark.timeout(300)
def test_full_disk_broker_starts_only_after_space_is_freed(start: Start) -> None:
    incident = start("full-disk")
    site = incident.record.plan().causes[0].where
    wait_for_symptoms(incident, Symptom.SITE_SILENT)
    with pytest.raises(Exception, match="did not start"):
        incident.act("restart-broker", site)
    incident.act("free-disk", site)
    incident.act("restart-broker", site)
    incident.diagnose("full-disk")
    reveal = incident.finish(settle_s=60)
    assert (reveal.score.wrong, reveal.measurements.lost) == (1, 0)
    assert reveal.score.points == 95, reveal


@pytest.mark.long
@pytest.mark.timeout(300)
def test_inject_from_another_process_adds_a_scored_cause(start: Start) -> None:
    incident = start("partitions-added")
    wait_for_symptoms(incident, Symptom.PARTITIONS_DIFFER)
    command = [sys.executable, "-m", "drlib.cli", "incident", "inject", "--run", str(incident.folder)]
    refused = subprocess.run(
        [*command, "topic-recreated"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2
    assert "affects the same" in refused.stderr
    done = subprocess.run([*command, "clock-skew"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    reveal = solve(incident)
    assert [injected.cause for injected in reveal.causes] == ["partitions-added", "clock-skew"]
    assert reveal.score.full, reveal
