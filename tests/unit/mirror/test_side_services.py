"""A service that fails is an event, starts again, and ends nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from testbed_lane import until

from drlib.errors import Unreachable
from drlib.mirror import side_services
from drlib.mirror.side_services import keep_running, retract_when
from drlib.mirror.status.worker_status import EventLog


async def test_keep_running_failed_service_is_reported_restarted_and_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_services, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(side_services, "STEADY_S", 0.01)
    events = EventLog()
    failures: list[BaseException] = [RuntimeError("boom"), ExceptionGroup("tasks", [OSError("gone")])]
    ended = asyncio.Event()

    async def service() -> None:
        if failures:
            raise failures.pop(0)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(keep_running("A->B groups", service, events))
    await until("both failures are over", lambda: not failures and not events.is_open("ServiceFailed", "A->B groups"))
    (event,) = events.snapshot()
    assert (event.name, event.times) == ("ServiceFailed", 1)
    assert event.detail.startswith("OSError: gone")
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ended.is_set()
    assert running.cancelled()


async def test_keep_running_defect_has_its_traceback_once_and_a_refusal_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(side_services, "FIRST_PAUSE_S", 0.001)
    failures: list[BaseException] = [KeyError("defect"), KeyError("defect")]

    def service_of(errors: list[BaseException]) -> Callable[[], Awaitable[None]]:
        async def service() -> None:
            if errors:
                raise errors.pop(0)
            await asyncio.Event().wait()

        return service

    refused: list[BaseException] = [Unreachable("A does not answer", "refused", "Start it.")]
    events = EventLog()
    running = [
        asyncio.create_task(keep_running("A->B groups", service_of(failures), events)),
        asyncio.create_task(keep_running("A->B lag", service_of(refused), events)),
    ]
    await until("all have failed and run again", lambda: not failures and not refused)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    (record,) = [record for record in caplog.records if record.name == "drlib.mirror"]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


async def test_retract_when_lanes_run_what_the_preflight_reported_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_services, "STEADY_S", 0.001)
    events, answers = EventLog(), [False]
    asked: list[bool] = []

    def ready() -> bool:
        asked.append(answers[-1])
        return answers[-1]

    events.open("SourceUnauthorized", "mine", "no right", by="preflight")
    events.open("SourceUnauthorized", "mine", "no right", by="lane")
    events.open("SourceUnauthorized", "of another worker", "no right", by="preflight")
    running = asyncio.create_task(retract_when(ready, events, "preflight"))
    await until("it has asked twice", lambda: len(asked) > 1)
    assert events.is_open("SourceUnauthorized", "of another worker")
    answers.append(True)
    await until("its report has ended", lambda: not events.is_open("SourceUnauthorized", "of another worker"))
    assert events.is_open("SourceUnauthorized", "mine")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
