"""An application that writes a list of vouchers with an idempotent producer, and follows its address to another cluster.

Rules: where the address leads elsewhere, it continues with the producer ID, epoch and sequence that it has, as the producers of
Java's client and of librdkafka do when their bootstrap address leads to another cluster (both measured on 4.3.1). Only a
start obtains a producer ID; it begins the list again, whose records may be repeated. A fatal answer stops it until it is
started again. Each record is a batch, written after the one before was acknowledged, and acknowledged ones are in its history.
Not for: the applications that a failover moves, which make a new producer (`drlib.lab.apps`).

Run as `python -m drlib.training.incidents.lab.loader POINTER TOPIC HISTORY STATUS [CLIENT]`; the name is that of STATUS.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.client.pointer import Pointer
from drlib.client.pointer_file import PointerWatcher
from drlib.clock import now_ms
from drlib.config.settings import load_client_settings
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.net import requests
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.batch import OutgoingBatch
from drlib.kafka.protocol.error_codes import name_of
from drlib.kafka.protocol.recode import Record, rebuild
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.apps.process import StatusFile, Stop
from drlib.lab.checker.history import Produced, ProducedStatus
from drlib.lab.checker.history_files import HistoryWriter
from drlib.outgoing.terminal import show

_EVERY_S: Final = 0.25
_AGAIN_S: Final = 0.5
_ANSWER_MS: Final = 5_000
_ACKNOWLEDGED: Final = ("NONE", "DUPLICATE_SEQUENCE_NUMBER")
_FATAL: Final = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "UNKNOWN_PRODUCER_ID")


@dataclass(frozen=True, slots=True)
class _Producer:
    """What a cluster gave an idempotent producer."""

    number: int
    epoch: int


class Loader:
    """One run of the application called `name`."""

    def __init__(
        self,
        name: str,
        topic: str,
        watcher: PointerWatcher,
        history: HistoryWriter,
        status: StatusFile,
        client: str = "",
    ) -> None:
        self._name = name
        self._client = client  # the properties file of a client, where clients need TLS
        self._topic = topic
        self._watcher = watcher
        self._history = history
        self._status = status
        self._producer: _Producer | None = None
        self._next = 0  # record, and sequence number
        self._failed = ""

    async def run(self, stop: Stop) -> None:
        while not stop():
            pointer = self._watcher.current()
            if pointer is not None:
                try:
                    await self._at(pointer, stop)
                except DrlibError:  # the cluster does not answer
                    self._report(pointer, "waiting")
            await asyncio.sleep(_AGAIN_S)

    async def _at(self, pointer: Pointer, stop: Stop) -> None:
        """Write to the cluster of `pointer` until the address leads elsewhere. Raises `DrlibError`."""
        servers = pointer.bootstrap.split(",")
        settings = ClusterSettings(pointer.active, tuple(servers))
        if self._client:
            settings, _ = load_client_settings(self._client, pointer.active, servers)
        async with wire_client(settings, client_id=self._name) as client:
            metadata = await client.metadata([self._topic])
            connection = await client.connection(min(metadata.brokers))  # the only one, and therefore the leader
            if self._producer is None:
                self._producer = _Producer(*await requests.init_producer_id(connection, None, 60_000))
                self._say(
                    f"obtained producer ID {self._producer.number}, epoch {self._producer.epoch} at {pointer.active}"
                )
            else:
                self._say(
                    f"continues at {pointer.active} with producer ID {self._producer.number}, sequence {self._next}"
                )
            while not stop() and not (self._watcher.current() or pointer).elsewhere(pointer):
                if not self._failed:
                    await self._write(connection, pointer, self._producer)
                self._report(pointer, "waiting" if self._failed else "running")
                await asyncio.sleep(_EVERY_S)

    async def _write(self, connection: Connection, pointer: Pointer, producer: _Producer) -> None:
        sent_ms = now_ms()
        record_id = f"{self._name}-{self._next}"
        batch = voucher(record_id, sent_ms, producer.number, producer.epoch, self._next)
        (answer,) = await connection.produce(self._topic, [(0, batch)], timeout_ms=_ANSWER_MS)
        code = "NONE" if answer.error_code == 0 else name_of(answer.error_code)
        if code in _FATAL:
            self._failed = code
            self._say(
                f"ends for good: {code} for producer ID {producer.number}, sequence {self._next} at {pointer.active}"
            )
        elif code in _ACKNOWLEDGED:
            place = (pointer.active, self._topic, 0, answer.base_offset)
            row = Produced(record_id, "", self._next, *place, sent_ms, now_ms(), ProducedStatus.ACKED)
            self._history.append_all([row])
            self._next += 1

    def _report(self, pointer: Pointer, phase: str) -> None:
        self._status.report(phase, pointer.active, pointer.version, self._next)

    def _say(self, text: str) -> None:
        show(f"{self._name} {text}", error=True)


def voucher(record_id: str, at_ms: int, producer_id: int, epoch: int, sequence: int) -> OutgoingBatch:
    """One record without a key, its ID in a header, as a batch."""
    record = Record(0, at_ms, None, b"{}", (("id", record_id.encode()),))
    return rebuild([record], codec=0, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def main(argv: Sequence[str]) -> int:
    """Raises `UsageError` for wrong arguments."""
    if len(argv) not in (4, 5):
        raise UsageError("wrong arguments", f"got {list(argv)}", "Give POINTER TOPIC HISTORY STATUS [CLIENT].")
    pointer, topic, history, status, *client = argv
    name = Path(status).name.split(".")[0]
    stop = Stop()
    stop.install()
    with HistoryWriter(Path(history)) as writer:
        loader = Loader(name, topic, PointerWatcher(Path(pointer)), writer, StatusFile(name, status), *client)
        asyncio.run(loader.run(stop))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
