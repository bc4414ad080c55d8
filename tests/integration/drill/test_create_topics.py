"""Producers' topics on the target: what doctor finds, what the step creates with whose rights, and what its undo leaves."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from fix_authorizer import AUTHORIZER, ME, acl, add_acls
from fix_engine import create_topic, produce, wait_for

from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.plan.progress import Reach
from drlib.drill.readiness.checks.checks import judge_flow
from drlib.drill.readiness.checks.objectives import CheckContext
from drlib.drill.readiness.checks.observations import PastDrills
from drlib.drill.readiness.observe.observe import observe_flow
from drlib.drill.readiness.score import Finding, Severity
from drlib.drill.run import registry
from drlib.drill.step import step_output
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.quotas import STANDSTILL, Entity, producer_quotas, set_producer_quotas
from drlib.kafka.admin.topic_acls import topic_rules
from drlib.kafka.protocol.acls import Operation, Permission
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import Flow
from drlib.runs.abort import Abort


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Clusters paris and lyon with an authorizer; every client is ANONYMOUS."""
    with Lab(tmp_path_factory.mktemp("guarded"), ("paris", "lyon"), extra=AUTHORIZER) as lab:
        yield lab


@dataclass
class Place:
    lab: Lab
    context: DrillContext
    tag: str

    @property
    def properties(self) -> Path:
        assert self.context.properties is not None
        return self.context.properties

    def step(self) -> Action:
        call = Call("topics.create", (Argument("topics", (f".*{self.tag}",)),))
        return registry.make_action(call, self.context, "topics")

    def at(self, alias: str) -> Cluster:
        return Cluster(self.context.clusters[alias])

    def bootstrap(self, alias: str) -> str:
        return self.lab.clusters[alias].bootstrap

    def exists(self, *names: str) -> list[str]:
        with self.at("lyon") as lyon:
            return sorted(lyon.topics(names))

    def rows(self) -> dict[object, object]:
        rows = step_output.read_rows(self.context.run_dir, "topics")
        return {row["topic"]: row.get("state", row.get("undone")) for row in rows}

    def findings(self) -> dict[str, Finding]:
        """Of the check, by what they are about."""
        settings = load_mirror_settings(self.properties)
        observed = asyncio.run(observe_flow(settings, settings.flow("paris", "lyon"), PastDrills("runs", ())))
        found = judge_flow(observed, CheckContext("mm2.properties", "paris:1", self.bootstrap("lyon"))).findings
        return {f.entity: f for f in found if f.check == "producer-topics"}


@pytest.fixture
def place(guarded: Lab, tmp_path: Path) -> Place:
    tag = uuid.uuid4().hex[:6]
    path = tmp_path / "mm2.properties"
    addresses = "".join(f"{alias}.bootstrap.servers = {c.bootstrap}\n" for alias, c in guarded.clusters.items())
    path.write_text(f"clusters = paris, lyon\n{addresses}paris->lyon.enabled = true\ntopics = .*{tag}\n")
    clusters = {alias: ClusterSettings(alias, (c.bootstrap,)) for alias, c in guarded.clusters.items()}
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    return Place(
        guarded,
        DrillContext(clusters=clusters, flow=Flow("paris", "lyon"), run_dir=run_dir, properties=path),
        tag,
    )


def do(place: Place, step: Action) -> dict[str, object]:
    return dict(step.act(step.changes(step.observe()), Abort(place.context.run_dir)))


