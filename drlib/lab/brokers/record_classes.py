"""Record the broker's class-data archive: `python -m drlib.lab.brokers.record_classes`, which `make setup` runs.

Rules: it starts one broker in a folder of its own, asks of it what applications and mirrors ask, and ends it; an archive is put
in its place only after Java has compared its checksums: Java ends when it maps a part of one.
Not for: which archive brokers are started with (`drlib.lab.brokers.class_archive`).
"""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from drlib.errors import DrlibError
from drlib.files import read_stored, write_whole
from drlib.lab import jars
from drlib.lab.brokers import class_archive
from drlib.lab.brokers.broker import Broker, BrokerFailed, bootstrap_checkpoint
from drlib.lab.brokers.cluster import link_names, new_specs
from drlib.lab.ports import free_ports
from drlib.lab.processes import ProcessRegistry
from drlib.outgoing.environment import child_environment
from drlib.outgoing.terminal import show

_START_S: Final = 120.0
_WRITE_S: Final = 60.0
_MOST_BYTES: Final = 512 << 20
_TOPIC: Final = "classes"


def record() -> bool:
    """Record the archive, unless there is one that Java takes; whether it was. Raises `BrokerFailed`, `MissingDependency`."""
    path = class_archive.archive()
    if class_archive.flags() and taken(path):
        return False
    bootstrap_checkpoint()
    with tempfile.TemporaryDirectory(prefix="drlib-classes-") as scratch:
        written = Path(scratch) / path.name
        advertised = dict(zip(link_names("CLASSES", 1), free_ports(2), strict=True))
        (spec,) = new_specs("CLASSES", scratch, advertised, 1)
        broker = Broker(spec, ProcessRegistry(Path(scratch)), die_with_parent=True)
        broker.prepare({})
        broker.launch((f"-XX:ArchiveClassesAtExit={written}",))
        try:
            broker.wait_ready(_START_S)
            _use(broker.bootstrap)
        finally:
            broker.stop(deadline_s=_WRITE_S)  # it writes the archive as its last act
        if not taken(written):
            raise BrokerFailed(
                "the archive of classes cannot be used", "Java refuses it", "Labs work without it", broker.log_tail()
            )
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, read_stored(written, _MOST_BYTES))
    return True


def taken(path: Path) -> bool:
    """Whether Java maps the file, whose checksums it compares: one that is not whole would end it."""
    command = [
        *(str(jars.java().path), "-Xshare:on", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={path}"),
        *("-XX:ErrorFile=/dev/null", "-XX:-CreateCoredumpOnCrash"),  # a crash is an answer here
        *("-cp", os.pathsep.join(map(str, jars.classpath("kafka"))), "-version"),
    ]
    checked = subprocess.run(command, capture_output=True, timeout=60, check=False, env=child_environment())
    return checked.returncode == 0


def _use(bootstrap: str) -> None:
    """What applications and mirrors ask of a broker, once: a topic, a transaction, a group, and their end."""
    client = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(client)
    admin.create_topics([NewTopic(_TOPIC, 2, 1)])[_TOPIC].result(30)
    producer = Producer({**client, "transactional.id": _TOPIC})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(_TOPIC, b"value", b"key", partition=partition)
    producer.commit_transaction(30)
    consumer = Consumer({**client, "group.id": _TOPIC, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([_TOPIC])
    for message in consumer.consume(2, timeout=30):
        consumer.commit(message, asynchronous=False)
    consumer.close()
    admin.delete_topics([_TOPIC])[_TOPIC].result(30)


def main() -> int:
    """Record the archive; a machine without one starts its brokers as well, and more slowly."""
    try:
        new = record()
    except (DrlibError, KafkaException, OSError) as problem:
        show(f"no class-data archive was recorded, so each broker starts more slowly: {problem}", error=True)
        return 0
    if new:
        show(f"{class_archive.archive()}: the classes of a broker, recorded so that it starts faster", error=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
