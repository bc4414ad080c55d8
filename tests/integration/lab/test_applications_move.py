"""The applications across a move between two real clusters: a planned one, and one after SIGKILL in mid-traffic."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Producer
from fix_lab import LabFactory
from testbed_applications import Application, PlainCopy, Stage, log_ends, set_positions, stage, wait_until

from drlib.lab import clocks
from drlib.lab.apps.fleet import record_headers
from drlib.lab.apps.flights import stream
from drlib.lab.apps.process import read_status
from drlib.lab.apps.specs import ProducerMode
from drlib.lab.checker import scan
from drlib.lab.checker.history import CommitStatus, ProducedStatus
from drlib.lab.checker.lost_and_duplicated import check
from drlib.lab.checker.report import CheckInput, CheckReport
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.runs.check import Verdict

Fresh = Callable[[str], str]
PARTITIONS = 6


def translate(application: Application, group: str, topic: str, ends: tuple[int, ...]) -> dict[int, int]:
    """A plain copy keeps offsets: a position on LEFT is the same one on RIGHT, or the end of what was copied."""
    commits = application.history().committed
    last = {row.partition: row.offset for row in commits if row.topic == topic and row.status is CommitStatus.ACKED}
    return {partition: min(offset, ends[partition]) for partition, offset in last.items()}


def judge(producer: Application, groups: dict[str, Application], topic: str, right: str, allowed: int) -> CheckReport:
    history = producer.history()
    for application in groups.values():
        history += application.history()
    remote = f"LEFT.{topic}"
    found = (*scan.scan(right, remote), *scan.scan(right, topic))
    return check(
        CheckInput(
            "LEFT",
            "RIGHT",
            topic,
            remote,
            tuple(groups),
            history.produced,
            history.consumed,
            history.committed,
            found,
            history.torn,
            history.open,
            history.missing,
            allowed,
        )
    )


def failed(report: CheckReport) -> list[str]:
    return [f"{f.name}: {f.verdict} ({f.evidence})" for f in report.findings if f.verdict is not Verdict.PASS]


def move(on: Stage, right: str, topic: str, groups: dict[str, Application]) -> None:
    ends = log_ends(right, f"LEFT.{topic}", PARTITIONS)
    for group, application in groups.items():
        set_positions(right, group, f"LEFT.{topic}", translate(application, group, topic, ends))
    on.point(3, "RIGHT", right, remote_prefix="LEFT.", cutover={f"LEFT.{topic}": ends})


def acked_at_right(producer: Application, topic: str) -> int:
    rows = producer.history().produced
    return sum((r.cluster, r.topic, r.status) == ("RIGHT", topic, ProducedStatus.ACKED) for r in rows)


def read_on(producer: Application, groups: dict[str, Application], topic: str) -> None:
    """Until there is traffic at RIGHT, and both groups have read the remote topic through and local records too."""

    wait_until("records acknowledged by RIGHT", lambda: acked_at_right(producer, topic) > 1000)
    for group, application in groups.items():
        wait_until(
            f"{group} reads the local topic",
            lambda app=application: any(r.cluster == "RIGHT" and r.topic == topic for r in app.history().consumed),
            40,
        )


def read_locally(application: Application, topic: str) -> int:
    return sum((row.cluster, row.topic) == ("RIGHT", topic) for row in application.history().consumed)


def read_to_the_end(right: str, topic: str, groups: dict[str, Application]) -> None:
    local = sum(log_ends(right, topic, PARTITIONS))
    for group, application in groups.items():
        wait_until(f"{group} reads everything", lambda app=application: read_locally(app, topic) == local)


def test_applications_planned_move_loses_and_repeats_nothing(
    left: str, right: str, fresh_topic: Fresh, tmp_path: Path
) -> None:
    topic = fresh_topic("flights")
    remote = f"LEFT.{topic}"
    create_topics(left, [TopicSpec(topic, PARTITIONS)])
    create_topics(right, [TopicSpec(topic, PARTITIONS), TopicSpec(remote, PARTITIONS)])
    with stage(tmp_path) as on:
        on.point(1, "LEFT", left)
        status = tmp_path / "status"
        producer = on.producer(topic, records_per_second=800.0, backlog=2000, status=str(status))
        names = {"arrivals": fresh_topic("arrivals"), "delays": fresh_topic("delays")}
        groups = {
            names["arrivals"]: on.consumer(topic, names["arrivals"]),
            names["delays"]: on.consumer(
                topic, names["delays"], records_per_second=200.0, after_move_records_per_second=20_000.0
            ),
        }
        with PlainCopy(left, right, topic, remote, PARTITIONS):
            wait_until("traffic", lambda: len(producer.history().produced) > 4000)
            wait_until("both groups read", lambda: all(a.history().consumed for a in groups.values()))
            on.point(2, "LEFT", left, hold=True)

            def holding() -> bool:
                seen = read_status(status)
                return seen is not None and (seen.phase, seen.in_flight) == ("holding", 0)

            wait_until("the producer holds", holding)
            ends = log_ends(left, topic, PARTITIONS)
            wait_until("the copy is complete", lambda: log_ends(right, remote, PARTITIONS) == ends)
        # the groups have to leave before their positions are set, and delays still has much to read
        for application in groups.values():
            assert application.terminate()[0] == 0
        first = dict(groups)
        move(on, right, topic, groups)
        groups = {group: on.consumer(topic, group, records_per_second=0.0) for group in groups}
        read_on(producer, groups, topic)
        assert producer.terminate()[0] == 0
        read_to_the_end(right, topic, groups)
        on.terminate_all()

        history = producer.history()
        assert {row.status for row in history.produced} == {ProducedStatus.ACKED}
        for group, application in groups.items():
            history += first[group].history() + application.history()
        found = (*scan.scan(right, remote), *scan.scan(right, topic))
        report = check(
            CheckInput(
                "LEFT", "RIGHT", topic, remote, tuple(groups),
                history.produced, history.consumed, history.committed, found,
                history.torn, history.open, history.missing,
            )
        )  # fmt: skip
        assert failed(report) == []
        assert (report.rpo_records, report.rpo_seconds, report.duplicated_count) == (0, 0.0, 0)
        assert all((g.re_read, g.skipped, g.reached, g.behind) == (0, 0, True, 0) for g in report.groups)


@pytest.mark.long
def test_applications_sigkilled_cluster_settles_records_in_doubt(lab_factory: LabFactory, tmp_path: Path) -> None:
    lab = lab_factory()
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    topic, remote = "flights", "LEFT.flights"
    create_topics(left, [TopicSpec(topic, PARTITIONS), TopicSpec("flights-tx", 2)])
    create_topics(right, [TopicSpec(t, PARTITIONS) for t in (topic, remote)])
    create_topics(right, [TopicSpec(t, 2) for t in ("flights-tx", "LEFT.flights-tx")])
    with stage(tmp_path) as on:
        on.point(1, "LEFT", left)
        status = tmp_path / "status"
        producer = on.producer(topic, records_per_second=3000.0, backlog=3000, max_in_flight=2000, status=str(status))
        transactions = on.producer("flights-tx", mode=ProducerMode.FLIGHTS_TX, tx_every_s=0.05)
        groups = {
            "arrivals": on.consumer(topic, "arrivals"),
            "delays": on.consumer(topic, "delays", records_per_second=300.0, after_move_records_per_second=20_000.0),
        }
        with PlainCopy(left, right, topic, remote, PARTITIONS) as copy:
            wait_until("traffic", lambda: len(producer.history().produced) > 8000)
            wait_until("both groups read", lambda: all(a.history().consumed for a in groups.values()))
            wait_until("transactions", lambda: len(transactions.history().produced) > 30)
            wait_until("the copy runs", lambda: copy.copied > 5000)
            lab.clusters["LEFT"].kill()

            def waiting() -> bool:
                seen = read_status(status)
                return seen is not None and seen.phase == "waiting"

            wait_until("the producer waits", waiting)
            in_flight = read_status(status)
            assert in_flight is not None
            assert 0 < in_flight.in_flight <= 2000
        assert all(a.process.poll() is None for a in on.applications)
        move(on, right, topic, groups)
        read_on(producer, groups, topic)
        wait_until(
            "transactions at RIGHT",
            lambda: acked_at_right(transactions, "flights-tx") > 0,
        )
        for application in (producer, transactions):
            assert application.terminate()[0] == 0, application.log.read_text()
        read_to_the_end(right, topic, groups)
        on.terminate_all()

        report = judge(producer, groups, topic, right, allowed=100_000)
        rows = producer.history().produced
        doubts = {row.id for row in rows if row.status is ProducedStatus.IN_DOUBT}
        there = {row.id for row in rows if row.status is ProducedStatus.MIRRORED}
        again = {row.id for row in rows if row.status is ProducedStatus.ACKED and row.cluster == "RIGHT"} & doubts
        assert doubts
        assert doubts == there | again
        assert not there & again
        assert failed(report) == []
        assert report.duplicated_count == 0
        assert all((g.re_read, g.skipped, g.reached, g.behind) == (0, 0, True, 0) for g in report.groups)

        tx = transactions.history().produced
        committed_there = {r.id for r in tx if r.cluster == "RIGHT" and r.status is ProducedStatus.ACKED}
        assert {row.id for row in scan.scan(right, "flights-tx")} == committed_there
        resent = {r.id for r in tx if r.status is ProducedStatus.IN_DOUBT}
        assert resent <= committed_there


@pytest.mark.parametrize("behind_ms", [0, pytest.param(1_200_000, marks=pytest.mark.long)])
def test_producer_in_doubt_records_on_mirror_are_not_resent(
    lab_factory: LabFactory, tmp_path: Path, behind_ms: int
) -> None:
    """LEFT is frozen, not killed: records were appended unanswered, and the mirror has some of them. A wrong clock at LEFT
    stamps them long before they were sent."""
    lab = lab_factory()
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    topic, remote = "flights", "LEFT.flights"
    create_topics(left, [TopicSpec(topic, PARTITIONS)])
    create_topics(right, [TopicSpec(t, PARTITIONS) for t in (topic, remote)])
    with stage(tmp_path) as on:
        on.point(1, "LEFT", left)
        status = tmp_path / "status"
        clocks.set_back(tmp_path, "LEFT", behind_ms)
        producer = on.producer(
            topic, records_per_second=500.0, max_in_flight=1500, status=str(status), clocks=str(tmp_path)
        )
        wait_until("traffic", lambda: len(producer.history().produced) > 1000)
        lab.clusters["LEFT"].pause()

        def waiting() -> bool:
            seen = read_status(status)
            return seen is not None and seen.phase == "waiting" and seen.in_flight > 300

        wait_until("records in doubt", waiting)
        # what LEFT would have taken and mirrored before it went: the acknowledged ones and a part of those in doubt
        acked = {row.id for row in producer.history().produced}
        taken = plant(right, remote, acked, 200, behind_ms)
        on.point(2, "RIGHT", right, remote_prefix="LEFT.", cutover={remote: log_ends(right, remote, PARTITIONS)})
        wait_until(
            "traffic at RIGHT",
            lambda: acked_at_right(producer, topic) > 1500,  # more than can be in doubt
        )
        on.terminate_all()
        lab.clusters["LEFT"].resume()
    rows = producer.history().produced
    doubts = {row.id for row in rows if row.status is ProducedStatus.IN_DOUBT}
    assert taken <= doubts
    assert {row.id for row in rows if row.status is ProducedStatus.MIRRORED} == taken
    again = [row.id for row in rows if row.status is ProducedStatus.ACKED and row.cluster == "RIGHT"]
    assert doubts - taken <= set(again)
    assert not taken & set(again)
    assert len(again) == len(set(again))
    assert not acked & set(again)


def plant(right: str, remote: str, acked: set[str], extra: int, behind_ms: int) -> set[str]:
    """Writes the first `extra` flights that were never acknowledged into the mirror topic; returns their ids.

    They bear the time of a clock that is `behind_ms` behind.
    """
    stamp = time.time_ns() // 1_000_000 - behind_ms
    unheard = list(islice((flight for flight in stream() if flight.id not in acked), extra))
    producer = Producer({"bootstrap.servers": right, "partitioner": "murmur2_random"})
    for flight in unheard:
        producer.produce(
            remote, value=flight.value, key=flight.key.encode(), headers=record_headers(flight), timestamp=stamp
        )
    assert producer.flush(10) == 0
    return {flight.id for flight in unheard}
