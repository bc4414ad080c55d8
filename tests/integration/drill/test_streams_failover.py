"""A Kafka Streams application with exactly_once_v2 whose cluster is killed: its totals on the target are those of the records
that crossed, and the drill says whether its state can be used for it.

Long: brokers of its own, Java programs.
"""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from beside import beside
from confluent_kafka import KafkaException, Producer
from fix_engine import Engine, alter, create_topic, read_all, wait_for
from fix_lab import LabFactory
from testbed_moves import Place, drill, in_process, step
from testbed_streams import sums_command

from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failover.transactions import STATE_CHECK
from drlib.drill.plan.plan import Mode
from drlib.drill.step.step_output import read_part
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow
from drlib.runs.check import Check, Verdict

pytestmark = pytest.mark.long
APP, INPUT, OUTPUT, PARTITIONS = "sums", "numbers", "totals", 2
CHANGELOG, REPARTITION = f"{APP}-total-changelog", f"{APP}-by-key-repartition"
FLOW = Flow("LEFT", "RIGHT")
KEYS = 7


@contextmanager
def sums(bootstrap: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The application on a cluster. It is killed in the end."""
    argv = sums_command(bootstrap, APP, folder, INPUT, OUTPUT)
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def numbers(bootstrap: str, first: int, count: int) -> None:
    """Numbers under keys that are repartitioned: the key's last part is what is summed by."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for number in range(first, first + count):
        producer.produce(INPUT, key=f"{number}/k{number % KEYS}", value=str(number), partition=number % PARTITIONS)
    producer.flush(20)


@contextmanager
def load(bootstrap: str) -> Iterator[None]:
    """Numbers without end, while inside."""

    def write(over: threading.Event) -> None:
        at = 0
        while not over.wait(0.02):
            try:
                numbers(bootstrap, at, 20)
            except KafkaException:
                return
            at += 20

    with beside(write):
        yield


def expected(bootstrap: str) -> dict[bytes, int]:
    """The sum of each key's numbers that are in the cluster's input topic."""
    found: Counter[bytes] = Counter()
    for records in read_all(bootstrap, INPUT, PARTITIONS).values():
        for key, value, _, _ in records:
            found[(key or b"").partition(b"/")[2]] += int(value or b"0")
    return dict(found)


def totals(bootstrap: str) -> dict[bytes, int]:
    """The last sum of each key in the cluster's output topic."""
    records = [record for those in read_all(bootstrap, OUTPUT, PARTITIONS).values() for record in those]
    return {key or b"": int(value or b"0") for key, value, _, _ in records}


def committed(bootstrap: str) -> Mapping[object, int]:
    with Cluster(ClusterSettings("CLUSTER", (bootstrap,))) as cluster:
        return {partition: at.offset for partition, at in cluster.group_offsets(APP).items()}


class Site:
    """Both clusters, a worker that keeps topic names, and the application on LEFT."""

    def __init__(self, lab: Lab, folder: Path, internal: str = f"{APP}-.*") -> None:
        self.lab, self.folder = lab, folder
        self.left, self.right = (lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT"))
        for topic in (INPUT, OUTPUT):
            create_topic(self.left, topic, PARTITIONS)
        extra = {
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "sync.topic.configs.enabled": "false",  # so that a test can change a topic of RIGHT
        }
        self.engine = Engine(folder, self.left, self.right, "LEFT", "RIGHT", f"{INPUT}, {OUTPUT}, {internal}", extra)
        self.worker = self.engine.start()

    def known(self) -> Mapping[object, int]:
        """The application's positions that RIGHT knows."""
        found = checkpointed_positions(load_mirror_settings(self.engine.properties), FLOW)
        return {partition: at.offset for (group, partition), at in found.items() if group == APP}

    def take_inventory(self) -> None:
        """As a rehearsal does."""
        run = self.folder / "a-rehearsal"
        run.mkdir()
        place = Place(properties=str(self.engine.properties), pointer=str(self.folder / "pointer.json"))
        assert in_process(run, drill(step("inventory", "inventory.take")), place, deadline_s=240) == 0

    def fail_over(self, name: str = "run", *, inventory: bool = False) -> Check:
        """What the drill says of the application's state, whose positions it has committed."""
        run = self.folder / name
        run.mkdir()
        place = Place(properties=str(self.engine.properties), pointer=str(self.folder / "pointer.json"))
        steps = (
            *([step("inventory", "inventory.take")] if inventory else []),
            step("transactions", "transactions.list"),
            step("translate", "groups.translate", positions_from="target", leave=(".*",)),
        )
        assert in_process(run, drill(*steps, mode=Mode.EMERGENCY), place, deadline_s=240) == 0
        return next(c for c in read_part(run, "transactions").checks if c.name == STATE_CHECK.format(APP))

    def rebuild(self) -> None:
        """As the drill says: the internal topics are deleted, and the application begins at its input's beginning."""
        with Cluster(self.lab.clusters["RIGHT"].settings()) as cluster:
            for topic in (CHANGELOG, REPARTITION):
                cluster.delete_topic(topic)
            cluster.delete_group(APP)
            wait_for("the topics are gone", lambda: not cluster.topics([CHANGELOG, REPARTITION]))

    def close(self) -> None:
        self.engine.close()


@pytest.fixture
def site(lab_factory: LabFactory, tmp_path: Path) -> Iterator[Site]:
    found = Site(lab_factory(), tmp_path)
    yield found
    found.close()


def test_state_that_matches_its_positions_is_continued(site: Site, tmp_path: Path) -> None:
    with sums(site.left, tmp_path / "left"):
        numbers(site.left, 0, 300)
        wait_for("LEFT has all totals", lambda: totals(site.left) == expected(site.left), 120)
        for topic in (INPUT, OUTPUT, CHANGELOG, REPARTITION):
            site.engine.wait_caught_up(topic, PARTITIONS, deadline_s=120)
        wait_for("RIGHT knows the positions", lambda: site.known() == committed(site.left) and bool(site.known()), 60)
        site.lab.clusters["LEFT"].kill()
    site.worker.kill()
    check = site.fail_over()
    assert check.verdict is Verdict.PASS, check
    numbers(site.right, 300, 200)  # only a state that holds the first 300 gives the right sums
    with sums(site.right, tmp_path / "right"):
        wait_for("RIGHT has all totals", lambda: totals(site.right) == expected(site.right), 120)
    assert sum(expected(site.right).values()) == sum(range(500))


def test_state_whose_changelog_is_not_mirrored_never_matches(lab_factory: LabFactory, tmp_path: Path) -> None:
    """All else crossed: transactions are complete as far as the target can know them."""
    site = Site(lab_factory(), tmp_path, REPARTITION)
    try:
        with sums(site.left, tmp_path / "left"):
            numbers(site.left, 0, 300)
            wait_for("LEFT has all totals", lambda: totals(site.left) == expected(site.left), 120)
            for topic in (INPUT, OUTPUT, REPARTITION):
                site.engine.wait_caught_up(topic, PARTITIONS, deadline_s=120)
            wait_for("RIGHT knows the positions", lambda: site.known() == committed(site.left), 60)
            site.take_inventory()
            site.lab.clusters["LEFT"].kill()
        site.worker.kill()
        without, known = site.fail_over("run-1"), site.fail_over("run-2", inventory=True)
    finally:
        site.close()
    assert (without.verdict, known.verdict) == (Verdict.CONDITIONS, Verdict.CONDITIONS)
    assert "not determined: none of its changelog topics is mirrored" in without.evidence, without
    assert f"does not match: {CHANGELOG} is not mirrored, so that it begins with an empty state" in known.evidence, (
        known
    )


def test_state_of_which_a_part_crossed_is_rebuilt_to_the_totals_of_the_records_that_crossed(
    site: Site, tmp_path: Path
) -> None:
    with sums(site.left, tmp_path / "left"):
        numbers(site.left, 0, 100)
        wait_for("LEFT has all totals", lambda: totals(site.left) == expected(site.left), 120)
        for topic in (INPUT, OUTPUT, CHANGELOG, REPARTITION):
            site.engine.wait_caught_up(topic, PARTITIONS, deadline_s=120)
        alter(site.right, CHANGELOG, "max.message.bytes", "10")  # so that no further record of the state arrives
        numbers(site.left, 100, 100)
        wait_for("LEFT has all totals", lambda: totals(site.left) == expected(site.left), 120)
        for topic in (INPUT, OUTPUT):
            site.engine.wait_caught_up(topic, PARTITIONS, deadline_s=120)
        wait_for("RIGHT knows the positions", lambda: site.known() == committed(site.left), 60)
        site.lab.clusters["LEFT"].kill()
    site.worker.kill()
    check = site.fail_over()
    assert check.verdict is Verdict.CONDITIONS, check
    assert "of its transactions are there in part" in check.evidence, check
    assert "kafka-streams-application-reset" in check.evidence, check
    site.rebuild()
    with sums(site.right, tmp_path / "right"):
        wait_for("RIGHT has all totals", lambda: totals(site.right) == expected(site.right), 120)
    assert sum(expected(site.right).values()) == sum(range(200))


def test_cluster_killed_under_load_leaves_totals_of_the_records_that_crossed(site: Site, tmp_path: Path) -> None:
    with sums(site.left, tmp_path / "left"), load(site.left):
        wait_for("the output is mirrored", lambda: _sums(site) > 50, 120)
        site.lab.clusters["LEFT"].kill()
    site.worker.kill()
    check = site.fail_over()
    if check.verdict is not Verdict.PASS:
        assert "kafka-streams-application-reset" in check.evidence, check
        site.rebuild()
    with sums(site.right, tmp_path / "right"):
        wait_for("RIGHT has all totals", lambda: totals(site.right) == expected(site.right), 120)
    assert expected(site.right)


def _sums(site: Site) -> int:
    with Cluster(site.lab.clusters["RIGHT"].settings()) as cluster:
        if not cluster.topics([OUTPUT]):
            return 0
    return sum(len(records) for records in read_all(site.right, OUTPUT, PARTITIONS).values())


def test_streams_application_that_was_stopped_for_a_planned_move_matches_and_one_that_runs_is_not_determined(
    site: Site, tmp_path: Path
) -> None:
    """Both clusters serve, and all has crossed: what the drill says does not depend on the client's transactions."""

    def said(folder: str) -> Check:
        run = site.folder / folder
        run.mkdir()
        place = Place(properties=str(site.engine.properties), pointer=str(site.folder / "pointer.json"))
        steps = (
            step("transactions", "transactions.list", drained=True),
            *([step("translate", "groups.translate", positions_from="source")] if folder == "stopped" else []),
        )
        assert in_process(run, drill(*steps), place, deadline_s=240) == 0
        return next(c for c in read_part(run, "transactions").checks if c.name == STATE_CHECK.format(APP))

    numbers(site.left, 0, 200)
    with sums(site.left, tmp_path / "left") as process:
        wait_for("LEFT has the totals", lambda: totals(site.left) == expected(site.left), deadline_s=120)
        running = said("running")
        process.terminate()
        process.wait(60)
    with Cluster(
        site.lab.clusters["LEFT"].settings()
    ) as cluster:  # its session ends; it does not leave its group itself
        wait_for("its group is empty", lambda: not cluster.group_members(APP), deadline_s=90)
    stopped = said("stopped")
    with sums(site.right, tmp_path / "right"):
        numbers(site.right, 200, 70)
        wait_for("RIGHT has the totals", lambda: totals(site.right) == expected(site.right), deadline_s=120)
    assert (running.verdict, "it still runs on the source" in running.evidence) == (Verdict.CONDITIONS, True)
    assert (stopped.verdict, "have crossed" in stopped.evidence) == (Verdict.PASS, True), stopped.evidence
