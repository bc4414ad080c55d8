"""`python -m soak.both_ways --schedules 30 --seed 7`: two flows copy the same topics in both directions, under random faults.

Rules: a schedule is derived from its seed. Clients write to both clusters all the time; one to three workers share the lanes,
of which each flow has one to three. Workers are killed at a step of the protocol or at any time, or while another one joins,
brokers restart and links are cut; in one schedule of five a journal is deleted at the end. It ends with every record once on
both logs, in each side's own order, or with the partition named by an open event; after a journal is lost nothing may be there
twice, and before no journal is said to be lost. Exit code 0: no findings; 1: findings, each with its seed. Ctrl-C and SIGTERM
end it with all that it started.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, get_args

from confluent_kafka import KafkaException, Producer
from fix_engine import Engine, Record, create_topic, delete_topic, read_all, wait_for, wait_for_markers
from fix_two_way import IDENTITY, RIGHTS_FIRST
from own_processes import ended_in_order

from drlib.config.settings import load_mirror_settings
from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.mirror.failpoints import Failpoint
from drlib.mirror.status import worker_status as status

STEPS: Final = 5
HEALED_S: Final = 120.0
PARTITIONS: Final = {"plain": 3, "transactions": 2, "compacted": 1}
ALL: Final = sum(PARTITIONS.values())
COMPACTED: Final = {"cleanup_policy": "compact", "segment_ms": "1000", "min_cleanable_dirty_ratio": "0.01"}
KEYS: Final = 40


class Client(threading.Thread):
    """Writes to one topic of one cluster until it is closed; `unanswered`: a broker died meanwhile, so some are unknown."""

    def __init__(self, bootstrap: str, topic: str, sort: str, first: int) -> None:
        super().__init__(daemon=True)
        self._address, self._topic, self._sort, self._at = bootstrap, topic, sort, first
        self._key = f"{first}".encode()
        self.over = threading.Event()

    def run(self) -> None:
        settings: dict[str, object] = {"bootstrap.servers": self._address, "enable.idempotence": True, "log_level": 0}
        if self._sort == "transactions":
            settings |= {"transactional.id": f"{self._topic}-{self._at}", "transaction.timeout.ms": 10_000}
        while not self.over.is_set():  # a producer that failed for good is replaced, as applications do
            try:
                self._write(Producer(settings))
            except KafkaException:
                self.over.wait(0.5)

    def _write(self, producer: Producer) -> None:
        within = self._sort == "transactions"
        if within:
            producer.init_transactions(20)
        while not self.over.wait(0.03):
            if within:
                producer.begin_transaction()
            for _ in range(10):
                key = self._key + b"-%d" % (self._at % KEYS)
                headers = [("n", str(self._at).encode())]
                number = self._at % PARTITIONS[self._sort]
                producer.produce(self._topic, b"x" * (self._at % 200), key, number, headers=headers)
                self._at += 1
            if not within:
                producer.flush(20)
            elif self._at % 70:
                producer.commit_transaction(20)
            else:
                producer.abort_transaction(20)
        producer.flush(20)


class Schedule:
    """One seed between the two clusters of `lab`, with topics and aliases of its own."""

    def __init__(self, lab: Lab, root: Path, seed: int) -> None:
        self.rng, self.lab, self.seed = random.Random(seed), lab, seed
        self.sides = [lab.clusters["LEFT"], lab.clusters["RIGHT"]]
        tag = f"{seed}-{root.name[-6:]}"
        self.topics = {sort: f"two-way.{tag}.{sort}" for sort in PARTITIONS}
        extra = {
            f"B{seed}->A{seed}.enabled": "true",
            "replication.policy.class": IDENTITY,
            **{
                f"{flow}.drlib.lanes": str(self.rng.randint(1, 3))
                for flow in (f"A{seed}->B{seed}", f"B{seed}->A{seed}")
            },
            "drlib.session.timeout.ms": "6000",
        }
        left, right = (side.link_bootstrap for side in self.sides)
        self.engine = Engine(root, left, right, f"A{seed}", f"B{seed}", rf"two-way\.{tag}\..*", extra)
        count = self.rng.randint(1, 3)
        self.did = [f"{count} workers, lanes {', '.join(v for k, v in extra.items() if k.endswith('.lanes'))}"]
        self.count, self.workers = count, list[subprocess.Popen[bytes]]()

    def run(self) -> list[str]:
        """Play it; the findings."""
        for side in self.sides:
            for sort, topic in self.topics.items():
                create_topic(side.bootstrap, topic, PARTITIONS[sort], **(COMPACTED if sort == "compacted" else {}))
        self.workers = [self.engine.start() for _ in range(self.count)]
        wait_for("both flows copy", self._begun, 90)
        lost = self.rng.random() < 0.2
        with self._clients():
            for _ in range(STEPS):
                time.sleep(self.rng.uniform(0.2, 1.5))
                at = self.rng.randrange(len(self.workers))
                self.workers[at] = self._fault(self.workers[at])
            time.sleep(self.rng.uniform(0.2, 1.0))
        if lost:
            self._lose_a_journal()
        return self._judged(lost)

    def _states(self) -> list[status.WorkerStatus]:
        """As the workers that run wrote them last."""
        found = []
        for worker in self.workers:
            with suppress(UsageError):  # none written yet
                found.append(status.read(self.engine.status_path(self.engine.processes.index(worker))))
        return found

    def _begun(self) -> bool:
        """Have both flows claimed all partitions? What is written before is unexplained."""
        flows = [flow for state in self._states() for flow in state.flows]
        names = {flow.flow for flow in flows}
        claimed = [sum(len(each.partitions) for each in flows if each.flow == name) for name in names]
        return claimed == [ALL, ALL]

    @contextmanager
    def _clients(self) -> Iterator[None]:
        clients = [
            Client(side.bootstrap, topic, sort, first)
            for side, first in zip(self.sides, (0, RIGHTS_FIRST), strict=True)
            for sort, topic in self.topics.items()
        ]
        with ExitStack() as stack:
            for client in clients:
                client.start()
                stack.callback(client.join, 60)
            for client in clients:  # all at once: each may wait for a broker that is down
                stack.callback(client.over.set)
            yield

    def _fault(self, worker: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """One fault and its end; the worker that runs then."""
        fault = self.rng.choice(("killed", "at a step", "at a step", "two", "cut", "broker", "stopped"))
        self.did.append(fault)
        side = self.rng.choice(self.sides)
        if fault == "cut":
            for name in (broker.name for broker in side.brokers):
                self.lab.proxy.set(name, cut=True)
            time.sleep(self.rng.uniform(0.3, 3))
            for broker in side.brokers:
                self.lab.proxy.clear(broker.name)
        elif fault == "broker":
            (broker,) = side.brokers
            broker.kill()
            broker.launch()
            broker.wait_ready(60)
        elif fault == "two":
            other = self.engine.start()
            time.sleep(self.rng.uniform(0.5, 8))
            worker.kill()
            worker.wait(10)
            return other
        elif fault == "stopped":
            worker.send_signal(signal.SIGTERM)
            worker.wait(60)
            return self.engine.start()
        elif fault == "killed":
            worker.kill()
            worker.wait(10)
            return self.engine.start()
        else:
            failpoint = f"{self.rng.choice(get_args(Failpoint))}:{self.rng.randrange(1, 12)}"
            self.did[-1] = failpoint
            worker.kill()
            worker.wait(10)
            dying = self.engine.start(failpoint=failpoint)
            try:
                dying.wait(8)
            except subprocess.TimeoutExpired:
                dying.kill()
                dying.wait(10)
            return self.engine.start()
        if worker.poll() is not None:  # it found no cluster when it started, and said so
            return self.engine.start()
        return worker

    def _lose_a_journal(self) -> None:
        at = self.rng.randrange(2)
        alias = (self.engine.source, self.engine.target)[at]
        journal = load_mirror_settings(self.engine.properties).flows[0].policy.journal_topic(alias)
        self.did.append(f"the journal of the flow from {'LEFT' if at == 0 else 'RIGHT'} is deleted")
        for process in self.engine.processes:
            if process.poll() is None:
                process.kill()
                process.wait(10)
        delete_topic(self.sides[1 - at].bootstrap, journal)
        self.workers = [self.engine.start() for _ in self.workers]

    def _judged(self, lost: bool) -> list[str]:
        for side in self.sides:
            wait_for_markers(side.bootstrap, self.topics["transactions"], PARTITIONS["transactions"])
        wrong: list[str] = []

        def whole() -> bool:
            wrong[:] = [*self._differences(), *self._twice()]
            return not wrong

        try:
            wait_for("both logs have every record", whole, 30 if lost else HEALED_S)
        except AssertionError:
            named = {entity for event in self._open() for entity in (event.entity, *event.entities)}
            unnamed = [each for each in wrong if each.split(":")[0] not in named]
            wrong[:] = unnamed if lost else wrong
        return wrong if lost else [*wrong, *self._said_lost()]

    def _said_lost(self) -> Iterator[str]:
        for event in {event for state in self._states() for event in state.events}:
            if event.name in ("CopiesUnknown", "RecordsUnexplained"):
                yield f"{event.entity}: {event.name}: {event.detail}"

    def _open(self) -> Sequence[status.Event]:
        return [event for state in self._states() for event in state.events if event.resolved_ms is None]

    def _logs(self, sort: str) -> list[dict[int, list[Record]]]:
        return [read_all(side.bootstrap, self.topics[sort], PARTITIONS[sort]) for side in self.sides]

    def _differences(self) -> Iterator[str]:
        """What is not on both logs, or not in the order in which its side wrote it."""
        for sort, topic in self.topics.items():
            here, there = self._logs(sort)
            for number in range(PARTITIONS[sort]):
                for first in (0, RIGHTS_FIRST):
                    ours, theirs = (_of(records[number], first, sort) for records in (here, there))
                    if ours != theirs:
                        yield f"{topic}-{number}: {len(ours)} records of one side are {len(theirs)}, or in another order"

    def _twice(self) -> Iterator[str]:
        for sort, topic in self.topics.items():
            for records in self._logs(sort):
                for number in range(PARTITIONS[sort]):
                    twice = [_n(r) for r, count in Counter(records[number]).items() if count > 1]
                    if twice:
                        yield f"twice in {topic}-{number}: {len(twice)} records, the first {twice[0]}"


def _n(record: Record) -> int:
    return int(dict(record[2])["n"])


def _of(records: Sequence[Record], first: int, sort: str) -> list[Record]:
    """Those of one side; where the log is compacted, the last of each key."""
    ours = [record for record in records if first <= _n(record) < first + RIGHTS_FIRST]
    return sorted({r[0]: r for r in ours}.values(), key=_n) if sort == "compacted" else ours


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.both_ways", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--schedules", type=int, default=30)
    parser.add_argument("--seed", type=int, help="this one alone")
    wanted = parser.parse_args()
    first = random.randrange(10**6)
    seeds = range(first, first + wanted.schedules) if wanted.seed is None else [wanted.seed]
    failed = 0
    with (
        ended_in_order(),
        tempfile.TemporaryDirectory(prefix="two-way-") as folder,
        Lab(Path(folder) / "lab", ("LEFT", "RIGHT")) as lab,
    ):
        for seed in seeds:
            root = Path(folder) / f"schedule-{seed}"
            root.mkdir()
            schedule = Schedule(lab, root, seed)
            try:
                found = schedule.run()
                shown = "; ".join(schedule.did)
                print(
                    f"seed {seed}: {shown}: {'; '.join(found) or 'every record once on both sides, or named'}",
                    flush=True,
                )
                if found:
                    failed += 1
                    print(f"{schedule._open()}\n{schedule.engine.log()}", flush=True)
            finally:
                schedule.engine.close()
    print(f"{len(seeds)} schedules, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
