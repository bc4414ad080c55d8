"""A broker that is cut off from its controllers and goes on answering clients: it does not know that others lead by now."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import Engine, produce, wait_for

from drlib.lab.lab import Lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


class Gate:
    """Ports before those of other processes, which can be closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._open: set[asyncio.StreamWriter] = set()
        self._servers: list[asyncio.Server] = []

    def before(self, port: int) -> int:
        """A port of 127.0.0.1 whose connections go to `port`."""

        async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open.add(writer)
            with contextlib.suppress(OSError):  # it has not started yet
                there, back = await asyncio.open_connection("127.0.0.1", port)
                self._open.add(back)
                await asyncio.gather(_pass(reader, back), _pass(there, writer))
            writer.close()

        async def listen() -> int:
            self._servers.append(await asyncio.start_server(passed_on, "127.0.0.1", 0))
            return int(self._servers[-1].sockets[0].getsockname()[1])

        return asyncio.run_coroutine_threadsafe(listen(), self._loop).result(10)

    def close(self) -> None:
        """Listen no more, and end what is open."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            for writer in self._open:
                writer.transport.abort()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)

    def stop(self) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.stop()


def test_leader_that_lost_its_controllers_is_left_for_the_one_that_was_elected(
    engine: Engine, gate: Gate, tmp_path: Path
) -> None:
    topic = engine.topics
    with Lab(tmp_path / "source", ("SOURCE",), brokers=3) as lab:
        first, second, _ = brokers = lab.clusters["SOURCE"].brokers
        voters = {b.spec.node_id: b.spec.controller_port for b in brokers}
        mine = first.spec.node_id
        reached = {node: port if node == mine else gate.before(port) for node, port in voters.items()}
        first.stop()
        first.prepare({"controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p}" for n, p in reached.items())})
        first.launch()
        first.wait_ready(60)
        engine.left = ",".join(broker.bootstrap for broker in brokers)  # the first one is asked who leads
        admin = AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, num_partitions=1, replica_assignment=[[*voters]])])[topic].result(30)
        produce(engine.left, topic, 100, partitions=1)
        worker = engine.start()
        engine.wait_caught_up(topic, 1)
        gate.close()

        def moved() -> bool:
            found = AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0}).list_topics(topic, timeout=5)
            return found.topics[topic].partitions[0].leader not in (mine, -1)

        wait_for("another broker leads", moved)
        produce(second.bootstrap, topic, 100, partitions=1, first=100)
        engine.left = second.bootstrap
        engine.wait_caught_up(topic, 1, deadline_s=90)
        assert engine.stop(worker) == 0, engine.log()
        engine.assert_same(topic, 1)
