"""Clients are made to leave a cluster that stays up: refused by their address, closed by a rolling restart, admitted again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fix_engine import create_topic, wait_for
from testbed_members import join
from testbed_share_groups import in_group, members_gone

from drlib import clock
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.drill.actions.clients.limits import ClientLimits
from drlib.drill.actions.clients.rules import OVERRIDES, PER_IP
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.plan.progress import Reach
from drlib.drill.run import registry
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import ConfigChange, ConfigSource
from drlib.lab.clients import runtimes
from drlib.lab.clients.families import BY_NAME, chosen
from drlib.lab.clients.on_lab import Chosen, LabClients
from drlib.lab.clients.rules import Move, continued
from drlib.lab.lab import Lab
from drlib.lab.link.link import APPS_HOST
from drlib.model import Flow
from drlib.runs import folder as folders
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar

FLOW = Flow("LEFT", "RIGHT")
NO_ABORT = Abort(Path("/nowhere"))
OURS = "10.9.9.9:7"  # an override that was there before


@dataclass
class Site:
    lab: Lab
    root: Path

    def step(self, action: str, run: str = "run", **arguments: str | float | bool | tuple[str, ...]) -> Action:
        run_dir = self.root / "runs" / run
        run_dir.mkdir(parents=True, exist_ok=True)
        place = DrillContext(
            clusters={alias: self.lab.clusters[alias].settings() for alias in self.lab.aliases},
            flow=FLOW,
            run_dir=run_dir,
            properties=self.lab.write_properties(self.root / "mm2.properties"),
            lab=self.lab,
        )
        given = tuple(Argument(key, value) for key, value in arguments.items())
        return registry.make_action(Call(action, given), place, action)

    def own(self) -> dict[str, str | None]:
        """What is set on LEFT's broker itself."""
        with Cluster(self.lab.clusters["LEFT"].settings()) as left:
            values = {each.name: each for each in left.broker_settings()[1]}
        return {
            name: values[name].value if values[name].source is ConfigSource.DYNAMIC_BROKER else None
            for name in (PER_IP, OVERRIDES)
        }

    def set(self, **changes: str | None) -> None:
        with Cluster(self.lab.clusters["LEFT"].settings()) as left:
            left.alter_broker_settings(1, [ConfigChange(name, None, new) for name, new in changes.items()])

    def admitted(self, address: str) -> bool:
        """Whether a new connection from `address` stays open."""
        port = self.lab.clusters["LEFT"].brokers[0].spec.apps_port
        with closing(socket.create_connection(("127.0.0.1", port), 5, (address, 0))) as connection:
            connection.settimeout(1)
            try:
                return connection.recv(1) != b""
            except TimeoutError:
                return True


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("leave")
    with Lab(root / "lab") as lab:
        yield Site(lab, root)


def done(action: Action) -> dict[str, object]:
    return dict(action.act(action.changes(action.observe()), NO_ABORT))


def test_clients_stay_while_their_connections_do_and_leave_with_a_rolling_restart(site: Site) -> None:
    lab, left = site.lab, site.lab.clusters["LEFT"]
    pointer = site.root / "pointer.json"
    pointer_file.write_atomic(pointer, Pointer(1, "LEFT", left.bootstrap))
    clients = LabClients(lab, site.root, FLOW, pointer)
    clients.start(Chosen(chosen(["java"], runtimes.found())))
    (one,) = clients.each()
    wait_for("they work", lambda: clients.processed(one) > 20, 90)
    site.set(**{OVERRIDES: OURS})
    wait_for("it is in effect", lambda: site.own() == {PER_IP: None, OVERRIDES: OURS})

    refuse = site.step("clients.refuse", hosts=(APPS_HOST,))
    evidence = done(refuse)
    assert (evidence["brokers"], evidence["groups"]) == (1, one.name)
    assert (site.admitted("127.0.0.1"), site.admitted(APPS_HOST)) == (True, False)
    so_far = clients.processed(one)
    wait_for("open connections stay", lambda: clients.processed(one) > so_far + 40)
    with pytest.raises(Deviated, match=rf"members of groups: {one.name} at {APPS_HOST}; logs that grow: flights-"):
        done(site.step("clients.gone", within_s=2.0))

    done(site.step("lab.roll_brokers", cluster="LEFT"))
    gone = done(site.step("clients.gone", members=False, still_s=2.0))
    assert gone["partitions"] == 1
    fault_ms = clock.now_ms()
    pointer_file.write_atomic(pointer, Pointer(2, "RIGHT", lab.clusters["RIGHT"].bootstrap))
    move = Move("LEFT", "RIGHT", fault_ms, fault_ms, planned=True)
    wait_for("they continue", lambda: continued(BY_NAME["java"], clients.seen(one), move), 60)
    clients.stop_all()

    admit = site.step("clients.admit")
    changes = admit.changes(admit.observe())
    assert done(admit)["brokers"] == 1
    wait_for("exactly as before", lambda: site.own() == {PER_IP: None, OVERRIDES: OURS})
    assert site.admitted(APPS_HOST)
    assert (admit.probe(changes), list(admit.changes(admit.observe()))) == (Reach.DONE, [])
    admit.undo(changes)
    wait_for("an undo refuses again", lambda: not site.admitted(APPS_HOST))
    refuse.undo(())
    refuse.undo(())
    wait_for("and a rollback gives back", lambda: site.own() == {PER_IP: None, OVERRIDES: OURS})
    assert site.admitted(APPS_HOST)
    site.set(**{OVERRIDES: None})


