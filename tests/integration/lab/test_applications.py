"""Each application by itself on a real cluster: rates, histories, a clean end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from testbed_applications import log_ends, stage, wait_until

from drlib import clock
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.client.pointer_file import PointerWatcher
from drlib.lab.apps.process import Stop, read_status
from drlib.lab.apps.specs import ProducerMode, ProducerSpec
from drlib.lab.apps.transactions import Transactions
from drlib.lab.checker import scan
from drlib.lab.checker.history import CommitStatus, ProducedStatus
from drlib.lab.checker.history_files import HistoryWriter, read_history
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.topics import FLIGHTS_2013, TopicSpec, create_topics

Fresh = Callable[[str], str]


def test_create_topics_repeated_keeps_config(left: str, fresh_topic: Fresh) -> None:
    name = fresh_topic("flights-2013")
    spec = TopicSpec(name, FLIGHTS_2013.partitions, FLIGHTS_2013.config)
    create_topics(left, [spec])
    create_topics(left, [spec])
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin = AdminClient({"bootstrap.servers": left})
    config = admin.describe_configs([resource])[resource].result()
    assert config["retention.ms"].value == "-1"
    assert log_ends(left, name, 2) == (0, 0)


def test_applications_keep_up_and_end_on_sigterm(left: str, fresh_topic: Fresh, tmp_path: Path) -> None:
    topic = fresh_topic("flights")
    create_topics(left, [TopicSpec(topic, 6)])
    with stage(tmp_path) as on:
        on.point(1, "LEFT", left)
        status = tmp_path / "producer.status"
        producer = on.producer(topic, records_per_second=1000.0, backlog=5000, status=str(status))
        arrivals = on.consumer(topic, fresh_topic("arrivals"))
        wait_until("first record", lambda: bool(producer.history().produced), 10)
        wait_until("backlog and more", lambda: len(producer.history().produced) > 7000)
        wait_until("arrivals keeps up", lambda: len(arrivals.history().consumed) > 7000)
        seen = read_status(status)
        assert seen is not None
        assert (seen.phase, seen.cluster, seen.pointer_version) == ("running", "LEFT", 1)
        code, seconds = producer.terminate()
        assert (code, seconds < 3.0) == (0, True)
        produced = producer.history()
        wait_until("the group reads to the end", lambda: len(arrivals.history().consumed) == len(produced.produced))
        on.terminate_all()
        consumed = arrivals.history()

    assert not produced.open
    assert not consumed.open
    assert {row.status for row in produced.produced} == {ProducedStatus.ACKED}
    there = {(row.partition, row.offset): row for row in scan.scan(left, topic)}
    assert len(there) == len(produced.produced)
    for row in produced.produced:
        found = there[row.partition, row.offset]
        assert (found.id, found.key, found.n, found.digest) == (row.id, row.key, row.n, row.digest)
        assert found.timestamp_ms == row.sent_ms
    assert {row.id for row in consumed.consumed} == {row.id for row in produced.produced}
    assert len(consumed.consumed) == len(produced.produced)
    last = {row.partition: row.offset for row in consumed.committed if row.status is CommitStatus.ACKED}
    assert tuple(last[p] for p in range(6)) == log_ends(left, topic, 6)


def test_consumer_with_rate_lags(left: str, fresh_topic: Fresh, tmp_path: Path) -> None:
    topic = fresh_topic("flights")
    create_topics(left, [TopicSpec(topic, 6)])
    with stage(tmp_path) as on:
        on.point(1, "LEFT", left)
        producer = on.producer(topic, records_per_second=100.0, backlog=3000)
        begun_ms = clock.now_ms()
        delays = on.consumer(topic, fresh_topic("delays"), records_per_second=200.0)
        wait_until("some delays", lambda: len(delays.history().consumed) >= 200)
        wait_until("a second's worth", lambda: len(delays.history().consumed) >= 600)
        rows = delays.history().consumed
        # A member that does not get the processor catches up: the rate holds from its start on, not from its first record on.
        assert len(rows) / (rows[-1].at_ms - begun_ms) * 1000 < 260
        assert len(rows) / (rows[-1].at_ms - rows[0].at_ms) * 1000 > 100
        assert len(producer.history().produced) > len(rows)
        on.terminate_all()


def test_producer_2013_keeps_event_timestamps(left: str, fresh_topic: Fresh, tmp_path: Path) -> None:
    topic = fresh_topic("flights-2013")
    create_topics(left, [TopicSpec(topic, 2, FLIGHTS_2013.config)])
    with stage(tmp_path) as on:
        on.point(1, "LEFT", left)
        producer = on.producer(topic, mode=ProducerMode.FLIGHTS_2013, records=1500)
        assert producer.process.wait(30) == 0
        assert len(producer.history().produced) == 1500
    rows = list(scan.scan(left, topic))
    assert len(rows) == 1500
    assert min(row.timestamp_ms for row in rows) == 1357035300000  # UA1545 to Houston, 05:15 in New York
    assert max(row.timestamp_ms for row in rows) < 1357300000000


def test_transactions_every_third_aborts(left: str, fresh_topic: Fresh, tmp_path: Path) -> None:
    topic = fresh_topic("flights-tx")
    create_topics(left, [TopicSpec(topic, 2)])
    with stage(tmp_path) as on:
        on.point(1, "LEFT", left)
        producer = on.producer(topic, mode=ProducerMode.FLIGHTS_TX, tx_every_s=0.1, transactional_id=topic)
        audit = on.consumer(topic, fresh_topic("tx-audit"))
        wait_until("nine transactions", lambda: len(producer.history().produced) >= 45)
        code, seconds = producer.terminate()
        assert (code, seconds < 3.0) == (0, True), producer.log.read_text()
        produced = producer.history().produced
        acked = {row.id for row in produced if row.status is ProducedStatus.ACKED}
        aborted = {row.id for row in produced if row.status is ProducedStatus.ABORTED}
        wait_until("the audit has read them", lambda: {row.id for row in audit.history().consumed} == acked)
        on.terminate_all()
    assert len(acked) + len(aborted) == len(produced)
    assert abs(len(aborted) - len(produced) // 3) <= 5
    assert {row.id for row in scan.scan(left, topic)} == acked
    assert {row.id for row in scan.scan(left, topic, read_committed=False)} == acked | aborted
    at = {(row.partition, row.offset): row.digest for row in scan.scan(left, topic, read_committed=False)}
    assert all(at[row.partition, row.offset] == row.digest for row in produced)


@pytest.mark.long  # a transaction has ten seconds
def test_transactions_continue_once_a_broker_that_was_frozen_for_longer_than_one_may_take_is_back(
    tmp_path: Path,
) -> None:
    with Lab(tmp_path / "lab", ("paris",)) as lab, stage(tmp_path) as on:
        paris, topic, spans = lab.clusters["paris"], "flights-tx", 10.0
        create_topics(paris.bootstrap, [TopicSpec(topic, 2)])
        on.point(1, "paris", paris.bootstrap)
        status = tmp_path / "producer.status"
        producer = on.producer(topic, mode=ProducerMode.FLIGHTS_TX, transactional_id=topic, status=str(status))

        def acknowledged() -> int:
            return sum(row.status is ProducedStatus.ACKED for row in producer.history().produced)

        wait_until("some transactions", lambda: acknowledged() > 30)
        (broker,) = paris.brokers
        broker.pause()
        used_s = sum(psutil.Process(producer.process.pid).cpu_times()[:2])
        began = time.monotonic()
        wait_until("its transaction's time is over", lambda: time.monotonic() - began > 2 * spans)
        assert sum(psutil.Process(producer.process.pid).cpu_times()[:2]) - used_s < spans / 2
        seen = read_status(status)
        assert seen is not None
        assert seen.phase == "waiting"
        broker.resume()
        before = acknowledged()
        wait_until("more transactions", lambda: acknowledged() > before + 30, 60)
        on.terminate_all()


def test_application_wrong_spec_prints_one_line_and_exits_2(tmp_path: Path) -> None:
    with stage(tmp_path) as on:
        application = on.consumer("flights", "arrivals", max_batch="many")
        assert application.process.wait(20) == 2
        assert application.log.read_text().startswith("'max_batch' in arrivals-0.json is 'many': ")
        assert len(application.log.read_text().splitlines()) == 1
        assert read_history(Path(application.spec.history)).missing


class HeldThenMoved(PointerWatcher):
    """Holds the application, and names another cluster from look `at` on; two looks later the application is stopped."""

    def __init__(self, left: str, right: str, at: int, stop: Stop) -> None:
        super().__init__(Path("unused"))
        self._here, self._there = Pointer(1, "LEFT", left, hold=True), Pointer(2, "RIGHT", right)
        self._at, self._stop, self._looks = at, stop, 0

    def current(self) -> Pointer:
        self._looks += 1
        if self._looks >= self._at + 2:
            self._stop.set()
        return self._here if self._looks < self._at else self._there


@pytest.mark.parametrize("at", [5, 6, 7, 8])
def test_transactions_after_move_leave_old_cluster_alone(
    left: str, right: str, fresh_topic: Fresh, tmp_path: Path, at: int
) -> None:
    """Whichever look of the application is the first that sees the move: it was held until then."""
    topic, stop = fresh_topic("flights-tx"), Stop()
    for cluster in (left, right):
        create_topics(cluster, [TopicSpec(topic, 6)])
    spec = ProducerSpec("", "", ProducerMode.FLIGHTS_TX, topic, tx_every_s=0.001, transactional_id=topic)
    with HistoryWriter(tmp_path / "history.jsonl") as history:
        Transactions(spec, stop, history, HeldThenMoved(left, right, at, stop)).run()
    assert log_ends(left, topic, 6) == (0,) * 6


@pytest.mark.timeout(90)
def test_applications_cut_off_from_a_cluster_wait_while_mirrors_and_drills_reach_it(
    lab: Lab, fresh_topic: Fresh, tmp_path: Path
) -> None:
    topic, name = fresh_topic("flights"), fresh_topic("producer")
    create_topics(lab.clusters["LEFT"].settings(), [TopicSpec(topic, 1)])
    pointer = tmp_path / "pointer.json"
    pointer_file.write_atomic(pointer, Pointer(1, "LEFT", lab.clusters["LEFT"].bootstrap))
    applications = LabApplications(lab, tmp_path / "histories")
    history = str(applications.history_path(name))
    spec = ProducerSpec(
        str(pointer), history, topic=topic, records_per_second=200.0, status=str(applications.status_path(name))
    )

    def in_doubt(records: int) -> None:
        """Wait until so many wait for an acknowledgement."""
        status = applications.status
        wait_until("in doubt", lambda: (seen := status(name)) is not None and seen.in_flight > records)

    applications.start(name, spec)
    try:
        wait_until("records are acknowledged", lambda: applications.done(name) > 100)
        lab.proxy.cut_applications("LEFT")
        wait_until(
            "their connections have ended",
            lambda: not any(one.connections for one in lab.proxy.apps_links("LEFT")),
        )
        in_doubt(300)  # by then the broker has appended what had reached it
        seen = log_ends(lab.clusters["LEFT"].bootstrap, topic, 1)  # over a network of its own
        in_doubt(600)
        assert log_ends(lab.clusters["LEFT"].bootstrap, topic, 1) == seen
        assert not [link.name for link in lab.proxy.links() if link.cut]
        lab.proxy.cut_applications("LEFT", False)
        wait_until("they continue", lambda: log_ends(lab.clusters["LEFT"].bootstrap, topic, 1)[0] > seen[0] + 300)
        wait_until("none is in doubt", lambda: (now := applications.status(name)) is not None and now.in_flight < 100)
    finally:
        lab.proxy.cut_applications("LEFT", False)
        applications.stop(name)
    assert {row.status for row in applications.history(name).produced} == {ProducedStatus.ACKED}
