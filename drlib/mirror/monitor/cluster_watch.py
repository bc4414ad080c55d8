"""Looks at both clusters from beside the data path: who does not answer, and whose clock is another one.

Rules: looking changes nothing: no request is given up sooner for it, the engine's own deadlines stand. A cluster is slow
when a question that needs no waiting has had no answer for `SLOW_S`; that is told within a second of it, long before the
deadline that ends the claim, and resolved when it answers. A clock is told when it is surely beyond the tolerance.
"""

from __future__ import annotations

import asyncio

from drlib.errors import DrlibError
from drlib.kafka.net.authorized_operations import clock_skew
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.status.worker_status import EventLog

SLOW_S = 3.0
LOOK_S = 0.25
CLOCK_S = 60.0


async def watch(side: str, alias: str, client: ClusterClient, events: EventLog) -> None:
    """Tell of one cluster until cancelled; `side` is Source or Target."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_answers(side, alias, client, events))
        tasks.create_task(_clock(alias, client, events))


async def _answers(side: str, alias: str, client: ClusterClient, events: EventLog) -> None:
    slow = "TargetSlow" if side == "Target" else "SourceSlow"
    while True:
        await asyncio.sleep(LOOK_S)
        seconds, peer = client.waiting()
        if seconds > SLOW_S:
            events.open(
                slow, alias, f"{peer} has not answered for {seconds:.0f} s; nothing is lost, what was sent waits"
            )
        else:
            events.resolve(slow, alias)
        if client.stranger:
            told = (
                f"its addresses lead to cluster {client.stranger}, not to {client.cluster_id}; no answer of it is used"
            )
            events.open("WrongCluster", alias, told)
        else:
            events.resolve("WrongCluster", alias)
        if side == "Source":
            continue  # whoever reads it tells when it cannot be reached
        if client.unreachable:
            events.open("TargetUnreachable", alias, client.unreachable)
        else:
            events.resolve("TargetUnreachable", alias)


async def _clock(alias: str, client: ClusterClient, events: EventLog) -> None:
    while True:
        try:
            skew = await clock_skew(client)
        except (DrlibError, TimeoutError, OSError):
            skew = None
        if skew is not None and skew.beyond_tolerance:
            told = f"the clock of {alias} is {skew}; lags in seconds compare times of both and are off by as much"
            events.open("ClockSkew", alias, told)
        elif skew is not None:
            events.resolve("ClockSkew", alias)
        await asyncio.sleep(CLOCK_S)
