"""What a worker says of a target that answers and does not let it in."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drlib.kafka.security.errors import Fault, SecurityFault, fault
from drlib.mirror.monitor import cluster_watch
from drlib.mirror.monitor.cluster_watch import _watch_responses
from drlib.mirror.status.worker_status import EventLog

LOGIN = fault(Fault.WRONG_CREDENTIALS, "h:1", mechanism="PLAIN", detail="wrong password")
CERTIFICATE = fault(Fault.UNKNOWN_CA, "h:1")


@pytest.mark.parametrize("refusal", [LOGIN, CERTIFICATE], ids=["login", "certificate"])
async def test_target_that_refuses_the_worker_is_an_event_with_the_reason_and_its_remedy(
    monkeypatch: pytest.MonkeyPatch, refusal: SecurityFault
) -> None:
    monkeypatch.setattr(cluster_watch, "CHECK_INTERVAL_S", 0)
    client = SimpleNamespace(
        waiting=lambda: (0.0, ""), stranger="", unreachable="h:1: connection refused", refusal=None
    )
    events = EventLog()
    watching = asyncio.create_task(_watch_responses("Target", "B", cast(Any, client), events))

    async def looked() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    try:
        await looked()
        client.unreachable, client.refusal = "", refusal
        await looked()
        (event,) = events.snapshot()
        assert (event.name, event.resolved_ms) == ("TargetUnreachable", None)
        assert refusal.why in event.detail
        assert event.remedy == refusal.remedy
    finally:
        watching.cancel()
