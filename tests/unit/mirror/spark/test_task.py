"""A task and the driver find each other, or do not, over a real socket; Spark's own part is not needed for it."""

from __future__ import annotations

import queue
from types import SimpleNamespace

import pytest

from drlib.errors import Unreachable
from drlib.lab.ports import free_ports
from drlib.mirror.spark.control_channel import ControlChannel, TaskConnected, TaskRegistration
from drlib.mirror.spark.task import Assignment, _connected

CONTEXT = SimpleNamespace(attemptNumber=lambda: 3)


def assignment(port: int, token: str) -> Assignment:
    return Assignment(2, 4, "/f.properties", None, 1 << 20, None, "127.0.0.1", port, token)


def test_task_with_the_token_is_connected_until_the_driver_stops_it() -> None:
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    channel = ControlChannel("127.0.0.1", events)
    try:
        with _connected(assignment(channel.port, channel.token), CONTEXT) as (connection, name):
            assert events.get(timeout=10) == TaskConnected(TaskRegistration(2, 3, name))
            assert connection.gettimeout() is None
            channel.stop()
            assert connection.recv(1) == b""
    finally:
        channel.close()


def test_task_without_the_token_or_a_driver_fails_so_that_spark_runs_it_again() -> None:
    channel = ControlChannel("127.0.0.1", queue.SimpleQueue())
    try:
        with (
            pytest.raises(Unreachable, match="no driver of this mirror answers at") as met,
            _connected(assignment(channel.port, "another"), CONTEXT),
        ):
            pass
        assert channel.token not in str(met.value)
        assert "another" not in str(met.value)
    finally:
        channel.close()
    with (
        pytest.raises(Unreachable, match="cannot reach the driver"),
        _connected(assignment(free_ports(1)[0], "any"), CONTEXT),
    ):
        pass
