"""What is said of a cluster that refuses this host or throttles it, or some of whose brokers do: it does answer."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import cast

import pytest

from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.observe.clusters import AskedCluster, connect
from drlib.errors import Unreachable
from drlib.kafka.admin.connect import Refused
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net.cluster_client import (
    Broker,
    ClusterClient,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    WrongCluster,
)
from drlib.kafka.net.connection import Connection
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import CANNOT_USE, Fault, fault
from drlib.lab.ports import free_ports

LEFT = ClusterSettings("LEFT", ("h:1",))
LOGIN = fault(Fault.WRONG_CREDENTIALS, "h:1", mechanism="SCRAM-SHA-512", detail="invalid credentials")
CERTIFICATE = fault(Fault.UNKNOWN_CA, "h:2")


@pytest.mark.parametrize("refusal", [LOGIN, CERTIFICATE, fault(Fault.WRONG_HOST_NAME, "h:1")], ids=lambda e: e.fault)
async def test_cluster_that_refuses_this_host_is_asked_nothing_and_every_answer_has_the_setting_to_correct(
    refusal: Exception,
) -> None:
    asked = AskedCluster(LEFT, None, None, Refused.by(refusal))  # type: ignore[arg-type]
    answer = asked.answer()
    assert answer.refused
    assert answer.error.startswith(CANNOT_USE)
    assert answer.fix == refusal.remedy  # type: ignore[attr-defined]
    assert asked.unanswered == Unanswered(f"LEFT: {answer.error}", answer.fix)
    assert await asked.ask_blocking(lambda: 1, 1.0) == asked.unanswered


async def test_connect_secret_that_is_not_here_is_no_dead_cluster_and_a_closed_port_is_one(tmp_path: Path) -> None:
    address = (f"127.0.0.1:{free_ports(1)[0]}",)
    lacks = {"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "gone.p12")}
    without_store = await connect(ClusterSettings("LEFT", address, lacks))
    assert without_store.answer().refused
    assert "ssl.truststore.location" in without_store.unanswered.why
    dead = await connect(ClusterSettings("LEFT", address))
    assert not dead.answer().refused
    assert dead.unanswered == Unanswered("LEFT does not answer", "Restore LEFT, then run drlib doctor again.")


async def test_connect_keeps_how_a_cluster_was_found_silent() -> None:
    for found, refused in ((Refused.by(LOGIN), True), (Unreachable("LEFT", "refused", "Start it."), False)):
        asked = await connect(LEFT, silence=found)
        assert asked.client is not None
        assert (asked.answer().refused, found.why in asked.answer().error) == (refused, True)


def test_cluster_with_another_id_is_not_called_silent() -> None:
    asked = AskedCluster(LEFT, None, None, WrongCluster("h:1", "a", "b", alias="LEFT"))
    assert "its cluster ID is b and not a" in asked.unanswered.why
    assert asked.unanswered.fix.startswith("Correct LEFT.bootstrap.servers")
    assert not asked.answer().refused


@pytest.mark.parametrize(
    ("silent", "refused", "is_refused", "fix"),
    [
        ((), (2,), True, CERTIFICATE.remedy),
        ((1,), (2,), False, f"Start the brokers of LEFT that do not answer (1). {CERTIFICATE.remedy}"),
        ((1, 2), (), False, "Start the brokers of LEFT that do not answer (1, 2)."),
    ],
)
def test_cluster_of_which_brokers_refuse_this_host_names_what_is_refused(
    silent: tuple[int, ...], refused: tuple[int, ...], is_refused: bool, fix: str
) -> None:
    rows = {n: PartitionMetadata(n, n + 1, 0, (1, 2), (1, 2), 0) for n in range(2)}
    topic = TopicMetadata("orders", uuid.UUID(int=1), 0, rows, False)
    listed = {node: Broker(node, "h", node) for node in (1, 2)}
    why = dict.fromkeys(silent, "no answer") | {node: f"h:{node}: {CANNOT_USE}: {CERTIFICATE.why}" for node in refused}
    service = ClusterService(
        ClusterMetadata("id", 1, listed, {"orders": topic}), why, {}, dict.fromkeys(refused, CERTIFICATE)
    )
    asked = AskedCluster(LEFT, None, service.metadata, None, service)
    answer = asked.answer(["orders"])
    assert (answer.refused, answer.fix) == (is_refused, fix)
    assert (CERTIFICATE.why in answer.error) is bool(refused)
    assert ("Restore" in asked.unanswered.fix) is not bool(refused)


class Paused:
    """A connection on which the broker has announced so many seconds of pauses."""

    def __init__(self, paused_s: float) -> None:
        self.paused_s = paused_s


@pytest.mark.parametrize(("paused_s", "why"), [(0.0, "no answer within"), (0.01, "PARIS throttles this user")])
async def test_question_that_a_quota_leaves_no_time_for_names_the_quota(paused_s: float, why: str) -> None:
    client = ClusterClient(["127.0.0.1:1"], alias="PARIS")
    asked = AskedCluster(
        ClusterSettings("PARIS", ("127.0.0.1:1",)), client, ClusterMetadata("c", 1, {}, {}), service=None
    )
    paused = Paused(paused_s)

    async def question() -> str:
        client._all.add(cast(Connection, paused))
        await asyncio.sleep(60)
        return "an answer"

    answer = await asked.ask(question(), 0.05)
    assert isinstance(answer, Unanswered)
    assert answer.why.startswith(why)


async def test_question_is_waited_for_as_long_as_a_quota_pauses_it() -> None:
    client = ClusterClient(["127.0.0.1:1"], alias="PARIS")
    asked = AskedCluster(ClusterSettings("PARIS", ("127.0.0.1:1",)), client, ClusterMetadata("c", 1, {}, {}))
    paused = Paused(3600.0)

    async def question() -> str:
        client._all.add(cast(Connection, paused))
        await asyncio.sleep(1.1)
        return "an answer"

    assert await asked.ask(question(), 1.0) == "an answer"
