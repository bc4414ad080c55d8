"""Watch a cluster beside the data path: whether it answers, whether it is the right one, and whether its clock is right.

Rules: watching changes nothing; requests keep their own deadlines. A cluster is slow when a request that should be answered at
once has had no response for `SLOW_S`; that is reported within a second, long before the deadline that ends the claim, and
resolved by the response. Clock skew is reported when it is certainly beyond the tolerance.
"""

from __future__ import annotations

import asyncio

from drlib.errors import DrlibError
from drlib.kafka.net.authorized_operations import clock_skew
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.errors import no_answer
from drlib.mirror.status.worker_status import EventLog

SLOW_S = 3.0
CHECK_INTERVAL_S = 0.25
CLOCK_INTERVAL_S = 60.0


async def watch(side: str, alias: str, client: ClusterClient, events: EventLog) -> None:
    """Watch one cluster until cancelled; `side` is Source or Target."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_watch_responses(side, alias, client, events))
        tasks.create_task(_watch_clock(alias, client, events))


async def _watch_responses(side: str, alias: str, client: ClusterClient, events: EventLog) -> None:
    slow = "TargetSlow" if side == "Target" else "SourceSlow"
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        seconds, peer = client.waiting()
        if seconds > SLOW_S:
            events.open(
                slow,
                alias,
                f"{peer} has not answered for {seconds:.0f} s; nothing is lost, requests in flight are waited for",
            )
        else:
            events.resolve(slow, alias)
        if client.stranger:
            detail = (
                f"its addresses lead to cluster {client.stranger}, not to {client.cluster_id}; its answers are ignored"
            )
            events.open("WrongCluster", alias, detail)
        else:
            events.resolve("WrongCluster", alias)
        if side == "Source":
            continue  # its readers report when it cannot be reached
        if client.refusal is not None:
            detail, remedy = no_answer(client.refusal)
            events.open("TargetUnreachable", alias, detail, remedy=remedy)
        elif client.unreachable:
            events.open("TargetUnreachable", alias, client.unreachable)
        else:
            events.resolve("TargetUnreachable", alias)


async def _watch_clock(alias: str, client: ClusterClient, events: EventLog) -> None:
    while True:
        try:
            skew = await clock_skew(client)
        except (DrlibError, TimeoutError, OSError):
            skew = None
        if skew is not None and skew.beyond_tolerance:
            detail = f"the clock of {alias} is {skew}; lags in seconds are wrong by as much"
            events.open("ClockSkew", alias, detail)
        elif skew is not None:
            events.resolve("ClockSkew", alias)
        await asyncio.sleep(CLOCK_INTERVAL_S)
