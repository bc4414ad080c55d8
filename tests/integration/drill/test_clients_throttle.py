"""Quotas slow down every producer of a cluster but the mirror, and exactly what was there comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from fix_engine import wait_for

from drlib.drill.actions.clients.throttle_rules import EVERY_USER, NO_LIMIT
from drlib.drill.actions.clients.throttled import ThrottledProducers
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.plan.progress import Reach
from drlib.drill.run import registry
from drlib.drill.run.lease import Lease
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, UsageError
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.admin.quotas import STANDSTILL, Entity, producer_quotas, set_producer_quotas
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.brokers.security import MODES
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import LabMirrors
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics, log_ends
from drlib.model import Flow
from drlib.runs import folder as folders
from drlib.runs.abort import Abort

FLOW = Flow("LEFT", "RIGHT")
NO_ABORT = Abort(Path("/nowhere"))
OF_MIRROR: Entity = (("client-id", "drlib-RIGHT"), ("user", ""))
OF_DRILLS: Entity = (("client-id", "drlib-drills"), ("user", ""))
WEB: Entity = (("client-id", "web"),)
BEFORE: Mapping[Entity, float] = {EVERY_USER: 5e8, WEB: 1e8}


@dataclass
class Site:
    lab: Lab
    root: Path
    mirrors: LabMirrors

    @property
    def right(self) -> ClusterSettings:
        return self.lab.clusters["RIGHT"].settings()

    def step(self, action: str, run: str = "run", **arguments: str | tuple[str, ...]) -> Action:
        run_dir = self.root / "runs" / run
        run_dir.mkdir(parents=True, exist_ok=True)
        place = DrillContext(
            clusters={alias: self.lab.clusters[alias].settings() for alias in self.lab.aliases},
            flow=FLOW,
            run_dir=run_dir,
            properties=self.mirrors.properties,
            lab=self.lab,
        )
        given = tuple(Argument(key, value) for key, value in {"cluster": "RIGHT", **arguments}.items())
        return registry.make_action(Call(action, given), place, action)

    def quotas(self) -> dict[Entity, float]:
        return {quota.entity: quota.bytes_per_s for quota in producer_quotas(self.right)}

    def mirror(self, records: int) -> None:
        """Write them to LEFT, and wait until they have crossed."""
        with acknowledged(self.lab.clusters["LEFT"]) as producer:
            for _ in range(records):
                producer.produce("orders", b"x" * 1000)
                producer.poll(0)
        ends = log_ends(self.lab.clusters["LEFT"], ["orders"])
        wait_for(f"{records} records crossed", lambda: self.mirrors.crossed(FLOW, ends), 60)


@pytest.fixture(scope="module", params=["without logins", "scram"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """With logins the mirror and all producers here are one super user: the client ID alone tells them apart."""
    root = tmp_path_factory.mktemp("throttle")
    with Lab(root / "lab", security=MODES.get(request.param)) as lab:
        create_topics(lab.clusters["LEFT"].settings(), [TopicSpec("orders", 2)])
        create_topics(lab.clusters["RIGHT"].settings(), [TopicSpec("own", 1)])
        mirrors = LabMirrors(lab, "mirror", "orders", (FLOW,), positions=True)
        mirrors.start(NO_ABORT)
        made = Site(lab, root, mirrors)
        set_producer_quotas(made.right, BEFORE)
        wait_for("the cluster has quotas", lambda: made.quotas() == BEFORE)
        yield made


def done(action: Action) -> dict[str, object]:
    return dict(action.act(action.changes(action.observe()), NO_ABORT))


def written(site: Site, records: int, within_s: float) -> int:
    """How many of so many records, in as many requests, a new producer of librdkafka is acknowledged in that time."""
    acked: list[None] = []
    producer = Producer({**librdkafka(site.right), "log_level": 0, "linger.ms": 0})
    for _ in range(records):
        producer.produce("own", b"y" * 100, on_delivery=lambda error, _: acked.append(None) if error is None else None)
        producer.flush(within_s / records)
    producer.flush(within_s)
    producer.purge()
    return len(acked)


def test_producers_come_to_a_standstill_the_mirror_writes_on_and_an_undo_gives_back_what_was_there(site: Site) -> None:
    assert written(site, 20, 10) == 20
    throttle = site.step("clients.throttle")
    changes = throttle.changes(throttle.observe())
    assert [change.after for change in changes] == ["1 byte per second, but for drlib-RIGHT, drlib-drills"]
    evidence = dict(throttle.act(changes, NO_ABORT))
    assert (evidence["bytes_per_second"], evidence["not_throttled"]) == (1.0, "drlib-RIGHT, drlib-drills")
    wait_for(
        "they are set", lambda: site.quotas() == {**BEFORE, EVERY_USER: STANDSTILL, OF_MIRROR: 5e8, OF_DRILLS: 5e8}
    )
    assert 0 < written(site, 20, 6) < 20  # its first request is written, and what was on its way
    site.mirror(30_000)
    assert written(site, 20, 6) < 20
    assert throttle.probe(changes) is Reach.PARTLY
    throttle.undo(changes)
    wait_for("exactly as before", lambda: site.quotas() == BEFORE)
    throttle.undo(changes)
    assert (site.quotas(), throttle.probe(changes)) == (BEFORE, Reach.UNTOUCHED)
    assert written(site, 20, 20) == 20


def test_quotas_that_are_more_specific_are_named_and_nothing_is_set(site: Site) -> None:
    alice: Entity = (("client-id", "till"), ("user", "alice"))
    set_producer_quotas(site.right, {alice: 1e6})
    wait_for("it is there", lambda: alice in site.quotas())
    throttle = site.step("clients.throttle", "escapes")
    with pytest.raises(UsageError, match=r"1 quotas on RIGHT let producers write on: .* client-id till, user alice"):
        throttle.changes(throttle.observe())
    assert site.quotas() == {**BEFORE, alice: 1e6}
    set_producer_quotas(site.right, {alice: None})
    wait_for("it is gone", lambda: site.quotas() == BEFORE)


def test_quotas_are_taken_back_by_a_run_beside_it_and_set_again_by_its_undo(site: Site) -> None:
    throttle = site.step("clients.throttle", "first", keep=("web",))
    assert done(throttle)["not_throttled"] == "drlib-RIGHT, drlib-drills, web"
    ended = site.root / "runs" / "first"
    folders.seal(ended)
    kept_web: Entity = (("client-id", "web"), ("user", ""))
    wait_for("they are set", lambda: site.quotas()[EVERY_USER] == STANDSTILL)
    assert site.quotas()[kept_web] == 5e8
    admit = site.step("clients.admit", "second")
    changes = admit.changes(admit.observe())
    assert dict(admit.act(changes, NO_ABORT))["quotas_taken_back"] == 4
    wait_for("exactly as before", lambda: site.quotas() == BEFORE)
    assert folders.differences(ended) == ()  # the first run's evidence still holds
    assert admit.probe(changes) is Reach.DONE
    throttle.undo(())
    assert site.quotas() == BEFORE


def test_quota_that_another_client_changed_is_left_and_named(site: Site) -> None:
    throttle = site.step("clients.throttle", "changed")
    done(throttle)
    set_producer_quotas(site.right, {EVERY_USER: 7e6})
    wait_for("it is changed", lambda: site.quotas()[EVERY_USER] == 7e6)
    with pytest.raises(Deviated, match=r"another client changed them since: user \(default\) \(500000000 before\)"):
        throttle.undo(())
    wait_for("the others are back", lambda: site.quotas() == {**BEFORE, EVERY_USER: 7e6})
    set_producer_quotas(site.right, BEFORE)
    wait_for("as before", lambda: site.quotas() == BEFORE)


def test_quotas_that_were_recorded_and_never_set_are_set_by_the_resumed_step(site: Site) -> None:
    """Killed between the record and the request."""
    throttle = site.step("clients.throttle", "killed")
    changes = throttle.changes(throttle.observe())
    recorded = ThrottledProducers(site.root / "runs" / "killed", site.right)
    recorded.record({EVERY_USER: STANDSTILL, OF_MIRROR: NO_LIMIT})
    assert throttle.probe(changes) is Reach.PARTLY
    throttle.act(changes, NO_ABORT)
    wait_for("they are set", lambda: site.quotas() == {**BEFORE, EVERY_USER: STANDSTILL, OF_MIRROR: NO_LIMIT})
    throttle.undo(changes)
    wait_for("exactly as before", lambda: site.quotas() == BEFORE)


def test_run_on_a_throttled_target_does_not_wait_before_each_of_its_steps(site: Site) -> None:
    """The state that a run writes there before each step took ten seconds each time."""
    throttle = site.step("clients.throttle", "leased")
    changes = throttle.changes(throttle.observe())
    with Lease(site.right, FLOW, "a-run") as lease:
        throttle.act(changes, NO_ABORT)
        wait_for("they are set", lambda: site.quotas().get(OF_DRILLS) == 5e8)
        assert written(site, 20, 6) < 20
        began = time.monotonic()
        for number in range(3):
            lease.confirm([f"step {number}"])
        assert time.monotonic() - began < 10
    throttle.undo(changes)
    wait_for("exactly as before", lambda: site.quotas() == BEFORE)
