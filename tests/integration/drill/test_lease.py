"""The lease of a flow on a real broker: one holder, the dead replaced, the one that was stopped fenced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from deadline import Deadline
from fix_engine import wait_for
from fix_lab import LabFactory

from drlib.drill.plan import lease_record as drill_lease
from drlib.drill.plan.lease_record import session_ms
from drlib.drill.plan.states import DrillState
from drlib.drill.run.lease import Lease, LeaseLost, read_record
from drlib.errors import LeaseHeld, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import Flow

SESSION_MS = 6000  # the least a broker takes unasked: group.min.session.timeout.ms
HOLDER = """
import sys
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.drill.run.lease import Lease, LeaseLost
from drlib.model import Flow
from drlib.drill.plan.states import DrillState
target, flow = ClusterSettings("RIGHT", (sys.argv[1],)), Flow("LEFT", sys.argv[2])
with Lease(target, flow, "theirs", session_timeout_ms=6000) as lease:
    lease.write(DrillState.RUNNING)
    print("held", flush=True)
    sys.stdin.readline()
    try:
        lease.write(DrillState.FAILED_OVER)
        print("written", flush=True)
    except LeaseLost as error:
        print("lost", error, flush=True)
"""


@pytest.fixture
def target(right: str) -> ClusterSettings:
    return ClusterSettings("RIGHT", (right,))


@pytest.fixture
def flow() -> Flow:
    return Flow("LEFT", f"RIGHT{uuid.uuid4().hex[:6]}")


@pytest.fixture
def holder(right: str, flow: Flow) -> Iterator[subprocess.Popen[str]]:
    """Another process, that holds the lease and is in the middle of running."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, right, flow.target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()


def test_lease_has_one_holder_and_is_released_on_every_exit(target: ClusterSettings, flow: Flow) -> None:
    def refused(cluster: Cluster, lease: Lease) -> None:
        assert (lease.state, lease.run_id) == (DrillState.READY, "")
        lease.write(DrillState.TESTING)
        found = read_record(cluster, flow)
        assert (found.state, found.run) == (DrillState.TESTING, "one")
        assert found.holder is not None
        assert found.holder.pid == os.getpid()
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(LeaseHeld, match=rf"pid {os.getpid()}.* run one.* testing") as refusal:
                Lease(target, flow, "two").__enter__()
            assert not isinstance(refusal.value, LeaseLost)
            assert refusal.value.exit_code == 10
            assert time.monotonic() - began < 5
            lease.confirm()
        raise ZeroDivisionError

    def hold(cluster: Cluster) -> None:
        with Lease(target, flow, "one", session_timeout_ms=SESSION_MS) as lease:
            refused(cluster, lease)

    with Cluster(target) as cluster:
        assert read_record(cluster, flow).state is DrillState.READY
        with pytest.raises(ZeroDivisionError):
            hold(cluster)
        assert cluster.group_members(drill_lease.group(flow)) == ()
        given_back = read_record(cluster, flow)
        assert (given_back.state, given_back.run, given_back.holder) == (DrillState.TESTING, "one", None)
    with Lease(target, flow, "two", session_timeout_ms=SESSION_MS) as lease:
        assert (lease.state, lease.run_id) == (DrillState.TESTING, "one")


