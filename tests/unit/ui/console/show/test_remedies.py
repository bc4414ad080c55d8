"""Which remedies are buttons: those that take nothing away, on a lab, while no drill breaks things on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.mirror.monitor.flow_view import NO_WORKER, FlowView
from drlib.mirror.status.event_kinds import KINDS
from drlib.mirror.status.worker_status import Event
from drlib.ui.console import faults
from drlib.ui.console.show.remedies import CAUSED_BY, MIRROR, Remedy, remedies
from drlib.ui.console.state import ClusterSeen, ConsoleState, DrillSeen


def state(
    *events: str, left: str = "runs", right: str = "runs", link: str = "healthy", drill: bool = False
) -> ConsoleState:
    opened = tuple(Event(name, "A->B", "why", 1, flow="A->B") for name in events)
    view = FlowView("A->B", NO_WORKER, 0, 0, (), (), (), opened, (), None, None)
    running = DrillSeen("d", Path("runs/d"), "A->B", "practice", "running", (), alive=True) if drill else None
    return ConsoleState(0, (ClusterSeen("A", left, link=link), ClusterSeen("B", right)), (view,), running)


@pytest.mark.parametrize(
    ("now", "offered"),
    [
        (state("SourceUnreachable", left="not running"), [Remedy("start", "A", "Start A")]),
        (state("SourceUnreachable", left="paused"), [Remedy("resume", "A", "Resume A")]),
        (state("SourceUnreachable", link="cut"), [Remedy("heal", "A", "Heal the link to A")]),
        (state("TargetUnreachable", right="not running"), [Remedy("start", "B", "Start B")]),
        (state("SourceUnreachable", "NoWorker", left="not running"), [Remedy("start", "A", "Start A")]),
        (state("NoWorker"), [Remedy(MIRROR, "A->B", "Start the mirror of A->B")]),
        (state("SourceUnreachable"), []),
        (state("Parked", left="not running"), []),
        (state(left="not running"), []),
    ],
)
def test_remedy_is_offered_for_its_cause_alone(now: ConsoleState, offered: list[Remedy]) -> None:
    assert list(remedies(now, lab=True)) == offered


def test_remedies_are_none_on_own_clusters_and_during_a_drill() -> None:
    assert remedies(state("SourceUnreachable", left="not running"), lab=False) == ()
    assert remedies(state("SourceUnreachable", left="not running", drill=True), lab=True) == ()


def test_remedies_take_nothing_away_and_are_of_known_events() -> None:
    assert set(CAUSED_BY) <= set(KINDS)
    broken = [
        state(name, left=word, right=word, link="cut") for name in CAUSED_BY for word in ("not running", "paused")
    ]
    acts = {remedy.act for now in broken for remedy in remedies(now, lab=True)} - {MIRROR}
    assert acts == {"start", "resume", "heal"}
    assert not [act for act in acts if faults.fault(act).dangerous]