def test_members_of_share_groups_and_of_connect_are_seen_and_waited_for(site: Site) -> None:
    """confluent-kafka lists neither of both groups."""
    left = site.lab.clusters["LEFT"]
    create_topic(left.bootstrap, "jobs", 1)
    refuse = site.step("clients.refuse", "share", hosts=(APPS_HOST,))
    with in_group(left.apps_bootstrap, "sharers", "jobs"):
        wait_for("the share group has a member", lambda: not members_gone(left.bootstrap, "sharers"))
        join(left.apps_bootstrap, "workers", "connect", "sessioned")
        assert {"sharers", "workers"} <= {*str(done(refuse)["groups"]).split(", ")}
        with pytest.raises(Deviated) as found:
            done(site.step("clients.gone", "share", still_s=0.1, within_s=1.0))
        assert f"sharers at {APPS_HOST}, workers at {APPS_HOST}" in found.value.why
    refuse.undo(())
    wait_for("nothing is set", lambda: site.own() == {PER_IP: None, OVERRIDES: None})


def test_kept_addresses_this_host_and_brokers_are_admitted_and_all_others_refused(site: Site) -> None:
    refuse = site.step("clients.refuse", "keep", keep=("10.1.2.0/31",))
    changes = refuse.changes(refuse.observe())
    assert [change.after for change in changes] == ["0; 10.1.2.0:2147483647,10.1.2.1:2147483647,127.0.0.1:2147483647"]
    refuse.act(changes, NO_ABORT)
    assert refuse.probe(changes) is Reach.DONE
    assert (site.admitted("127.0.0.1"), site.admitted(APPS_HOST)) == (True, False)
    other = site.step("clients.admit", "another-run")  # a run beside it
    assert done(other)["brokers"] == 1
    wait_for("nothing is set", lambda: site.own() == {PER_IP: None, OVERRIDES: None})
    assert site.admitted(APPS_HOST)
    assert refuse.probe(changes) is Reach.UNTOUCHED


def test_addresses_of_this_host_names_and_doubtful_arguments_are_refused_before_anything_is_written(site: Site) -> None:
    with pytest.raises(UsageError, match="either hosts or keep"):
        site.step("clients.refuse")
    with pytest.raises(UsageError, match="neither an address nor a network"):
        site.step("clients.refuse", hosts=("app.example",))
    own = site.step("clients.refuse", hosts=("127.0.0.1", "10.0.0.1"))
    with pytest.raises(UsageError, match=r"127\.0\.0\.1 cannot be refused: this host or a broker of LEFT"):
        own.changes(own.observe())
    assert site.own() == {PER_IP: None, OVERRIDES: None}


def test_setting_that_another_one_changed_meanwhile_is_left_and_named(site: Site) -> None:
    refuse = site.step("clients.refuse", "changed", keep=("10.1.2.3",))
    done(refuse)
    site.set(**{OVERRIDES: f"127.0.0.1:50,{OURS}"})
    wait_for("it is in effect", lambda: site.own()[OVERRIDES] == f"127.0.0.1:50,{OURS}")
    with pytest.raises(
        Deviated, match=rf"another client changed them since: {OVERRIDES} of broker 1 \(not set before\)"
    ):
        refuse.undo(())
    wait_for("the other one is back", lambda: site.own() == {PER_IP: None, OVERRIDES: f"127.0.0.1:50,{OURS}"})
    refuse.undo(())  # what is left is not ours
    site.set(**{OVERRIDES: None})


