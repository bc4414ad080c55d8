"""Which of a cluster's addresses is used, and whose word about leaders counts."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from pathlib import Path
from typing import cast

import pytest
from testbed_peer import listening

from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.net import cluster_client
from drlib.kafka.net.cluster_client import (
    Broker,
    ClusterClient,
    ClusterMetadata,
    PartitionMetadata,
    Throttled,
    TopicMetadata,
    _Topics,
)
from drlib.kafka.net.connection import Connection
from drlib.kafka.security.credentials import Security, Tls
from drlib.kafka.security.errors import Fault, SecurityFault
from drlib.lab.brokers.certificates import Authority


async def test_broker_whose_certificate_is_refused_does_not_keep_others_from_being_asked(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    asked = asyncio.Event()

    async def asks_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        asked.set()

    def server(authority: Authority) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(authority.issue("broker"))
        return made

    async with listening(asks_nothing, server(others)) as bad, listening(asks_nothing, server(ours)) as good:
        security = Security(tls=Tls(ca_pem=ours.certificate.read_text()))
        client = ClusterClient([f"127.0.0.1:{bad}", f"127.0.0.1:{good}"], security=security, timeout_s=5)
        with pytest.raises(DrlibError) as met:  # the other one is no broker
            await client.connect()
        assert asked.is_set()
        assert client.refusal is met.value
        await client.close()
        assert isinstance(met.value, SecurityFault)
        assert met.value.fault is Fault.UNKNOWN_CA


@pytest.mark.parametrize("age_s", [0.0, cluster_client.RENEWED_S + 1])
async def test_authority_that_was_removed_from_the_trust_store_is_not_trusted_by_a_client_that_runs(
    tmp_path: Path, age_s: float
) -> None:
    """Nothing is refused that would have the store read again: the broker still has the certificate of the former authority."""
    former, new = Authority(tmp_path / "former"), Authority(tmp_path / "new")
    new.prepare()
    trusted = asyncio.Event()

    async def asks_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        trusted.set()

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(former.issue("broker"))
    both = Security(tls=Tls(ca_pem=former.certificate.read_text() + new.certificate.read_text()))
    only_new = Security(tls=Tls(ca_pem=new.certificate.read_text()))
    async with listening(asks_nothing, made) as port:
        client = ClusterClient([f"127.0.0.1:{port}"], security=both, timeout_s=5, renewed=lambda: only_new)
        client._read_at -= age_s
        with pytest.raises(DrlibError) as met:
            await client.connect()
        await client.close()
    assert isinstance(met.value, SecurityFault)
    assert met.value.fault is Fault.UNKNOWN_CA
    assert trusted.is_set() is (age_s == 0.0)  # what was read a moment ago counts until it is refused


async def test_refused_certificate_beside_a_trust_store_that_cannot_be_read_names_both(tmp_path: Path) -> None:
    former, new = Authority(tmp_path / "former"), Authority(tmp_path / "new")
    former.prepare()

    async def asks_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    def damaged() -> Security:
        raise UsageError("trust.pem cannot be used", "it has no certificate", "Write it again.")

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(new.issue("broker"))
    async with listening(asks_nothing, made) as port:
        security = Security(tls=Tls(ca_pem=former.certificate.read_text()))
        client = ClusterClient([f"127.0.0.1:{port}"], security=security, timeout_s=5, renewed=damaged)
        with pytest.raises(
            SecurityFault, match=r"drlib trusts .*trust\.pem cannot be used: it has no certificate"
        ) as met:
            await client.connect()
        await client.close()
    assert (met.value.fault, met.value.remedy) == (Fault.UNKNOWN_CA, "Write it again.")


class Seed:
    """A connection to a broker that says who leads."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.is_lost = False

    def version(self, _: str) -> int:
        return 12

    def close(self, *, abort: bool = False) -> None:
        self.is_lost = True

    async def wait_closed(self) -> None: ...


class Brokers(ClusterClient):
    """A client of brokers a, b and c, which say that a partition is led by a node, in a leader epoch."""

    def __init__(self, said: dict[str, tuple[int, int]], topic_id: uuid.UUID) -> None:
        super().__init__(["a:1"])
        self.said, self.topic_id = said, topic_id
        self.down: set[str] = set()
        self.opened: list[Seed] = []

    async def _open(self, host: str, port: int, purpose: str) -> Connection:
        if host in self.down:
            raise Unreachable(f"broker {host}", "connection refused", "Start it.")
        self.opened.append(Seed(f"{host}:{port}"))
        return cast(Connection, self.opened[-1])

    def _ask_metadata(self, seed: Connection, names: tuple[str, ...] | None) -> asyncio.Future[ClusterMetadata]:
        self._topics.setdefault((12, names), _Topics(12, b""))
        brokers = {number: Broker(number, host, 1) for number, host in enumerate("abc", 1)}
        leader, epoch = self.said[seed.peer[0]]
        partition = PartitionMetadata(0, leader, epoch, (1, 2, 3), (1, 2, 3), 0)
        topics = {"t": TopicMetadata("t", self.topic_id, 0, {0: partition}, False)}
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(ClusterMetadata("id", 1, brokers, topics))
        return answer

    async def leader(self) -> int:
        """As the cluster names it now; what was begun beside the question is done."""
        found = (await self.metadata(["t"])).topics["t"].partitions[0].leader
        if self._next_seed is not None:
            await self._next_seed
        return found

    @property
    def open(self) -> list[str]:
        return [seed.peer for seed in self.opened if not seed.is_lost]


