"""Several silent clusters in one error."""

from __future__ import annotations

import pytest

from drlib.errors import Unreachable
from drlib.kafka.admin import connect
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