def test_limits_that_two_runs_wrote_one_over_the_other_are_taken_back_to_what_was_before_both(site: Site) -> None:
    done(site.step("clients.refuse", "2001-01-01", hosts=(APPS_HOST,)))  # it was left as it is
    folders.seal(site.root / "runs" / "2001-01-01")
    done(site.step("clients.refuse", "2001-01-02", hosts=("10.1.1.2",)))
    wait_for("both", lambda: site.own() == {PER_IP: None, OVERRIDES: f"{APPS_HOST}:0,10.1.1.2:0"})
    admit = site.step("clients.admit", "2001-01-02")
    assert done(admit)["brokers"] == 1
    wait_for("nothing is set", lambda: site.own() == {PER_IP: None, OVERRIDES: None})
    assert site.admitted(APPS_HOST)
    assert folders.differences(site.root / "runs" / "2001-01-01") == ()  # the first run's evidence still holds


def test_limits_of_a_plan_with_a_broker_that_is_gone_for_good_are_undone(site: Site) -> None:
    """Its entries were removed from what is recorded, as the error of the undo says."""
    refuse = site.step("clients.refuse", "gone", hosts=("10.1.2.3",))
    changes = refuse.changes(refuse.observe())
    gone = replace(changes[0], entity=changes[0].entity.replace("broker 1", "broker 9"))
    assert refuse.probe((*changes, gone)) is Reach.UNTOUCHED
    refuse.act(changes, NO_ABORT)
    assert refuse.probe((*changes, gone)) is Reach.DONE
    refuse.undo((*changes, gone))
    wait_for("they are as before", lambda: refuse.probe((*changes, gone)) is Reach.UNTOUCHED)


def test_limits_that_were_recorded_and_never_written_are_given_back_as_they_are(site: Site) -> None:
    """Killed between the record and the request."""
    refuse = site.step("clients.refuse", "killed", hosts=(APPS_HOST,))
    changes = refuse.changes(refuse.observe())
    run_dir = site.root / "runs" / "killed"
    limits = ClientLimits(run_dir, site.lab.clusters["LEFT"].settings())
    rows: list[dict[str, Scalar]] = [
        {
            "cluster_id": site.lab.clusters["LEFT"].cluster_id,
            "broker": 1,
            "setting": OVERRIDES,
            "before": None,
            "after": f"{APPS_HOST}:0",
        }
    ]
    details.write_rows(run_dir, "client-limits.LEFT", rows)
    assert (limits.written(), refuse.probe(changes)) == (1, Reach.PARTLY)
    refuse.act(changes, NO_ABORT)
    assert not site.admitted(APPS_HOST)
    refuse.undo(changes)
    wait_for("nothing is set", lambda: site.own() == {PER_IP: None, OVERRIDES: None})
    assert (limits.written(), refuse.probe(changes)) == (0, Reach.UNTOUCHED)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_broker_that_does_not_answer_holds_up_no_other_and_gets_its_values_back_later(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", ("LEFT", "RIGHT"), brokers=3) as lab:
        one = Site(lab, tmp_path)
        refuse, admit = one.step("clients.refuse", hosts=("10.1.2.3",)), one.step("clients.admit")
        changes = refuse.changes(refuse.observe())
        assert refuse.act(changes, NO_ABORT)["brokers"] == 3
        brokers = lab.clusters["LEFT"].brokers
        written = ClientLimits(tmp_path / "runs" / "run", lab.clusters["LEFT"].settings())
        first = next(broker for broker in brokers if broker.spec.node_id == written.rows()[0]["broker"])
        first.kill()

        def refused() -> set[int]:
            return {int(row["broker"] or 0) for row in written.rows()}

        for _ in range(2):  # a rollback that is resumed, too
            with pytest.raises(Unreachable, match=f"of brokers {first.spec.node_id} on LEFT were not put back"):
                refuse.undo(changes)
            assert refused() == {first.spec.node_id}
        with pytest.raises(Unreachable):
            done(admit)
        alive = [broker.spec.node_id for broker in brokers if broker is not first]
        with Cluster(lab.clusters["LEFT"].settings()) as left:
            values = {node: left.broker_settings([node])[node] for node in alive}
        assert not any(
            each.source is ConfigSource.DYNAMIC_BROKER
            for found in values.values()
            for each in found
            if each.name == OVERRIDES
        )
        first.restart()
        assert done(admit)["brokers"] == 1
        assert refused() == set()
