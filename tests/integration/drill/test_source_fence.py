"""Writing to the source is denied by the brokers' authorizer, and exactly that is taken back."""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from fix_engine import create_topic, produce, read_all, wait_for

from drlib.client import pointer as pointers
from drlib.client import pointer_file
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.applications.deny_writes import WriteRules
from drlib.drill.actions.applications.move_pointer import MovePointer
from drlib.drill.actions.failback.switchover import PlannedMove
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.plan.progress import Reach
from drlib.drill.run import registry
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, UsageError
from drlib.kafka.admin.topic_acls import NoAuthorizer, create_rules, topic_rules
from drlib.kafka.protocol.acls import Operation, Permission, TopicAcl
from drlib.lab.brokers.cluster import Cluster as LabCluster
from drlib.lab.lab import Lab, mirror_properties
from drlib.model import Flow
from drlib.runs.abort import Abort

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",  # everybody is ANONYMOUS here
}


@dataclass
class Source:
    """A cluster with topics `<tag>.bare`, which has no rule, and `<tag>.ruled`, and a run on it."""

    bootstrap: str
    tag: str
    place: DrillContext

    @property
    def topics(self) -> tuple[str, str]:
        return f"{self.tag}.bare", f"{self.tag}.ruled"

    def step(self, action: str, run: str = "run", **arguments: str | float | bool | tuple[str, ...]) -> Action:
        given = tuple(Argument(key, value) for key, value in arguments.items())
        run_dir = self.place.run_dir.parent / run
        run_dir.mkdir(exist_ok=True)
        place = DrillContext(
            clusters=self.place.clusters,
            flow=self.place.flow,
            run_dir=run_dir,
            properties=self.place.properties,
            pointer=self.place.pointer,
        )
        return registry.make_action(Call(action, given), place, action.replace(".", "-"))

    def do(self, step: Action) -> dict[str, object]:
        return dict(step.act(step.changes(step.observe()), Abort(self.place.run_dir)))

    def rules(self) -> set[TopicAcl]:
        return {rule for rule in topic_rules(self.place.cluster("LEFT")) if rule.topic.startswith(self.tag)}

    def written(self, topic: str) -> bool:
        """Does a producer that follows no pointer get a record in? Fails for another refusal than of its rights."""
        answers: list[KafkaError | None] = []

        def answered(error: KafkaError | None, _: Message) -> None:
            answers.append(error)

        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        producer.produce(topic, b"stray", on_delivery=answered)
        assert producer.flush(20) == 0
        (error,) = answers
        assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
        return error is None


