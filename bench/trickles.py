"""The workloads that measure latency: one busy topic, and a thousand topics of which few are busy.

Rules: nothing counts before a record has crossed on every partition that is watched, and a warm-up after that; idle CPU
is taken while nothing is sent at all. Not for: catching up (`catchup`), arithmetic (`latency.added`, `steady`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import uvloop
from confluent_kafka.admin import AdminClient

from bench.engines import Engine
from bench.latency import Added, Sender, Watch, added, trickle
from bench.meter import Meter, Surroundings
from bench.site import Site, create_topics, python_path
from bench.sources import TOPIC
from bench.steady import percentile
from bench.workloads import Workload
from drlib.model import TopicPartition

RATE: Final = 1000  # records per second of the busy topic
TICK_S: Final = 0.008  # 8 partitions, one record to each
WARM_S: Final = 5.0
MEASURED_S: Final = 20.0
IDLE_S: Final = 10.0
PROBED: Final = 40  # idle topics that get a record now and then
MANY_TICK_S: Final = 0.1
CHANGES: Final = 10  # topics created while latency is measured, one after the other
JOINS: Final = 2  # with which of them a second worker joins, and with which it leaves
LEAVES: Final = 7
NOT_READY: Final = 3  # exit code of doctor and status
_READY_S: Final = 150.0
Mirror = Callable[[str], str]  # the name on the target of a topic of the source


@dataclass(frozen=True, slots=True)
class Trickled:
    """`metrics` by the names of `results.METRICS`; `problem` says when records were missing."""

    metrics: Mapping[str, float]
    load_before: float
    other_load: float
    problem: str


def busy_topic(engine: Engine, site: Site, workload: Workload, tag: str) -> Trickled:
    """Added latency at `RATE` records per second."""
    partitions = [TopicPartition(TOPIC, p) for p in range(workload.partitions)]
    around = Surroundings(site.pids)
    running = engine.start(site, workload, tag, 1)
    try:
        meter = Meter(running.pids)
        found = uvloop.run(_busy(site, partitions, partial(engine.mirror, tag), _changes(engine, site, workload, tag)))
        metrics = {**_latencies(found), "memory": meter.peak_rss() / 1e6}
        return Trickled(metrics, around.load_before, around.other_load(meter.cpu()), _problem(found))
    finally:
        running.stop()


def many_topics(engine: Engine, site: Site, workload: Workload, tag: str, names: Sequence[str]) -> Trickled:
    """Idle CPU with every topic there and nothing sent; then latency with a few of them busy and others woken."""
    rng = random.Random(3)
    shuffled = rng.sample(list(names), len(names))
    busy = shuffled[: max(1, round(len(names) * workload.active))]
    probed = [TopicPartition(n, rng.randrange(workload.partitions)) for n in shuffled[len(busy) : len(busy) + PROBED]]
    turns = [
        [*(TopicPartition(busy[n % len(busy)], p) for p in range(workload.partitions)), probe]
        for n, probe in enumerate(probed)
    ]
    around = Surroundings(site.pids)
    began = time.perf_counter()
    running = engine.start(site, workload, tag, 1)
    try:
        meter = Meter(running.pids)
        _wait_for_topics(site, {engine.mirror(tag, name) for name in names})
        ready = time.perf_counter() - began
        idle, found = uvloop.run(_many(site, turns, partial(engine.mirror, tag), meter))
        metrics = {
            **_latencies(found),
            "topics ready": ready,
            "idle cpu": idle * 100,
            "memory": meter.peak_rss() / 1e6,
            **(_answers(running.file) if running.file is not None else {}),
        }
        return Trickled(metrics, around.load_before, around.other_load(meter.cpu()), _problem(found))
    finally:
        running.stop()


def _answers(file: Path) -> dict[str, float]:
    """Seconds that `drlib status` and `drlib doctor` take while the engine runs; not ready is an answer as well."""
    taken = {}
    for command in ("status", "doctor"):
        began = time.perf_counter()
        argv = [sys.executable, "-m", "drlib.cli", command, str(file)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=python_path(), timeout=_READY_S)
        if done.returncode not in (0, NOT_READY):
            raise RuntimeError(f"drlib {command} ended with {done.returncode}: {done.stderr[-500:]}")
        taken[command] = time.perf_counter() - began
    return taken


def _changes(engine: Engine, site: Site, workload: Workload, tag: str) -> Callable[[], None]:
    """What happens in `MEASURED_S` while latency is measured."""

    def change() -> None:
        with contextlib.ExitStack() as joined:
            for step in range(CHANGES):
                due = time.perf_counter() + MEASURED_S / CHANGES
                if step == JOINS:
                    joined.callback(engine.start(site, workload, tag, 2).stop)
                if step == LEAVES:
                    joined.close()
                create_topics(site.source_direct, [f"{TOPIC}.new.{step}"], 1)
                time.sleep(max(0.0, due - time.perf_counter()))

    return change if workload.changing else lambda: None


async def _busy(site: Site, partitions: Sequence[TopicPartition], mirror: Mirror, changes: Callable[[], None]) -> Added:
    sender, source, target = await _watched(site, partitions, mirror)
    try:
        await trickle(sender, [partitions], WARM_S, TICK_S)
        found, _ = await asyncio.gather(
            _measured(sender, source, target, [partitions], TICK_S), asyncio.to_thread(changes)
        )
        return found
    finally:
        await _stopped(sender, source, target)


async def _many(
    site: Site, turns: Sequence[Sequence[TopicPartition]], mirror: Mirror, meter: Meter
) -> tuple[float, Added]:
    partitions = sorted({p for turn in turns for p in turn}, key=lambda p: (p.topic, p.partition))
    sender, source, target = await _watched(site, partitions, mirror)
    try:
        await trickle(sender, turns, WARM_S, MANY_TICK_S)
        await target.seen(sender.sent)
        before, at = meter.cpu(), time.perf_counter()
        await asyncio.sleep(IDLE_S)  # the measurement itself: nothing happens for so long
        idle = (meter.cpu() - before) / (time.perf_counter() - at)
        return idle, await _measured(sender, source, target, turns, MANY_TICK_S)
    finally:
        await _stopped(sender, source, target)


async def _watched(site: Site, partitions: Sequence[TopicPartition], mirror: Mirror) -> tuple[Sender, Watch, Watch]:
    """Everything connected, and a record across on every partition."""
    sender = Sender(site.source_direct, partitions[0].topic)
    source = Watch(site.source_direct, partitions)
    target = Watch(site.target_direct, [TopicPartition(mirror(p.topic), p.partition) for p in partitions])
    try:
        await sender.start()
        await source.start(deadline_s=_READY_S)
        await target.start(deadline_s=_READY_S)
        await sender.send(partitions)
        if not await target.seen(sender.sent, deadline_s=_READY_S):
            missing = len(set(sender.sent) - target.arrived.keys())
            raise TimeoutError(f"{missing} of {len(partitions)} partitions had no record across in {_READY_S:g} s")
        return sender, source, target
    except BaseException:
        await _stopped(sender, source, target)
        raise


async def _measured(
    sender: Sender, source: Watch, target: Watch, turns: Sequence[Sequence[TopicPartition]], tick_s: float
) -> Added:
    sender.sent.clear()
    await trickle(sender, turns, MEASURED_S, tick_s)
    await target.seen(sender.sent)
    return added(sender.sent, source.arrived, target.arrived)


async def _stopped(sender: Sender, *watches: Watch) -> None:
    await asyncio.gather(sender.stop(), *(watch.stop() for watch in watches))


def _wait_for_topics(site: Site, names: set[str]) -> None:
    admin = AdminClient({"bootstrap.servers": site.target_direct, "log_level": 0})
    end = time.monotonic() + _READY_S
    while missing := names - set(admin.list_topics(timeout=10).topics):
        if time.monotonic() > end:
            raise TimeoutError(f"{len(missing)} of {len(names)} mirror topics were not there within {_READY_S:g} s")
        time.sleep(0.1)


def _latencies(found: Added) -> dict[str, float]:
    if not found.ms:
        return {}
    return {"latency p50": percentile(found.ms, 0.5), "latency p99": percentile(found.ms, 0.99)}


def _problem(found: Added) -> str:
    return f"{found.missing} of {found.sent} records did not come across in time" if found.missing else ""
