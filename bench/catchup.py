"""Measure catching up: start an engine on a backlog, and watch the target's log end until all is mirrored or time is up.

Rules: the target is read directly, never over the link; records are counted, without the engine's markers; the clock
starts with the engine's process. Not for: making the backlog, judging numbers (`steady`).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import uvloop

from bench.engines import Engine, Running
from bench.meter import Meter, Surroundings
from bench.site import Site
from bench.steady import Sample, Steady, steady
from bench.workloads import Workload
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.model import TopicPartition

FIRST_RECORD_S: Final = 90.0
_EVERY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """One run. `first_record_s` counts from the start of the engine's process; memory in bytes, loads in cores."""

    first_record_s: float
    window: Steady | None
    done: int
    peak_rss: int
    load_before: float
    other_load: float


def catch_up(engine: Engine, site: Site, workload: Workload, tag: str, topic: str, total: int) -> CaughtUp:
    """Run `engine` until `total` records are across or `workload.limit_s` is up. Raises `TimeoutError` for no record."""
    around = Surroundings(site.pids)
    began = time.perf_counter()
    running = engine.start(site, workload, tag, 1)
    try:
        meter = Meter(running.pids)
        mirror = engine.mirror(tag, topic)
        samples = uvloop.run(_watch(site, workload, mirror, engine.markers, total, meter, running))
        other = around.other_load(meter.cpu())
        peak = meter.peak_rss()
    finally:
        running.stop()
    first = next(s for s in samples if s.done > 0)
    return CaughtUp(first.at - began, steady(samples, total), round(samples[-1].done), peak, around.load_before, other)


async def _watch(
    site: Site, workload: Workload, mirror: str, markers: int, total: int, meter: Meter, running: Running
) -> list[Sample]:
    client = ClusterClient(site.target_direct.split(","))
    wanted = [TopicPartition(mirror, p) for p in range(workload.partitions)]
    samples: list[Sample] = []
    began = time.perf_counter()
    end = began + FIRST_RECORD_S
    try:
        while True:
            found = (await client.metadata([mirror])).topics[mirror]
            if len(found.partitions) >= workload.partitions and min(p.leader for p in found.partitions.values()) >= 0:
                break
            _give_up_after(end, mirror, running)
            await asyncio.sleep(_EVERY_S)
        connection = await client.connection(found.partitions[0].leader)
        while not samples or (samples[-1].done < total and time.perf_counter() < end):
            try:
                ends = await requests.list_offsets(connection, wanted, requests.LATEST)
            except BrokerError as error:  # listed, and its leader does not know of it yet
                if not error.retriable:
                    raise
                ends = {}
            # A claim marks partitions at different moments: only what is beyond all of its markers is surely data.
            done = max(0, sum(ends.values()) - markers * workload.partitions)
            if done and not any(s.done for s in samples):
                end = time.perf_counter() + workload.limit_s
            samples.append(Sample(time.perf_counter(), min(done, total), meter.cpu()))
            if not done:
                _give_up_after(end, mirror, running)
            await asyncio.sleep(_EVERY_S)
        if not samples[-1].done:
            _give_up_after(end, mirror, running)
        return samples
    finally:
        await client.close()


def _give_up_after(end: float, mirror: str, running: Running) -> None:
    if time.perf_counter() > end:
        raise TimeoutError(f"no record of {mirror} within {FIRST_RECORD_S:g} s; the engine said:\n{running.log_tail()}")
