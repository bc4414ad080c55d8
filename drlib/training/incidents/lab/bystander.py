"""Small applications around an incident: one that tells the state of gates, one that writes where it should not, one
that forgets.

Rules: real Kafka clients as processes of the lab, ended by SIGTERM, with a status file like every application's.
`gates` stamps its records by the clock of its machine, which may be wrong (`drlib.lab.clocks`). `import` begins a
transaction, writes, and never ends it, not even when it is stopped.

Run as `python -m drlib.training.incidents.lab.bystander ROLE BOOTSTRAP TOPIC STATUS SITE`; STATUS is NAME.status.json
in the lab's folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from drlib.errors import UsageError
from drlib.lab.apps.process import StatusFile, Stop
from drlib.lab.clocks import MachineClock

ROLES: Final = ("gates", "writer", "import")
TRANSACTIONAL_ID: Final = "fare-import"
_EVERY_S: Final = 0.2
_TRANSACTION_MS: Final = 900_000  # the most that a broker allows: nobody waits until it ends by itself


def tell_gates(bootstrap: str, topic: str, status: StatusFile, stop: Stop, now_ms: Callable[[], int]) -> None:
    """A record every 0.2 s, stamped by its machine's clock, until stopped."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    done = [0]
    number = 0
    while not stop.wait(_EVERY_S):
        if len(producer) < 100:  # while its cluster is down it waits
            producer.produce(
                topic,
                value=b"gate %d" % number,
                timestamp=now_ms(),
                on_delivery=lambda error, _: done.__setitem__(0, done[0] + (error is None)),
            )
            number += 1
        producer.poll(0)
        status.report("waiting" if len(producer) > 10 else "running", "", 0, done[0], len(producer))
    producer.flush(1)


def leave_open(bootstrap: str, topic: str, status: StatusFile, stop: Stop) -> None:
    """A transaction with a record in every partition of `topic`, and no end."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
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
    os._exit(0)  # a client that closes in order would abort it


def run(argv: Sequence[str], stop: Stop) -> None:
    """Raises `UsageError` for arguments that are none."""
    if len(argv) != 5 or argv[0] not in ROLES:
        raise UsageError("a bystander's arguments", f"got {list(argv)}", "Give ROLE BOOTSTRAP TOPIC STATUS SITE.")
    role, bootstrap, topic, path, site = argv
    name = Path(path).name.split(".")[0]
    status = StatusFile(name, path)
    if role == "import":
        leave_open(bootstrap, topic, status, stop)
    else:
        clock = MachineClock(Path(path).parent, name)
        tell_gates(bootstrap, topic, status, stop, lambda: clock.now_ms(site))


def main(argv: Sequence[str]) -> int:
    stop = Stop()
    stop.install()
    run(argv, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