async def test_broker_that_lost_its_controllers_and_goes_on_answering_is_not_believed_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It names itself the leader, as it was one before, and nothing in its answers shows that another one was elected."""
    client = Brokers(dict.fromkeys("abc", (1, 5)), uuid.uuid4())
    assert [await client.leader() for _ in range(3)] == [1, 1, 1]
    assert client.open == ["a:1"]  # within `SEED_S`
    client.said = {"a": (1, 5), "b": (2, 6), "c": (2, 6)}
    monkeypatch.setattr(cluster_client, "SEED_S", 0.0)
    found = [await client.leader() for _ in range(12)]
    assert found == [1, *[2] * 11]
    assert {seed.peer for seed in client.opened} == {"a:1", "b:1", "c:1"}
    assert len(client.open) == 2  # the one before may have requests in flight
    await client.close()
    assert client.open == []


async def test_only_broker_that_answers_is_asked_on_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "SEED_S", 0.0)
    client = Brokers({"a": (1, 5)}, uuid.uuid4())
    client.down = {"b", "c"}
    assert [await client.leader() for _ in range(5)] == [1] * 5
    assert client.open == ["a:1"]
    await client.close()


async def test_cluster_that_was_restored_with_older_leader_epochs_is_believed() -> None:
    client = Brokers(dict.fromkeys("abc", (1, 5)), uuid.uuid4())
    assert await client.leader() == 1
    client.said = dict.fromkeys("abc", (2, 3))
    assert [await client.leader() for _ in range(3)] == [2, 2, 2]
    assert len(client.opened) == 2
    client.said, client.topic_id = dict.fromkeys("abc", (3, 0)), uuid.uuid4()  # and so is a topic that was re-created
    assert [await client.leader() for _ in range(3)] == [3, 3, 3]
    assert len(client.opened) == 2
    await client.close()


class Paused:
    """A connection on which the broker has announced so many seconds of pauses."""

    is_lost = False

    def __init__(self, paused_s: float) -> None:
        self.paused_s = self.throttled_s = paused_s


async def work(client: ClusterClient, *pauses: float, throttled_s: float) -> None:
    """What takes a tenth of a second more than it has; meanwhile brokers announce `pauses`, each on a connection of its own."""
    kept = [Paused(each) for each in pauses]
    async with client.within(0.05, throttled_s):
        client._all.update(cast(list[Connection], kept))
        await asyncio.sleep(0.15)


async def test_work_on_a_cluster_that_throttles_has_its_time_behind_the_announced_pauses() -> None:
    client = ClusterClient(["127.0.0.1:1"])
    former = Paused(9.0)  # from before
    client._all.add(cast(Connection, former))
    await work(client, 9.0, 9.0 + 60.0, throttled_s=60.0)


@pytest.mark.parametrize(
    ("pauses", "raised"),
    [((), TimeoutError), ((0.02,), Throttled), ((3600.0,), Throttled)],
    ids=["none", "too-short-to-help", "longer-than-anything-waits"],
)
async def test_work_on_a_cluster_that_does_not_answer_or_throttles_for_longer_ends(
    pauses: tuple[float, ...], raised: type[Exception]
) -> None:
    client = ClusterClient(["127.0.0.1:1"], alias="PARIS")
    with pytest.raises(raised) as caught:
        await work(client, *pauses, throttled_s=0.02)
    if isinstance(caught.value, Throttled):
        assert caught.value.what == "PARIS throttles this user"
        assert f"a quota made them pause for {pauses[0]:.0f} s" in caught.value.why


async def test_work_on_a_cluster_that_throttles_raises_its_own_timeout() -> None:
    client = ClusterClient(["127.0.0.1:1"])
    with pytest.raises(TimeoutError, match="its own"):
        async with client.within(60.0, 60.0):
            raise TimeoutError("its own")


async def test_client_whose_brokers_pause_it_says_so_for_as_long_as_they_do() -> None:
    client = ClusterClient(["127.0.0.1:1"], alias="PARIS")
    over, paused, ended = Paused(0.0), Paused(7.2), Paused(90.0)
    ended.is_lost = True
    client._all.update(cast(list[Connection], [over, ended]))
    assert client.throttled == ""
    client._all.add(cast(Connection, paused))
    assert client.throttled == "PARIS pauses this user for 7 s, as a quota is used up"