def made(bootstrap: str, other: str, tmp_path: Path) -> Source:
    tag = f"fence-{uuid.uuid4().hex[:6]}"
    file = tmp_path / "mm2.properties"
    keys = mirror_properties("LEFT", "RIGHT", {"LEFT": bootstrap, "RIGHT": other}, topics=f"{tag}.*")
    file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    pointer = tmp_path / "pointer.json"
    pointer_file.write_atomic(pointer, pointers.Pointer(1, "LEFT", bootstrap))
    (tmp_path / "runs" / "run").mkdir(parents=True)
    place = DrillContext(
        clusters=load_mirror_settings(file).clusters,
        flow=Flow("LEFT", "RIGHT"),
        run_dir=tmp_path / "runs" / "run",
        properties=file,
        pointer=pointer,
    )
    found = Source(bootstrap, tag, place)
    for topic in found.topics:
        create_topic(bootstrap, topic, 1)
        produce(bootstrap, topic, 10, partitions=1)
    return found


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The cluster, and its address over the link, which nothing here connects to."""
    with Lab(tmp_path_factory.mktemp("guarded"), aliases=("LEFT",), extra=AUTHORIZER) as lab:
        yield lab.clusters["LEFT"].bootstrap, lab.clusters["LEFT"].link_bootstrap


@pytest.fixture
def source(guarded: tuple[str, str], tmp_path: Path) -> Source:
    """`ruled` has an ACL that allows every principal, and one of another user."""
    found = made(*guarded, tmp_path)
    ruled = found.topics[1]
    create_rules(
        found.place.cluster("LEFT"),
        [
            TopicAcl(ruled, "User:*", "*", Operation.ALL, Permission.ALLOW),
            TopicAcl(ruled, "User:mallory", "*", Operation.WRITE, Permission.DENY),
        ],
    )
    wait_for("the rules are there", lambda: len(found.rules()) == 2)
    return found


def test_writing_is_denied_to_all_and_exactly_that_is_taken_back(source: Source) -> None:
    bare, ruled = source.topics
    before = source.rules()
    with pytest.raises(UsageError, match=f"writing to {bare} .* denies every principal"):
        source.do(source.step("source.fence", deny_write=".*"))
    assert (source.rules(), pointer_file.read(source.place.pointer).hold) == (before, False)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no topic of LEFT"):
        source.do(source.step("source.fence", deny_write="no-such.*"))

    fence = source.step("source.fence", deny_write=".*", open_to_all=True, still_s=0.3)
    changes = fence.changes(fence.observe())
    assert any(change.after == "denied to User:*" for change in changes)
    assert fence.probe(changes) is Reach.UNTOUCHED
    reported = dict(fence.act(changes, Abort(source.place.run_dir)))
    assert (reported["fenced"], reported["write_rules"]) == (True, 3)
    assert fence.probe(changes) is Reach.PARTLY
    assert not source.written(bare)
    assert not source.written(ruled)
    assert len(read_all(source.bootstrap, bare, 1)[0]) == 10  # consumers continue, the mirror too
    assert len(read_all(source.bootstrap, ruled, 1)[0]) == 10
    denied = source.rules()
    assert dict(fence.act(changes, Abort(source.place.run_dir)))["write_rules"] == 3
    assert source.rules() == denied

    fence.undo(changes)
    fence.undo(changes)
    assert source.rules() == before
    assert not pointer_file.read(source.place.pointer).hold  # type: ignore[arg-type]
    wait_for("everybody writes again", lambda: source.written(bare) and source.written(ruled))


def test_fence_killed_is_completed_and_lifted_by_another_run(source: Source) -> None:
    _, ruled = source.topics
    before = source.rules()
    fence = source.step("source.fence", deny_write=ruled, deny_principals=("User:ANONYMOUS",), still_s=0.3)
    changes = fence.changes(fence.observe())
    wanted = TopicAcl(ruled, "User:ANONYMOUS", "*", Operation.WRITE, Permission.DENY)
    rules = WriteRules(source.place.run_dir, source.place.cluster("LEFT"))
    rules.make([wanted])
    kept = details.read_rows(source.place.run_dir, "write-rules.LEFT")
    rules.lift_own()
    details.write_rows(source.place.run_dir, "write-rules.LEFT", kept)  # killed between keeping and making
    assert fence.probe(changes) is Reach.PARTLY
    fence.act(changes, Abort(source.place.run_dir))
    assert source.rules() == {*before, wanted}
    assert not source.written(ruled)

    back = source.step("source.unfence", run="another")
    (change,) = back.changes(back.observe())
    assert (change.before, change.after) == (1, 0)
    assert source.do(back)["write_rules_lifted"] == 1
    assert source.rules() == before
    assert source.do(back)["write_rules_lifted"] == 0
    back.undo((change,))
    assert source.rules() == {*before, wanted}
    assert source.do(source.step("source.unfence", run="a-third"))["write_rules_lifted"] == 1
    assert source.rules() == before


def test_fence_producer_without_pointer_is_named(source: Source) -> None:
    bare, _ = source.topics
    producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 0, "log_level": 0})
    fence = source.step("source.fence", still_s=0.5, deadline_s=1.0)
    changes = fence.changes(fence.observe())

    class Writing(Abort):
        def wait(self, seconds: float) -> None:
            with contextlib.suppress(KafkaException):  # it knows by then that it may not
                producer.produce(bare, b"stray")
            producer.flush(5)
            super().wait(seconds)

    with pytest.raises(Deviated, match=f"records were still appended to {bare}-0"):
        fence.act(changes, Writing(source.place.run_dir))
    denied = source.step("source.fence", deny_write=bare, open_to_all=True, still_s=0.5, deadline_s=1.0, grace_s=0.2)
    assert dict(denied.act(denied.changes(denied.observe()), Writing(source.place.run_dir)))["fenced"] is True
    denied.undo(denied.changes(denied.observe()))


def test_fence_expiring_hold_is_made_permanent(source: Source) -> None:
    path = source.place.pointer
    assert path is not None
    pointer_file.write_atomic(path, pointers.Pointer(2, "LEFT", source.bootstrap, hold=True, hold_limit_s=60.0))
    fence = source.step("source.fence", still_s=0.2)
    changes = fence.changes(fence.observe())
    assert [(change.before, change.after) for change in changes] == [("write", "held")]
    fence.act(changes, Abort(source.place.run_dir))
    assert pointer_file.read(path) == pointers.Pointer(3, "LEFT", source.bootstrap, hold=True)
    fence.undo(changes)
    assert pointer_file.read(path).hold_limit_s == 60.0


def test_topic_acls_without_authorizer_raise_no_authorizer(left: str, right: str, tmp_path: Path) -> None:
    open_to_all = made(left, right, tmp_path)
    fence = open_to_all.step("source.fence", deny_write=".*")
    with pytest.raises(NoAuthorizer, match="LEFT has no ACLs: its brokers have no authorizer"):
        fence.changes(fence.observe())
    assert not pointer_file.read(open_to_all.place.pointer).hold  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_failback_lifts_the_failovers_deny_rules(tmp_path: Path) -> None:
    """Both flows run on clusters with an authorizer; the failback is another run than the failover."""
    with Lab(tmp_path / "lab", extra=AUTHORIZER) as lab:
        left, right = (lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT"))
        found = made(left, right, tmp_path)
        for topic in found.topics:
            create_topic(right, topic, 1)
        file = found.place.properties
        assert file is not None
        file.write_text(file.read_text().replace("RIGHT->LEFT.enabled = false", "RIGHT->LEFT.enabled = true"))
        log = tmp_path / "worker.log"
        lab.registry.start("mirror-1", [sys.executable, "-m", "drlib.cli", "mirror", str(file)], log=log)
        before = found.rules()
        fence = found.step("source.fence", deny_write=".*", open_to_all=True, still_s=0.3)
        assert found.do(fence)["write_rules"] == 4
        found.do(found.step("mirror.drain", expect="serving"))  # the mirror reads on
        found.do(found.step("pointer.move"))
        for topic in found.topics:
            produce(right, topic, 5, partitions=1)
            assert not found.written(topic)
        home = found.step("switchover.move", run="home", source="RIGHT", target="LEFT")
        reported = found.do(home)
        assert (reported["write_rules_lifted"], reported["rpo_records"]) == (4, 0)
        assert pointer_file.read(tmp_path / "pointer.json").active == "LEFT"
        assert found.rules() == before
        wait_for("producers write at home", lambda: all(found.written(topic) for topic in found.topics))


def test_denials_that_a_move_lifted_are_made_again_where_the_applications_have_not_moved(source: Source) -> None:
    """A producer that writes now and then, and does not see the hold, lets a planned move fail once they are lifted."""
    bare = source.topics[0]
    before = source.rules()
    source.do(source.step("source.fence", "emergency", deny_write=bare, open_to_all=True, still_s=0.3))
    denied = source.rules()
    pointer = source.place.pointer
    assert pointer is not None
    held = pointer_file.read(pointer)
    pointer_file.write_atomic(pointer, pointers.Pointer(held.version + 1, "RIGHT", "127.0.0.1:1"))
    move = source.step("switchover.move", "home")  # from RIGHT, which was failed over to, to LEFT
    assert isinstance(move, PlannedMove)
    for _ in range(2):
        assert move.fences.lift() == 2
        wait_for("writing is allowed", lambda: source.rules() == before)
        assert move.fences.lift() == 0
        move.undo(())
        move.undo(())
        wait_for("exactly the same is denied again", lambda: source.rules() == denied)
    assert source.do(source.step("source.unfence", "later"))["write_rules_lifted"] == 2
    wait_for("nothing is left", lambda: source.rules() == before)
    move.undo(())
    assert source.rules() == before


def test_emergency_to_a_cluster_that_an_earlier_one_fenced_lets_producers_write_there(source: Source) -> None:
    """After a failover to RIGHT the roles were swapped, and RIGHT is lost: no producer could write to LEFT."""
    bare = source.topics[0]
    before, pointer = source.rules(), source.place.pointer
    assert pointer is not None
    source.do(source.step("source.fence", "emergency", deny_write=bare, open_to_all=True, still_s=0.3))
    denied = source.rules()
    there = pointers.Pointer(pointer_file.read(pointer).version + 1, "RIGHT", "127.0.0.1:1")
    pointer_file.write_atomic(pointer, there)
    assert not source.written(bare)
    move = source.step("pointer.move", "back", source="RIGHT", target="LEFT", cutover=False)
    assert isinstance(move, MovePointer)
    changes = move.changes(move.observe())
    assert dict(move.act(changes, Abort(source.place.run_dir)))["write_rules_lifted"] == 2
    wait_for("producers write there", lambda: source.written(bare))
    move.pointer.put_back()  # its undo, killed before the rules are made again
    assert move.probe(changes) is Reach.PARTLY
    move.undo(changes)
    wait_for("exactly the same is denied again", lambda: source.rules() == denied)
    assert (move.probe(changes), pointer_file.read(pointer).active) == (Reach.UNTOUCHED, "RIGHT")
    source.do(source.step("source.unfence", "later"))
    wait_for("nothing is left", lambda: source.rules() == before)


class KillsWhileItWaits(Abort):
    """Kills the cluster when the step first waits, which is for logs that stand still."""

    def __init__(self, folder: Path, cluster: LabCluster) -> None:
        super().__init__(folder)
        self._cluster = cluster

    def wait(self, seconds: float) -> None:
        if self._cluster.alive:
            self._cluster.kill()
        super().wait(seconds)


@pytest.mark.timeout(180)
def test_source_that_stops_answering_while_it_is_fenced_does_not_end_the_run(tmp_path: Path) -> None:
    """An emergency is when a source is dying: what it answered a second ago may be its last answer."""
    with Lab(tmp_path / "lab", aliases=("LEFT",)) as lab:
        cluster = lab.clusters["LEFT"]
        (tmp_path / "of").mkdir()
        source = made(cluster.bootstrap, cluster.link_bootstrap, tmp_path / "of")
        fence = source.step("source.fence")
        changes = fence.changes(fence.observe())
        reported = dict(fence.act(changes, KillsWhileItWaits(source.place.run_dir, cluster)))
        assert (reported["fenced"], str(reported["source"])[:9]) == (False, "no answer")
