"""Several silent clusters in one error, and several addresses of one cluster."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, Self

import pytest

from drlib.errors import Unreachable
from drlib.kafka.admin import connect
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.ports import free_ports


def test_refuse_silence_of_no_cluster_raises_nothing() -> None:
    connect.refuse_silence({})


def test_refuse_silence_names_every_silent_cluster_and_each_reason_once() -> None:
    silent = {alias: Unreachable(f"{alias} x", why, "x") for alias, why in (("B", "refused"), ("A", "refused"))}
    with pytest.raises(Unreachable) as raised:
        connect.refuse_silence({**silent, "C": Unreachable("C x", "no route", "x")})
    assert raised.value.what == "A and B and C cannot be reached"
    assert raised.value.why == "refused; no route"
    assert raised.value.remedy.startswith("Start A and B and C, or correct their addresses")


def test_who_answers_closed_ports_are_unreachable_by_alias() -> None:
    clusters = [ClusterSettings(alias, (f"127.0.0.1:{port}",)) for alias, port in zip("AB", free_ports(2), strict=True)]
    assert {alias: type(answer) for alias, answer in connect.who_answers(clusters).items()} == {
        "A": Unreachable,
        "B": Unreachable,
    }
    with pytest.raises(Unreachable, match="A and B cannot be reached"):
        connect.answers(clusters)


class _Address:
    """Answers only once the client of every address has been asked, or was cancelled."""

    def __init__(self, address: str, asked: asyncio.Barrier) -> None:
        self.address, self.asked = address, asked

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def metadata(self, _: None) -> ClusterMetadata:
        await self.asked.wait()
        if self.address == "late:1":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise Unreachable("late:1", "closed", "") from None
        if self.address == "up:1":
            return ClusterMetadata("id", 1, {}, {})
        raise Unreachable(self.address, "refused", "")


async def test_first_answer_leaves_no_failure_of_another_address_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop reported it as an exception that was never retrieved, in the midst of a command's output."""
    asked = asyncio.Barrier(4)
    monkeypatch.setattr(connect, "wire_client", lambda cluster, **_: _Address(cluster.bootstrap_servers[0], asked))
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    cluster = ClusterSettings("A", ("down:1", "up:1", "down:2", "late:1"))
    assert (await connect.first_answer(cluster, 5)).cluster_id == "id"
    for _ in range(3):
        await asyncio.sleep(0)  # the cancelled one ends
    gc.collect()
    assert reported == []
