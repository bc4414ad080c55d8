"""Unmodified clients at one bootstrap address whose cluster stays up and asks them to bootstrap again (error 129, KIP-1102)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from fix_engine import wait_for
from testbed_rebootstrap import Asked, rebootstrap_proxy

from drlib import clock
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.lab.checker.scan import scan
from drlib.lab.clients import runtimes
from drlib.lab.clients.families import FAMILIES, chosen
from drlib.lab.clients.on_lab import Chosen, LabClients, One
from drlib.lab.lab import Lab
from drlib.model import Flow

FLOW = Flow("LEFT", "RIGHT")
HONOUR = frozenset({"java", "console", "librdkafka", "streams"})  # as docs/clients.md has it
STOP = frozenset({"franz-go"})  # its producer stays; its consumer gets no metadata any more, and stops
STAY_S = 20.0  # the others: several times what those that leave take


def written(lab: Lab, one: One) -> int:
    """Records of its producer on RIGHT."""
    return sum(1 for _ in scan(lab.clusters["RIGHT"].settings(), one.topic))


def leave(families: Sequence[str], root: Path) -> tuple[dict[str, float | None], Asked]:
    """By family, seconds from the pointer's move to the first record on RIGHT, of those that do not work with LEFT meanwhile.

    Connections end once while the pointer names LEFT, so that each client asks for metadata, which it does else every five
    minutes: without the error all come back to LEFT.
    """
    with Lab(root / "lab") as lab, rebootstrap_proxy(lab.clusters["LEFT"].brokers[0].spec.apps_port) as asked:
        lab.proxy.target("apps:LEFT-1", asked.port)
        pointer = root / "pointer.json"
        pointer_file.write_atomic(pointer, Pointer(1, "LEFT", lab.clusters["LEFT"].bootstrap))
        clients = LabClients(lab, root, FLOW, pointer)
        clients.start(Chosen(chosen(families, runtimes.found())))
        every = list(clients.each())
        try:
            wait_for("they work", lambda: all(clients.processed(one) > 20 for one in every), 180)
            before = {one: clients.processed(one) for one in every}
            lab.proxy.reset("apps:LEFT")
            wait_for("without the error they come back to LEFT", lambda: _all_since(clients, before), 60)

            moving = [one for one in every if one.runtime.family in HONOUR]
            staying = [one for one in every if one.runtime.family not in HONOUR | STOP]
            asked.required = True
            lab.proxy.reset("apps:LEFT")
            wait_for("they are asked to bootstrap again", lambda: sum(asked.answered.values()) > 5 * len(moving), 60)
            before = {one: clients.processed(one) for one in staying}
            wait_for("the others come back to LEFT", lambda: _all_since(clients, before), 60)
            since = clock.now_ms()
            pointer_file.write_atomic(pointer, Pointer(2, "RIGHT", lab.clusters["RIGHT"].bootstrap))
            wait_for("they continue on RIGHT", lambda: all(written(lab, one) for one in moving), 90)
            until = time.monotonic() + (STAY_S if staying else 0)
            wait_for("time passes", lambda: time.monotonic() > until, STAY_S + 10)
            before = {one: clients.processed(one) for one in staying}
            wait_for("the others work with LEFT", lambda: _all_since(clients, before), 60)
            assert not any(written(lab, one) for one in every if one not in moving)
        finally:
            clients.stop_all()
        after: dict[str, float | None] = {}
        for one in moving:
            there = {row.id for row in scan(lab.clusters["RIGHT"].settings(), one.topic)}
            acked = [row.acked_ms for row in clients.seen(one).produced.produced if row.id in there]
            after[one.runtime.family] = (min(acked) - since) / 1000 if acked else None  # the console producer says none
        return after, asked


def _all_since(clients: LabClients, before: dict[One, int]) -> bool:
    return all(clients.processed(one) > count + 20 for one, count in before.items())


def test_client_that_knows_error_129_leaves_a_cluster_that_works(tmp_path: Path) -> None:
    after, asked = leave(["librdkafka"], tmp_path)
    print(json.dumps(after))
    assert after.keys() == {"librdkafka"}
    assert asked.answered


@pytest.mark.long
@pytest.mark.timeout(600)
def test_which_families_leave_for_error_129_is_what_the_page_says(tmp_path: Path) -> None:
    runs = {each.family for each in runtimes.found() if not each.missing}
    after, asked = leave(["all"], tmp_path)
    print(json.dumps({"after": after, "versions": asked.versions, "answered": asked.answered}, indent=1))
    assert after.keys() == HONOUR & runs & {family.name for family in FAMILIES}