def test_create_topics_makes_what_doctor_misses_and_its_undo_leaves_what_was_written(place: Place) -> None:
    orders, bills = f"orders-{place.tag}", f"bills-{place.tag}"
    paris, lyon = place.bootstrap("paris"), place.bootstrap("lyon")
    create_topic(paris, orders, 3, retention_ms="7200000", cleanup_policy="compact,delete")
    create_topic(paris, bills, 1)
    add_acls(paris, *(acl(ResourceType.TOPIC, orders, AclOperation.ALL, who=who) for who in (ME, "User:shop")))
    missing = place.findings()
    assert {name: f.severity for name, f in missing.items()} == {orders: Severity.WARN, bills: Severity.WARN}
    assert f"--create --topic {orders} --partitions 3" in missing[orders].fix
    step = place.step()
    planned = step.changes(step.observe())
    assert {change.entity for change in planned} == {f"topic {name} on lyon" for name in (orders, bills)}
    assert step.probe(planned) is Reach.UNTOUCHED
    evidence = dict(step.act(planned, Abort(place.context.run_dir)))
    assert (evidence["refused"], evidence["acls"], evidence["settings_from"]) == ("", "2 copied", "the source")
    assert place.rows() == {orders: "created", bills: "created"}
    # as a plan expects it of a step that was begun, so that a run that was killed in it is not stale
    left = {fact.entity: fact.value for fact in place.step().observe()}
    assert all(left[change.entity] == change.after for change in planned)
    with place.at("lyon") as cluster:
        assert cluster.topics([orders])[orders].partitions == 3
        assert cluster.topic_config([orders])[orders]["retention.ms"] == "7200000"
    writers = {r.principal for r in topic_rules(place.context.clusters["lyon"]) if r.topic == orders}
    assert writers == {ME, "User:shop"}
    (ready,) = place.findings().values()
    assert (ready.severity, ready.entity) == (Severity.OK, "")
    assert do(place, place.step())["created"] == "", "done again, it creates nothing"
    produce(lyon, bills, 5, partitions=1)
    place.step().undo(planned)
    place.step().undo(planned)
    assert place.exists(orders, bills) == [bills], "only the one that is still empty is deleted"
    assert not [r for r in topic_rules(place.context.clusters["lyon"]) if r.topic == orders]


def test_create_topics_does_not_copy_what_the_fence_of_its_run_denies(place: Place) -> None:
    """A failover that denied writing to the source's producers by name denied it to them on the target, too."""
    orders, paris = f"orders-{place.tag}", place.bootstrap("paris")
    create_topic(paris, orders, 1)
    add_acls(paris, *(acl(ResourceType.TOPIC, orders, AclOperation.ALL, who=who) for who in (ME, "User:shop")))
    arguments = (Argument("deny_write", (orders,)), Argument("deny_principals", ("User:shop", "User:till")))
    fence = registry.make_action(Call("source.fence", arguments), place.context, "fence")
    evidence = do(place, fence)
    assert (evidence["fenced"], evidence["write_rules"]) == (True, 2)
    assert do(place, place.step())["acls"] == "2 copied"
    there = [rule for rule in topic_rules(place.context.clusters["lyon"]) if rule.topic == orders]
    assert {(rule.principal, rule.permission) for rule in there} == {
        (ME, Permission.ALLOW),
        ("User:shop", Permission.ALLOW),
    }
    fence.undo(())


def test_undo_leaves_the_acls_that_were_there_before_the_topic_and_takes_its_own_also_after_a_kill(
    place: Place,
) -> None:
    """As rights are managed in advance by a team of its own. Killed between the topic and its ACLs, in the undo."""
    orders, paris, lyon = f"orders-{place.tag}", place.bootstrap("paris"), place.bootstrap("lyon")
    create_topic(paris, orders, 1)
    add_acls(paris, *(acl(ResourceType.TOPIC, orders, AclOperation.ALL, who=who) for who in (ME, "User:shop")))
    add_acls(lyon, acl(ResourceType.TOPIC, orders, AclOperation.ALL))

    def there() -> set[str]:
        return {rule.principal for rule in topic_rules(place.context.clusters["lyon"]) if rule.topic == orders}

    wait_for("its own rights are there", lambda: there() == {ME})
    step = place.step()
    planned = step.changes(step.observe())
    for _ in range(2):  # also by a process that resumes it
        assert dict(step.act(planned, Abort(place.context.run_dir)))["acls"] == "1 copied"
        wait_for("the other's, too", lambda: there() == {ME, "User:shop"})
    with place.at("lyon") as cluster:
        cluster.delete_topic(orders)
    wait_for("the topic is gone", lambda: not place.exists(orders))
    step.undo(planned)
    wait_for("only what was there before", lambda: there() == {ME})


