"""A testbed for the lab's applications: their processes, a plain copier instead of the mirror, and waiting for conditions.

The copier keeps partition, key, value, headers, timestamp and order, one record at a time; it writes from an empty
topic on, so that offsets are equal on both sides as long as the source holds no control records.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from deadline import Deadline
from repository_root import ROOT

from drlib.client import pointer, pointer_file
from drlib.lab.apps import specs
from drlib.lab.checker.history import History
from drlib.lab.checker.history_files import read_history


def wait_until(what: str, holds: Callable[..., bool], deadline_s: float = 30.0) -> float:
    """Wait for `holds`; the seconds it took."""
    deadline = Deadline(deadline_s)
    while not holds():
        assert not deadline.passed, f"{what}: not within {deadline.waited_s:.0f} s"
        time.sleep(0.05)
    return deadline.waited_s


class Application:
    """One application as a process of its own."""

    def __init__(self, folder: Path, name: str, spec: specs.ProducerSpec | specs.ConsumerSpec) -> None:
        self.name = name
        self.spec = spec
        path = folder / f"{name}.json"
        specs.write(path, spec)
        module = "producer" if isinstance(spec, specs.ProducerSpec) else "consumer"
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"drlib.lab.apps.{module}", str(path)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONWARNINGS": "error,ignore::DeprecationWarning"},
            )

    def history(self) -> History:
        return read_history(Path(self.spec.history))

    def terminate(self) -> tuple[int, float]:
        """Exit code and seconds until the end after SIGTERM."""
        started = time.monotonic()
        self.process.terminate()
        code = self.process.wait(10)
        return code, time.monotonic() - started


class Stage:
    """A folder with a pointer, and what runs beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.applications: list[Application] = []

    @property
    def pointer(self) -> Path:
        return self.folder / pointer.POINTER_NAME

    def point(self, version: int, active: str, bootstrap: str, **more: object) -> None:
        pointer_file.write_atomic(self.pointer, pointer.Pointer(version, active, bootstrap, **more))  # type: ignore[arg-type]

    def producer(self, topic: str, **more: object) -> Application:
        """`own` among `more`: the application whose own pointer it follows."""
        follows = str(self.followed(str(more.pop("own", ""))))
        spec = specs.ProducerSpec(follows, str(self._history("producer")), topic=topic, **more)  # type: ignore[arg-type]
        return self._start("producer", spec)

    def consumer(self, topic: str, group: str, **more: object) -> Application:
        follows = str(self.followed(str(more.pop("own", ""))))
        spec = specs.ConsumerSpec(follows, str(self._history(group)), group, topic, **more)  # type: ignore[arg-type]
        return self._start(group, spec)

    def followed(self, own: str) -> Path:
        """The pointer of one application, at first a copy of that of all."""
        if not own:
            return self.pointer
        path = pointer_file.own_file(self.pointer, own)
        if not path.exists():
            pointer_file.write_atomic(path, pointer_file.read(self.pointer))
        return path

    def terminate_all(self) -> None:
        for application in self.applications:
            code, seconds = application.terminate()
            assert code == 0, (application.name, code, application.log.read_text()[-2000:])
            assert seconds < 3.0, f"{application.name} took {seconds:.1f} s to end"

    def _history(self, name: str) -> Path:
        return self.folder / f"{name}-{len(self.applications)}.history"

    def _start(self, name: str, spec: specs.ProducerSpec | specs.ConsumerSpec) -> Application:
        application = Application(self.folder, f"{name}-{len(self.applications)}", spec)
        self.applications.append(application)
        return application


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    made = Stage(folder)
    try:
        yield made
    finally:
        for application in made.applications:
            if application.process.poll() is None:
                application.process.kill()
                application.process.wait(10)


class PlainCopy:
    """Copies `topic` of one cluster into `remote` on another until it is closed, or `limit` says enough."""

    def __init__(self, source: str, target: str, topic: str, remote: str, partitions: int) -> None:
        self.copied = 0
        self.frozen = threading.Event()
        self._stop = threading.Event()
        self._topic, self._remote = topic, remote
        self._consumer = Consumer(
            {
                "bootstrap.servers": source,
                "group.id": f"copy-{topic}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        self._producer = Producer({"bootstrap.servers": target, "enable.idempotence": True, "linger.ms": 5})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Everything read is acknowledged by the target after it."""
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def __enter__(self) -> PlainCopy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in () if self.frozen.is_set() else self._consumer.consume(500, 0.05):
                if message.error() is None:
                    self._producer.produce(
                        self._remote,
                        value=message.value(),
                        key=message.key(),
                        partition=message.partition(),
                        headers=message.headers(),
                        timestamp=message.timestamp()[1],
                    )
                    self.copied += 1
            self._producer.poll(0)
            self._stop.wait(0.01)
        self._producer.flush(10)
        self._consumer.close()


def log_ends(bootstrap: str, topic: str, partitions: int) -> tuple[int, ...]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "log-ends", "log_level": 0})
    try:
        return tuple(consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1] for p in range(partitions))
    finally:
        consumer.close()


def set_positions(bootstrap: str, group: str, topic: str, positions: dict[int, int]) -> None:
    """Asks again while the coordinator loads: its answer then stands at each partition, and no exception tells of it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, p, o) for p, o in positions.items()])

    def taken() -> bool:
        moved = admin.alter_consumer_group_offsets([wanted])[group].result(20)
        return all(one.error is None for one in moved.topic_partitions)

    wait_until(f"{group} stands where it was put", taken)
