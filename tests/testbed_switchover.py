"""Two clusters with mirrors both ways and applications that follow a pointer, moved by the actions of a planned switchover."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from fix_engine import Engine
from testbed_applications import Stage

import drlib
from drlib.client import pointer_file
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.run.registry import make_action
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.runs.abort import Abort


@dataclass
class Moving:
    """All applications are at the engine's source at first."""

    engine: Engine
    on: Stage
    place: DrillContext

    def step(self, name: str, **arguments: str | float | bool | tuple[str, ...]) -> Action:
        given = tuple(Argument(key, value) for key, value in arguments.items())
        return make_action(Call(name, given), self.place, name.replace(".", "-"))

    def act(self, name: str, **arguments: str | float | bool) -> dict[str, object]:
        step = self.step(name, **arguments)
        return dict(step.act(step.changes(step.observe()), Abort(self.place.run_dir)))

    def there(self) -> dict[str, object]:
        return self.act("switchover.move", source=self.engine.source, target=self.engine.target)

    def back(self) -> dict[str, object]:
        return self.act("switchover.move")

    @property
    def active(self) -> str:
        return pointer_file.read(self.on.pointer).active


class Following:
    """Two applications that follow the pointer's topic: one thread writes numbered records, one reads them."""

    def __init__(self, config: Path, topic: str, group: str, writer: str = "writer", reader: str = "reader") -> None:
        self.config, self.topic, self.group = config, topic, group
        self.writer, self.reader = writer, reader
        self.places: dict[str, str] = {}
        self.sent: list[int] = []
        self.read: list[int] = []
        self.failed: list[BaseException] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._write, self._read)]

    def __enter__(self) -> Following:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(20)

    def stop_writing(self) -> None:
        self._over.set()
        self._threads[0].join(20)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.failed.append(error)

    def _write(self) -> None:
        with drlib.ActiveCluster(self.writer, self.config) as active:
            while not self._over.is_set():
                now = active.current()
                if now.pointer.hold:
                    self._over.wait(0.02)
                    continue
                producer = Producer({**now.config(), "enable.idempotence": True, "linger.ms": 0, "log_level": 0})
                self.places[self.writer] = now.alias
                while not self._over.wait(0.01) and active.current().pointer == now.pointer:
                    number = len(self.sent)
                    producer.produce(self.topic, key=b"k%d" % (number % 7), value=b"%d" % number)
                    assert producer.flush(20) == 0
                    self.sent.append(number)

    def _read(self) -> None:
        with (
            drlib.ActiveCluster(self.reader, self.config) as active,
            drlib.OrderedConsumer(active, self.group, self.topic, max_batch=20) as consumer,
        ):
            while not self._over.is_set() or len(self.read) < len(self.sent):
                batch: list[int] = []
                while len(batch) < 20 and (record := consumer.poll(0.1)) is not None:
                    batch.append(int(record.value or b"-1"))
                if consumer.commit() is drlib.CommitOutcome.ACKED:
                    self.read += batch
                if batch:
                    self.places[self.reader] = active.current().alias
