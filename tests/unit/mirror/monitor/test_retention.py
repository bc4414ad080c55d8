"""Retention settings of the source's topics while the source does not let the worker in."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import Fault, fault
from drlib.mirror.monitor import retention
from drlib.mirror.monitor.retention import RetentionWatch
from drlib.mirror.status.worker_status import EventLog
from drlib.model import Flow

REFUSED = fault(Fault.WRONG_CREDENTIALS, "h:1", mechanism="PLAIN", detail="wrong password")


@pytest.mark.parametrize("error", [REFUSED, Unreachable("A", "no answer", "Start it.")], ids=["refused", "silent"])
async def test_source_that_refuses_the_login_is_asked_again_at_once_and_is_no_event_of_the_watch(
    monkeypatch: pytest.MonkeyPatch, error: DrlibError
) -> None:
    """The lanes report it, with the remedy. A password that was renewed is used with the next question."""
    errors, answered = [error, error], asyncio.Event()
    loop = asyncio.get_running_loop()

    class Cluster:
        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> Self:
            if errors:
                raise errors.pop()
            return self

        def __exit__(self, *_: object) -> None: ...

        def topic_settings(self, topics: frozenset[str]) -> dict[str, tuple[()]]:
            loop.call_soon_threadsafe(answered.set)
            return dict.fromkeys(topics, ())

    monkeypatch.setattr(retention, "Cluster", Cluster)
    events, settings = EventLog(), SimpleNamespace(flow=Flow("A", "B"), forecast_interval_ms=10)
    watch = RetentionWatch(cast(Any, settings), ClusterSettings("A", ("h:1",)), events, lambda: frozenset({"orders"}))
    watching = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(20):
            await answered.wait()
    finally:
        watching.cancel()
    assert events.snapshot() == ()