@pytest.mark.long
def test_lease_of_many_claimants_has_one_holder(target: ClusterSettings, flow: Flow) -> None:
    held: list[str] = []
    refused: list[LeaseHeld] = []
    together = threading.Barrier(4)

    def come(name: str) -> None:
        together.wait()
        try:
            with Lease(target, flow, name, session_timeout_ms=SESSION_MS) as lease:
                held.append(name)
                deadline = Deadline(20)
                while len(refused) < 3 and not deadline.passed:
                    lease.confirm()
        except LeaseHeld as error:
            refused.append(error)

    threads = [threading.Thread(target=come, args=[str(n)]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 1
    assert len(refused) == 3
    assert not any(isinstance(error, LeaseLost) for error in refused)


def test_lease_stopped_and_replaced_holder_writes_nothing(
    target: ClusterSettings, flow: Flow, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    with pytest.raises(LeaseHeld, match="pid"):
        Lease(target, flow, "ours").__enter__()
    with Lease(target, flow, "ours", session_timeout_ms=SESSION_MS, wait_s=30) as lease:
        assert SESSION_MS / 1000 - 2 < time.monotonic() - stopped < SESSION_MS / 1000 + 10
        assert (lease.state, lease.run_id) == (DrillState.RUNNING, "theirs")
        lease.write(DrillState.INCOMPLETE)
        holder.send_signal(signal.SIGCONT)
        output, _ = holder.communicate("\n", timeout=30)
        assert output.startswith("lost")
        lease.confirm()
        with Cluster(target) as cluster:
            found = read_record(cluster, flow)
        assert (found.state, found.run) == (DrillState.INCOMPLETE, "ours")


def test_lease_of_a_process_that_was_killed_is_taken_at_once_where_its_run_is_resumed(
    target: ClusterSettings, flow: Flow, tmp_path: Path
) -> None:
    """Its session is as long as a coordinator may take to move; a run that is resumed here does not wait for its end."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    script = HOLDER.replace("session_timeout_ms=6000", f"folder=Path({str(folder)!r})")
    with subprocess.Popen(
        [sys.executable, "-c", f"from pathlib import Path\n{script}", target.bootstrap_servers[0], flow.target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LeaseHeld):
            Lease(target, flow, "theirs", folder=folder).__enter__()
        process.kill()
    with pytest.raises(LeaseHeld, match="A holder that died is out after 20 s"):
        Lease(target, flow, "theirs", folder=tmp_path / "elsewhere").__enter__()
    with Lease(target, flow, "theirs", folder=folder) as lease:
        assert (lease.state, lease.run_id) == (DrillState.RUNNING, "theirs")
        lease.confirm()


@pytest.mark.long
def test_lease_outlasts_its_coordinators_being_killed_where_other_brokers_take_over(lab_factory: LabFactory) -> None:
    """Three brokers with Kafka's own `broker.session.timeout.ms`: the group is as it was on the next coordinator."""
    cluster = lab_factory(aliases=("RIGHT",), brokers=3, extra={"broker.session.timeout.ms": "9000"}).clusters["RIGHT"]
    target, flow = cluster.settings(), Flow("LEFT", "RIGHT")

    async def coordinator(kind: Literal["group", "transaction"]) -> int:
        async with wire_client(target, client_id="test") as client:
            return await client.coordinator(drill_lease.group(flow), kind)

    with Lease(target, flow, "ours") as lease:
        for kind in ("group", "transaction"):
            lease.confirm()
            node = blocking(coordinator(kind))
            broker = cluster.brokers[node - 1]
            broker.kill()
            wait_for("another broker coordinates it", lambda kind=kind, node=node: blocking(coordinator(kind)) != node)
            lease.confirm()
            assert not lease.lost
            broker.launch()
            broker.wait_ready(60)


@pytest.mark.long
@pytest.mark.parametrize("noticed", [True, False], ids=["its heartbeats failed", "at once"])
def test_lease_on_a_target_that_is_frozen_is_not_said_to_be_held_by_another(
    lab: Lab, flow: Flow, noticed: bool
) -> None:
    broker = lab.clusters["RIGHT"]
    target = ClusterSettings("RIGHT", (broker.bootstrap,))
    with Lease(target, flow, "ours", session_timeout_ms=SESSION_MS) as lease:
        broker.pause()
        try:
            if noticed:
                wait_for("its heartbeats fail", lambda: lease.lost, 60)
            with pytest.raises(Unreachable, match=r"RIGHT.* does not answer") as unconfirmed:
                lease.confirm()
        finally:
            broker.resume()
    assert unconfirmed.value.exit_code == Unreachable.exit_code
    assert not isinstance(unconfirmed.value, LeaseHeld)


@pytest.mark.long
def test_lease_of_a_run_that_restarts_the_target_outlasts_its_brokers_being_down(lab_factory: LabFactory) -> None:
    """The target is down until a lease with the usual session is lost; no other run may begin once it is up again."""
    broker, flow = lab_factory(aliases=("RIGHT",)).clusters["RIGHT"], Flow("LEFT", "RIGHT")
    target = broker.settings()
    usual = Lease(target, Flow("OTHER", "RIGHT"), "usual")
    with usual, Lease(target, flow, "ours", session_timeout_ms=session_ms([60])) as lease:
        broker.stop()
        wait_for("a lease with the usual session is lost", lambda: usual.lost, 60)
        assert not lease.lost
        broker.restart()
        lease.confirm()
        with pytest.raises(LeaseHeld, match="A holder that died is out after 80 s"):
            Lease(target, flow, "theirs").__enter__()
        lease.write(DrillState.RUNNING)
        with pytest.raises(LeaseLost):
            usual.confirm()