def test_create_topics_gives_the_target_the_quotas_it_lacks_and_its_undo_takes_them_back(place: Place) -> None:
    paris, lyon = (place.context.clusters[alias] for alias in ("paris", "lyon"))
    new, lower, higher = (
        (("client-id", f"{name}-{place.tag}"), ("user", "shop")) for name in ("new", "lower", "higher")
    )
    everyone = (("user", ""),)  # as clients.throttle slows down the producers of a source without an authorizer
    set_producer_quotas(paris, {**dict.fromkeys((new, lower, higher), 2e6), everyone: STANDSTILL})
    set_producer_quotas(lyon, {lower: 1e6, higher: 3e6})
    ours = {new, lower, higher, everyone}

    def on_lyon() -> dict[Entity, float]:
        return {q.entity: q.bytes_per_s for q in producer_quotas(lyon) if q.entity in ours}

    create_topic(place.bootstrap("paris"), f"orders-{place.tag}", 1)
    step = place.step()
    planned = step.changes(step.observe())
    assert dict(step.act(planned, Abort(place.context.run_dir)))["quotas"] == "2 copied"
    assert on_lyon() == {new: 2e6, lower: 2e6, higher: 3e6}
    assert step.probe(planned) is Reach.PARTLY
    assert do(place, place.step())["quotas"] == "0 copied", "done again, it changes nothing"
    place.step().undo(planned)
    wait_for("as before", lambda: on_lyon() == {lower: 1e6, higher: 3e6})
    set_producer_quotas(lyon, {lower: None, higher: None})
    set_producer_quotas(paris, dict.fromkeys(ours))
    wait_for("none is left", lambda: not on_lyon())


def test_create_topics_that_the_target_refuses_are_reported_and_fail_the_scorecard(place: Place) -> None:
    orders = f"orders.{place.tag}"
    create_topic(place.bootstrap("paris"), orders, 1)
    create_topic(place.bootstrap("lyon"), orders.replace(".", "_"), 1)  # `.` and `_` collide in names of metrics
    evidence = do(place, place.step())
    assert orders in str(evidence["refused"])
    assert "collides" in str(evidence["refused"])
    (check,) = step_output.read_part(place.context.run_dir, "topics").checks
    assert check.verdict.value == "fail"
    place.step().undo(())


def test_doctor_names_writers_without_rights_and_settings_that_differ(place: Place) -> None:
    orders = f"orders-{place.tag}"
    create_topic(place.bootstrap("paris"), orders, 2, max_message_bytes="2000000")
    create_topic(place.bootstrap("lyon"), orders, 2, max_message_bytes="1000000")
    shop = acl(ResourceType.TOPIC, orders, AclOperation.WRITE, who="User:shop")
    add_acls(place.bootstrap("paris"), acl(ResourceType.TOPIC, orders, AclOperation.ALL), shop)
    add_acls(place.bootstrap("lyon"), acl(ResourceType.TOPIC, orders, AclOperation.ALL))
    settings = load_mirror_settings(place.properties)
    observed = asyncio.run(observe_flow(settings, settings.flow("paris", "lyon"), PastDrills("runs", ())))
    found = [
        f.evidence
        for f in judge_flow(observed, CheckContext("f", "p:1", "l:1")).findings
        if f.check == "producer-topics" and f.entity == orders
    ]
    assert found == [
        "as on the source it would have max.message.bytes: 1000000 -> 2000000",
        "no ACL of the target lets User:shop write to it",
    ]
    assert {r.operation for r in topic_rules(place.context.clusters["lyon"]) if r.topic == orders} == {Operation.ALL}


def test_create_topics_without_the_source_takes_partitions_and_settings_from_the_mirrors(place: Place) -> None:
    orders = f"orders-{place.tag}"
    create_topic(place.bootstrap("lyon"), f"paris.{orders}", 3, retention_ms="7200000")
    text = place.properties.read_text()
    place.properties.write_text(text.replace(f"paris.bootstrap.servers = {place.bootstrap('paris')}", DEAD))
    place.context.clusters["paris"] = ClusterSettings("paris", ("127.0.0.1:1",))  # type: ignore[index]
    found = place.findings()
    assert found[orders].severity is Severity.WARN
    assert "--partitions 3" in found[orders].fix
    evidence = do(place, place.step())
    assert (evidence["created"], evidence["settings_from"]) == (orders, "the mirror topics")
    with place.at("lyon") as cluster:
        assert cluster.topics([orders])[orders].partitions == 3
        assert cluster.topic_config([orders])[orders]["retention.ms"] == "7200000"


DEAD = "paris.bootstrap.servers = 127.0.0.1:1"
