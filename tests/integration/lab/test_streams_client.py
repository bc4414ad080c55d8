"""A Kafka Streams application at one address whose cluster is killed under load.

Its sums on the target are those of the records there where its positions did not cross, as it rebuilds its state, and others
where they crossed without its changelog.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from beside import beside
from confluent_kafka import Producer
from fix_engine import Engine, commit, wait_for
from fix_lab import LabFactory

from drlib import clock
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.lab.clients import runtimes
from drlib.lab.clients.families import BY_NAME, Family, chosen
from drlib.lab.clients.on_lab import Chosen, LabClients, One
from drlib.lab.clients.rules import Move, Seen, check, continued, finished, judge
from drlib.model import Flow
from drlib.runs.check import Verdict
from drlib.runs.scorecard import ClientScore

FLOW = Flow("LEFT", "RIGHT")
STREAMS = BY_NAME["streams"]
CROSSED = 20  # the position of its group on RIGHT, where it has one
pytestmark = pytest.mark.long


@pytest.fixture
def clients(
    request: pytest.FixtureRequest, lab_factory: LabFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LabClients]:
    """The application, with a parameter's settings, and its producer, which work on LEFT; and a mirror."""
    more: tuple[str, ...] = getattr(request, "param", ())
    monkeypatch.setitem(cast(dict[str, Family], BY_NAME), "streams", replace(STREAMS, settings=STREAMS.settings + more))
    lab = lab_factory()
    left, right = (lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT"))
    engine = Engine(tmp_path, left, right, "LEFT", "RIGHT", "flights.*")
    engine.start()
    made = LabClients(lab, tmp_path, FLOW, tmp_path / "pointer.json")
    made.start(Chosen(chosen(["streams"], runtimes.found())))
    yield made
    for one in made.each():  # seen where a test fails
        print((lab.root / f"{one.process('consume')}.log").read_text(encoding="utf-8")[-20_000:])
    made.stop_all()
    engine.close()


@contextmanager
def more_records(servers: str, topic: str) -> Iterator[None]:
    """Some hundred a second, of the number 0 and a key that the application knows, while inside."""

    def write(ended: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        for number in itertools.count():
            headers: list[tuple[str, str | bytes | None]] = [("id", f"more-{number}-0"), ("n", "0")]
            producer.produce(topic, key="client-streams-k0", value="0", headers=headers)
            producer.poll(0)
            if ended.wait(0.005):
                break
        producer.purge()

    with beside(write):
        yield


def wait_until_silent(clients: LabClients, one: One) -> None:
    """Until it has processed nothing for a second, and so has sent nothing but to its repartition topic since its commit."""
    at, since = clients.processed(one), time.monotonic()

    def silent() -> bool:
        nonlocal at, since
        if (now := clients.processed(one)) != at:
            at, since = now, time.monotonic()
        return time.monotonic() - since > 1.0

    wait_for("it is between two commits", silent, 60)


def move(clients: LabClients, position: int | None, *, between_commits: bool = False) -> tuple[ClientScore, Move, Seen]:
    """Kill LEFT and lead the application to RIGHT, where its group has `position`; what it did, and how that is judged."""
    (one,) = clients.each()
    lab, right = clients.lab, clients.lab.clusters["RIGHT"].bootstrap
    wait_for("it works", lambda: clients.processed(one) > 2 * CROSSED, 120)
    wait_for("its records cross", lambda: len(clients.logged(one).remote) > 2 * CROSSED, 60)
    with more_records(lab.clusters["LEFT"].bootstrap, one.topic) if between_commits else nullcontext():
        if between_commits:
            wait_until_silent(clients, one)
        fault_ms = clock.now_ms()
        lab.clusters["LEFT"].kill()
    if position is not None:
        commit(right, one.name, clients.remote(one), position)
    decided = Move("LEFT", "RIGHT", fault_ms, clock.now_ms())
    pointer_file.write_atomic(clients.pointer, Pointer(2, "RIGHT", right))
    wait_for("it continues", lambda: continued(STREAMS, clients.seen(one), decided), 90)
    clients.stop("produce")
    logged = clients.logged(one)

    def ended() -> bool:
        now = replace(logged, consumed=clients.consumed(one))
        if position is None:
            return finished(STREAMS, now, decided)
        return set(logged.local) <= {row.id for row in now.consumed.consumed if row.topic == one.topic}

    wait_for("it has processed everything", ended, 60)
    clients.stop("consume")
    seen = clients.logged(one)
    return judge(STREAMS, one.runtime.version, seen, decided), decided, seen


def test_streams_application_without_positions_rebuilds_its_state_from_the_records_that_crossed(
    clients: LabClients,
) -> None:
    score, decided, seen = move(clients, None)
    assert (score.verdict, score.lost, score.skipped) == (Verdict.PASS, 0, 0), score
    assert (score.sums, score.sums_differ) == (7, 0)
    assert score.why.endswith("its 7 running sums are those of the records on RIGHT")
    assert score.read_after_s is not None
    assert (score.re_read or 0) >= 2 * CROSSED
    last = {row.key: row.total for row in seen.consumed.consumed}
    assert sum(total or 0 for total in last.values()) == sum(number(name) for name in (*seen.remote, *seen.local))
    assert check(score, decided).name.endswith("continue on RIGHT, and nothing is lost or skipped")
    print("Kafka Streams continued after", score.read_after_s, "s")


@pytest.mark.parametrize("clients", [("commit.interval.ms=4000",)], indirect=True)
def test_streams_application_gives_up_records_on_their_way_to_a_topic_that_the_target_lacks(
    clients: LabClients,
) -> None:
    """Its repartition topic: with `exactly_once_v2` its producer would wait 24 days to deliver them."""
    score, _, _ = move(clients, None, between_commits=True)
    assert (score.verdict, score.lost, score.skipped, score.sums_differ) == (Verdict.PASS, 0, 0, 0), score
    assert score.read_after_s is not None
    assert score.read_after_s > 10  # it had to wait for them
    print("Kafka Streams continued after", score.read_after_s, "s")


def test_streams_application_whose_positions_crossed_without_its_changelog_has_other_sums(clients: LabClients) -> None:
    score, decided, seen = move(clients, CROSSED)
    assert (score.verdict, score.lost, score.skipped) == (Verdict.CONDITIONS, 0, 0), score
    assert (score.sums, score.sums_differ) == (7, 7)
    assert "so that it began with an empty state on RIGHT" in score.why
    last = {row.key: row.total for row in seen.consumed.consumed}
    first = next(row for row in seen.consumed.consumed if row.topic.startswith("LEFT."))
    assert first.offset == CROSSED
    there = (*seen.remote[seen.remote.index(first.id) :], *seen.local)
    assert sum(total or 0 for total in last.values()) == sum(map(number, there))
    assert check(score, decided).name.endswith("continue on RIGHT, with other sums than those of the records there")


def number(name: str) -> int:
    return int(name.rpartition("-")[2])
