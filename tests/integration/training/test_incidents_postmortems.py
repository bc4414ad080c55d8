"""Incidents of level 6 on real clusters: each solved by the reference player, and each with a plausible wrong first move.

Long: `make test-all` runs them, and CI's `make incidents` does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fix_engine import wait_for
from fix_lab import LabFactory
from testbed_incidents import Start, incidents_in, names_no_cause, wait_for_symptoms

from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.lab.checker.history_files import read_history
from drlib.lab.lab import Lab
from drlib.lab.processes import wait_until
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.lab.java_application import CATERING
from drlib.training.incidents.lab.testbed import LOADERS, READERS, TLS
from drlib.training.incidents.reference_player import solve
from drlib.training.incidents.rules.postmortems import POSTMORTEMS
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.symptoms import Symptom

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    yield from incidents_in(tmp_path)


@pytest.mark.parametrize("seed", POSTMORTEMS)
def test_reference_player_gets_full_marks_and_nothing_public_names_the_cause(seed: int, start: Start) -> None:
    incident = start(seed=seed)
    assert [injected.cause for injected in incident.record.plan().causes] == [POSTMORTEMS[seed].name]
    wait_for_symptoms(incident, *POSTMORTEMS[seed].symptoms)
    names_no_cause(incident, None)
    testbed = incident.testbed()
    assert testbed.lab.secured, "every lab of the level has TLS, so that none names the expired certificate"
    assert CATERING in testbed.application_names()
    reveal = solve(incident)
    assert reveal.score.full, reveal
    assert reveal.measurements.lost == 0
    catering = read_history(testbed.applications.history_path(CATERING))
    assert len(catering.consumed) > 100, "the Java application has read flights"
    assert {row.group for row in catering.consumed} == {CATERING}
    assert catering.open == (), "and ended in order"
    kinds = [event.kind for event in incident.record.events()]
    assert kinds.index(EventKind.CAUSE_IN) < kinds.index(EventKind.RECOVERED) < kinds.index(EventKind.FINISHED)


def test_restart_of_the_mirror_before_retention_is_raised_is_harmful(start: Start) -> None:
    incident = start("retention-cut")
    topic = incident.record.plan().causes[0].where
    wait_for_symptoms(incident, Symptom.RECORDS_EXPIRE)
    incident.act("acknowledge")
    incident.act("restart-mirror")
    assert "retention.ms=1" in incident.act("describe-topic LEFT", topic)
    incident.diagnose("retention-cut")
    incident.act("raise-retention", topic)
    assert "retention.ms=86400000" in incident.act("describe-topic LEFT", topic)
    reveal = incident.finish(settle_s=60)
    assert (reveal.score.wrong, reveal.score.harmful) == (0, 1)
    assert reveal.score.points == 80 - (15 if reveal.measurements.lost else 0), reveal


def test_group_moved_to_the_start_costs_points_and_a_running_consumer_refuses_it(start: Start) -> None:
    incident = start("reset-to-latest")
    group = incident.record.plan().causes[0].where
    wait_for_symptoms(incident, Symptom.RECORDS_SKIPPED)
    incident.act("acknowledge")
    assert incident.act("describe-group LEFT", group).startswith("STABLE, 1 members\n")
    with pytest.raises(GroupNotEmpty):
        incident.act("group-to-start", group, READERS[group])
    incident.diagnose("reset-to-latest")
    incident.act("stop-application", group)
    incident.act("group-to-start", group, READERS[group])
    incident.act("start-application", group)
    with pytest.raises(UsageError, match="it runs"):
        incident.act("start-application", group)
    reveal = incident.finish(settle_s=60)
    assert (reveal.score.wrong, reveal.score.harmful) == (3, 0)
    assert reveal.score.points == 85, reveal


def test_consumer_stops_at_a_poison_record_again_and_the_end_of_its_topic_loses_what_follows(start: Start) -> None:
    incident = start("poison-record")
    partition = incident.record.plan().causes[0].how
    wait_for_symptoms(incident, Symptom.APPLICATION_STALLED)
    incident.act("acknowledge")
    incident.act("stop-application billing")
    incident.act("start-application billing")
    refusal = f"cannot process bookings-{partition} offset"
    wait_for("billing stopped there again", lambda: incident.act("read-log billing").count(refusal) == 2)
    offset = int(incident.act("read-log billing").rsplit(refusal, 1)[1].split(":")[0])
    assert f"bookings-{partition}: committed offset {offset:,} of" in incident.act("describe-group LEFT billing")
    incident.diagnose("poison-record")
    incident.act("stop-application billing")
    incident.act("group-to-end billing bookings")
    incident.act("start-application billing")
    reveal = incident.finish(settle_s=20)
    assert (reveal.score.wrong, reveal.score.harmful, reveal.score.recover_s) == (0, 1, None)
    assert reveal.score.points == 15 + 25 - 20, reveal


def test_half_dead_source_taken_for_a_cut_link_or_a_dead_broker_costs_points(start: Start) -> None:
    incident = start("half-dead-source")
    wait_for_symptoms(incident, Symptom.SITE_SILENT, Symptom.APPLICATION_STALLED)
    incident.act("acknowledge")
    incident.diagnose("broker-killed")
    incident.act("heal-link LEFT")
    assert "it answers a Metadata request with" in incident.act("ask-broker RIGHT")
    assert incident.act("ask-broker LEFT").splitlines() == [
        "process state T",
        "its port accepts connections",
        "it makes no TLS connection: TimeoutError",
        "it does not answer a Metadata request within 3 s",
    ]
    incident.diagnose("half-dead-source")
    incident.act("restart-broker LEFT")
    reveal = incident.finish(settle_s=60)
    assert (reveal.score.points, reveal.measurements.lost) == (90, 0), reveal


def test_restarts_before_an_expired_certificate_is_renewed_end_connections_that_work(start: Start) -> None:
    incident = start("expired-certificate")
    reader = incident.record.plan().causes[0].how
    wait_for_symptoms(incident, Symptom.SITE_SILENT, Symptom.APPLICATION_STALLED)
    incident.act("acknowledge")
    said = incident.act("ask-broker LEFT").splitlines()
    assert said[1:] == [
        "its port accepts connections",
        "its certificate is refused: certificate has expired",
        "it does not answer a Metadata request within 3 s",
    ]
    assert "its certificate is valid until" in incident.act("ask-broker RIGHT")
    works = {"flights", "bookings", "gates", *READERS} - {reader}
    assert makes_progress(incident, works), "what is connected stays connected"
    incident.act("stop-application", reader)
    incident.act("start-application", reader)
    assert makes_progress(incident, works)
    assert not makes_progress(incident, {reader})
    incident.act("restart-broker LEFT")
    assert incident.act("ask-broker LEFT").splitlines()[2] == said[2], "a restart renews nothing"
    assert not makes_progress(incident, {"flights", "bookings"})
    wait_for("a Java client ends when a handshake fails", lambda: phase_of(incident, CATERING) == "gone", 60)
    incident.diagnose("expired-certificate")
    incident.act("renew-certificate LEFT")
    assert f"{CATERING} is started" in incident.act("start-application", CATERING)
    reveal = incident.finish(settle_s=180)
    assert (reveal.score.wrong, reveal.score.harmful) == (3, 1)
    assert reveal.score.recover_s is not None
    assert reveal.measurements.lost == 0
    assert reveal.score.points <= 100 - 3 * 5 - 20, reveal


def makes_progress(incident: Incident, names: set[str]) -> bool:
    """Does every one of these applications acknowledge or process records within some seconds?"""
    applications = incident.testbed().applications
    before = {name: applications.done(name) for name in names}
    return wait_until(lambda: all(applications.done(name) > before[name] for name in names), 6)


def test_java_application_is_moved_by_a_restart_and_reads_on_where_it_was(start: Start) -> None:
    incident = start("clock-ahead")
    testbed = incident.testbed()
    with pytest.raises(UsageError, match="it works at one site only"):
        incident.act("point-application gates RIGHT")
    assert f"{CATERING} works at RIGHT" in incident.act("point-application", CATERING, "RIGHT")
    reads_at(incident, "RIGHT")
    incident.act("move-applications LEFT")
    reads_at(incident, "LEFT")
    incident.act("stop-application", CATERING)
    wait_for("it is gone", lambda: phase_of(incident, CATERING) == "", 20)
    assert f"{CATERING} is started" in incident.act("start-application", CATERING)
    wait_for("it runs", lambda: phase_of(incident, CATERING) == "running", 20)
    testbed.java.stop()
    rows = read_history(testbed.applications.history_path(CATERING)).consumed
    assert len({row.id for row in rows}) > 300
    for topic, partition in {(row.topic, row.partition) for row in rows if row.cluster == "LEFT"}:
        offsets = [row.offset for row in rows if (row.cluster, row.topic, row.partition) == ("LEFT", topic, partition)]
        assert offsets == sorted(set(offsets)), "nothing is read again by a restart in order"


def reads_at(incident: Incident, site: str) -> None:
    """Wait until the Java application processes records at `site`."""
    path = incident.testbed().applications.history_path(CATERING)
    wait_for(f"it reads at {site}", lambda: read_history(path).consumed[-1].cluster == site, 60)


def phase_of(incident: Incident, name: str) -> str:
    found = incident.status()[0].application(name)
    return "" if found is None else found.phase


def test_an_expired_certificate_is_not_injected_into_a_lab_without_tls(start: Start) -> None:
    incident = start("stopped-group-sync")
    with pytest.raises(UsageError, match="this incident cannot use the lab") as refused:
        incident.inject("expired-certificate", by="the trainer")
    assert "it needs clusters with TLS" in refused.value.why
    with pytest.raises(UsageError, match="LEFT has no certificate"):
        incident.act("renew-certificate LEFT")


def test_dead_cluster_started_before_its_applications_are_moved_back_cannot_recover(start: Start) -> None:
    incident = start("wrong-failover")
    wait_for_symptoms(incident, Symptom.SITE_SILENT, Symptom.APPLICATION_STALLED)
    incident.act("acknowledge")
    incident.act("restart-broker RIGHT")
    wait_for("RIGHT is written to", lambda: any(topic.local for topic in incident.status()[0].topics), 60)
    incident.diagnose("wrong-failover")
    incident.act("move-applications LEFT")
    wait_for("only RIGHT's records are left", lambda: only_right_has_records(incident), 60)
    reveal = incident.finish(settle_s=3)
    assert (reveal.score.wrong, reveal.score.recover_s) == (0, None)
    assert reveal.score.points == 15 + 25, reveal


def test_lab_without_tls_is_refused_for_every_cause_of_the_level(lab_factory: LabFactory, start: Start) -> None:
    lab = lab_factory()
    for seed in (16, 15):
        with pytest.raises(UsageError, match="this incident cannot use the lab") as refused:
            start(seed=seed, lab_dir=lab.root)
        assert "it needs clusters with TLS" in refused.value.why
    with Cluster(lab.clusters["LEFT"].settings()) as left:
        assert left.topics() == {}, "nothing was begun there"


def test_incident_on_a_given_lab_shows_what_expires_and_leaves_only_its_clusters(start: Start, tmp_path: Path) -> None:
    """By default brokers check retention every five minutes, and what is not seen does not recover."""
    with Lab(tmp_path / "given", security=TLS, detach=True) as lab:
        incident = start(seed=16, lab_dir=lab.root)
        reveal = solve(incident)
        assert reveal.score.full, reveal
        clusters = {"proxy", "LEFT-1", "RIGHT-1"}
        assert {process.name for process in lab.status() if process.alive} == clusters, "nothing writes any more"


def only_right_has_records(incident: Incident) -> bool:
    problems = incident.unresolved()
    return bool(problems) and all(problem.startswith("RIGHT has acknowledged") for problem in problems)


def test_restart_of_an_application_with_a_wrong_clock_costs_points(start: Start) -> None:
    incident = start("clock-ahead")
    wait_for_symptoms(incident, Symptom.APPLICATION_STALLED)
    incident.act("acknowledge")
    incident.act("stop-application gates")
    incident.act("start-application gates")
    refused = "records of gates are refused: Broker: Invalid timestamp"
    wait_for("they are refused again", lambda: incident.act("read-log gates").count(refused) == 2)
    incident.diagnose("clock-skew")
    incident.diagnose("clock-ahead")
    incident.act("set-clock gates")
    reveal = incident.finish(settle_s=60)
    assert (reveal.score.wrong, reveal.score.harmful) == (3, 0)
    assert reveal.score.points == 85, reveal


def test_restart_of_the_producer_that_failed_alone_does_not_bring_back_what_the_other_lost(start: Start) -> None:
    incident = start("producer-id-collision")
    wait_for_symptoms(incident, Symptom.APPLICATION_STALLED)
    incident.act("acknowledge")
    logs = [incident.act("read-log", name) for name in LOADERS]
    used = [set(re.findall(r"producer ID (\d+)", log)) for log in logs]
    assert used[0] == used[1]
    assert len(used[0]) == 1
    assert "continues at RIGHT" in logs[0]
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in logs[1]
    missing = incident.status()[0].missing
    assert missing in (1, 2, 3, 4, 5)
    incident.act("stop-application lounges")
    incident.act("start-application lounges")
    incident.diagnose("producer-id-collision")
    gone = (f"{missing} acknowledged vouchers are not in the log",)
    wait_for("both write, and records are missing", lambda: incident.unresolved() == gone, 40)
    reveal = incident.finish(settle_s=3)
    assert (reveal.score.points, reveal.score.recover_s) == (40, None), reveal
