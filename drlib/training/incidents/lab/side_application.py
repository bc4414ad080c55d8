"""Small side applications of an incident: `gates` reports the state of gates, `writer` writes to a mirror topic, `import`
leaves a transaction open.

Rules: real Kafka clients as processes of the lab, stopped by SIGTERM, with a status file like all applications. `gates` and
`writer` stamp records with the clock of their machine, which may be wrong (`drlib.lab.clocks`). `import` begins a
transaction, writes, and never ends it, not even when it is stopped.
Not for: the applications that a failover moves (`drlib.lab.apps`).

Run as `python -m drlib.training.incidents.lab.side_application ROLE BOOTSTRAP TOPIC STATUS SITE [CLIENT]`; STATUS is
NAME.status.json in the lab's folder, CLIENT a properties file with the security keys of clients.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Producer

from drlib.config.settings import load_client_settings
from drlib.errors import UsageError
from drlib.formats import one_line
from drlib.kafka.admin.connect import librdkafka
from drlib.lab.apps.process import StatusFile, Stop
from drlib.lab.clocks import MachineClock
from drlib.outgoing.terminal import show

ROLES: Final = ("gates", "writer", "import")
TRANSACTIONAL_ID: Final = "fare-import"
_EVERY_S: Final = 0.2
_MAX_QUEUED: Final = 100
_TRANSACTION_MS: Final = 900_000  # transaction.max.timeout.ms of a broker: it does not end by itself in time


class _PacedWriter:
    """Writes numbered records to a topic and counts those that were acknowledged."""

    def __init__(self, client: Mapping[str, object], topic: str, now_ms: Callable[[], int]) -> None:
        self._producer = Producer({**client, "linger.ms": 0, "log_level": 0})
        self._topic = topic
        self._now_ms = now_ms
        self._number = 0
        self._acknowledged = 0
        self._refusal = ""

    def write(self, status: StatusFile) -> None:
        """Write one record, unless 100 are waiting for a cluster that is down, and report the progress."""
        if len(self._producer) < _MAX_QUEUED:
            value = b"gate %d" % self._number
            self._producer.produce(self._topic, value=value, timestamp=self._now_ms(), on_delivery=self._on_delivery)
            self._number += 1
        self._producer.poll(0)
        queued = len(self._producer)
        status.report("waiting" if queued > 10 else "running", "", 0, self._acknowledged, queued)

    def close(self) -> None:
        self._producer.flush(1)

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            self._acknowledged += 1
            self._refusal = ""
        elif error.str() != self._refusal:  # once, not for every record
            self._refusal = error.str()
            show(one_line(f"records of {self._topic} are refused: {self._refusal}"), error=True)


def write_gates(
    client: Mapping[str, object], topic: str, status: StatusFile, stop: Stop, now_ms: Callable[[], int]
) -> None:
    """Write a record every 0.2 s, with the timestamp of `now_ms`, until stopped."""
    writer = _PacedWriter(client, topic, now_ms)
    while not stop.wait(_EVERY_S):
        writer.write(status)
    writer.close()


def leave_transaction_open(client: Mapping[str, object], topic: str, status: StatusFile, stop: Stop) -> None:
    """Write a record to every partition of `topic` in a transaction that is never ended."""
    producer = Producer(
        {
            **client,
            "transactional.id": TRANSACTIONAL_ID,
            "transaction.timeout.ms": _TRANSACTION_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in producer.list_topics(topic, timeout=10).topics[topic].partitions:
        producer.produce(topic, value=b"fares, part one", partition=partition)
    producer.flush(30)
    while not stop.wait(_EVERY_S):
        status.report("running", "", 0, 1)
    os._exit(0)  # a graceful close would abort the transaction


def run(argv: Sequence[str], stop: Stop) -> None:
    """Raises `UsageError` for wrong arguments."""
    if len(argv) not in (5, 6) or argv[0] not in ROLES:
        raise UsageError("wrong arguments", f"got {list(argv)}", "Give ROLE BOOTSTRAP TOPIC STATUS SITE [CLIENT].")
    role, bootstrap, topic, path, site, *file = argv
    client: Mapping[str, object] = {"bootstrap.servers": bootstrap}
    if file:
        client = librdkafka(load_client_settings(file[0], site, bootstrap.split(","))[0])
    name = Path(path).name.split(".")[0]
    status = StatusFile(name, path)
    if role == "import":
        leave_transaction_open(client, topic, status, stop)
    else:
        clock = MachineClock(Path(path).parent, name)
        write_gates(client, topic, status, stop, lambda: clock.now_ms(site))


def main(argv: Sequence[str]) -> int:
    stop = Stop()
    stop.install()
    run(argv, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
