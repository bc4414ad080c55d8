"""What a worker's status and this host's own connections say of a source."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sample_flow import FLOW, NOW, worker

from drlib.drill.witness import look
from drlib.drill.witness.evidence import Answer, Condition, Place, View
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import Fault, fault
from drlib.mirror.errors import no_answer
from drlib.mirror.status.event_log import Event
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.model import Flow

SOURCE_TARGET = Flow(*FLOW.split("->"))


def heard(status: WorkerStatus, at_ms: int) -> WorkerStatus:
    flows = [replace(f, partitions=tuple(replace(p, as_of_ms=at_ms) for p in f.partitions)) for f in status.flows]
    return replace(status, flows=tuple(flows))


def event(name: str, opened_ms: int = NOW - 20_000, flow: str = FLOW) -> Event:
    return Event(name, "0", "", opened_ms, flow=flow)


@pytest.mark.parametrize(
    ("status", "source", "target", "since_s"),
    [
        (heard(worker(), NOW - 1000), Answer.SERVES, Answer.SERVES, None),
        (heard(worker(event("SourceUnreachable")), NOW - 1000), Answer.SERVES, Answer.SERVES, None),  # in part
        (heard(worker(event("SourceUnreachable")), NOW - 30_000), Answer.SILENT, Answer.SERVES, 20.0),
        (heard(worker(event("SourceUnreachable")), NOW - 10_000), Answer.SILENT, Answer.SERVES, 10.0),
        (heard(worker(), NOW - 30_000), Answer.UNKNOWN, Answer.SERVES, None),
        (heard(worker(event("SourceUnreachable", flow="X->Y")), NOW - 30_000), Answer.UNKNOWN, Answer.SERVES, None),
        (heard(worker(event("GroupTailUnavailable")), NOW - 30_000), Answer.UNKNOWN, Answer.SERVES, None),  # a right
        (
            heard(worker(event("SourceUnreachable"), event("TargetUnreachable")), NOW - 30_000),
            Answer.SILENT,
            Answer.SILENT,
            20.0,
        ),
        (replace(worker(), flows=()), Answer.UNKNOWN, Answer.UNKNOWN, None),
    ],
)
def test_of_worker_sees_by_what_it_fetches(
    status: WorkerStatus, source: Answer, target: Answer, since_s: float | None
) -> None:
    assert look.of_worker(status, SOURCE_TARGET) == View(Place.MIRROR, "host-7", source, target, since_s)


def test_of_worker_that_is_refused_says_nothing_of_the_source() -> None:
    """A password that was changed makes no cluster dead: not for this host, and not for a worker."""
    detail, remedy = no_answer(fault(Fault.WRONG_CREDENTIALS, "h:1", mechanism="PLAIN", detail="wrong password"))
    refused = replace(event("SourceUnreachable"), detail=detail, remedy=remedy)
    for others in ((), (event("SourceUnreachable"),)):
        view = look.of_worker(heard(worker(refused, *others), NOW - 30_000), SOURCE_TARGET)
        assert (view.source, view.target, view.counts) == (Answer.UNKNOWN, Answer.SERVES, False)
        assert "cannot use the source" in str(view)


@contextmanager
def silent_port() -> Iterator[str]:
    """An address that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_answers_refused_and_silent_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "ANSWER_S", 0.5)
    with silent_port() as silent:
        clusters = [
            ClusterSettings("refused", (closed_port(), closed_port())),
            ClusterSettings("silent", (silent,)),
            ClusterSettings("both", (closed_port(), silent)),
        ]
        assert look.answers(clusters) == {
            "refused": Answer.REFUSED,
            "silent": Answer.SILENT,
            "both": Answer.SILENT,
        }


def test_look_ends_with_what_the_mirror_knows_for_long_or_after_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("drlib.clock.now_ms", lambda: NOW)
    monkeypatch.setattr(look, "from_here", lambda *_: View(Place.HERE, "", Answer.REFUSED, Answer.SERVES))
    source, target = ClusterSettings("LEFT", (closed_port(),)), ClusterSettings("RIGHT", (closed_port(),))

    def found(*statuses: WorkerStatus, hold_s: float) -> Condition:
        return look.look_until_settled(
            source, target, (), hold_s=hold_s, statuses=lambda: statuses, pause=waits.append
        ).condition

    down = heard(worker(event("SourceUnreachable")), NOW - 30_000)
    assert found(down, hold_s=10.0) is Condition.DEAD
    assert not waits
    assert found(hold_s=0.05) is Condition.GONE_FROM_HERE
    assert waits
    monkeypatch.setattr(look, "MOST_S", 0.05)
    assert found(heard(worker(), NOW), hold_s=0.05) is Condition.CUT_OFF


def test_look_status_file_of_a_worker_that_has_ended_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = ClusterSettings("LEFT", (closed_port(),)), ClusterSettings("RIGHT", (closed_port(),))
    first = look.without_answer(source, target_answers=True, waited_s=5.0)
    old = heard(worker(), NOW)  # it served when the file was written
    finding = look.look_until_settled(source, target, (), hold_s=2.0, first=first, statuses=lambda: [old])
    assert (finding.condition, finding.settled, len(finding.views)) == (Condition.GONE_FROM_HERE, True, 1)


def test_look_host_that_cannot_use_the_source_says_nothing_of_it(tmp_path: Path) -> None:
    lacks_store = {"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "gone.p12")}
    source, target = ClusterSettings("LEFT", (closed_port(),), lacks_store), ClusterSettings("RIGHT", (closed_port(),))
    assert look.from_here(source, target) == View(Place.HERE, "", Answer.UNKNOWN, Answer.REFUSED)
    first = look.without_answer(source, target_answers=True, waited_s=0.0, refused=True)
    assert (first.source, first.counts) == (Answer.UNKNOWN, False)
