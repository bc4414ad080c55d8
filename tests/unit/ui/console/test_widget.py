"""The console's buttons: a plan before anything dangerous, a name to type, errors shown in place, and an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deadline import Deadline
from hostile_text import HOSTILE, elements

from drlib.errors import UsageError
from drlib.mirror.monitor.flow_view import NO_WORKER, FlowView
from drlib.mirror.status.worker_status import Event
from drlib.ui.console import faults
from drlib.ui.console.show.style import note, wrong
from drlib.ui.console.state import KILLED, ClusterSeen, ConsoleState
from drlib.ui.console.widget import ConsoleWidget

NOW = 1_700_000_000_000


class Cluster:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.brokers = [SimpleNamespace(name="LEFT-1", alive=True)]
        self.gate = threading.Event()

    @property
    def alive(self) -> bool:
        return all(broker.alive for broker in self.brokers)

    def kill(self) -> None:
        self.calls.append("kill")

    def resume(self) -> None:
        self.calls.append("resume")

    def start(self) -> None:
        self.gate.wait(5)
        self.calls.append("start")
        raise UsageError("LEFT did not start", "its port is taken", "Look at its log.")


class Watching:
    """A look that never changes."""

    def __init__(self, lab: object) -> None:
        self.subject = SimpleNamespace(lab=lab)
        self.closed = False
        self.resting = False
        self.gone: UsageError | None = None

    def lab(self) -> object:
        if self.gone is not None:
            raise self.gone
        return self.subject.lab

    def state(self) -> ConsoleState:
        return ConsoleState(NOW, (ClusterSeen("LEFT", "runs"),))

    def run(self) -> None:
        return None

    def settings(self) -> None:
        raise UsageError("nothing was read", "no file", "Name one.")

    def start(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def watching(cluster: Cluster, tmp_path: Path) -> Watching:
    return Watching(SimpleNamespace(root=tmp_path, clusters={"LEFT": cluster, "RIGHT": Cluster()}))


@pytest.fixture
def widget(cluster: Cluster, watching: Watching) -> Iterator[ConsoleWidget]:
    found = ConsoleWidget(watching)  # type: ignore[arg-type]
    yield found
    cluster.gate.set()
    found.close()


def until(holds: Callable[[], object]) -> None:
    deadline = Deadline(5)
    while not holds():
        assert not deadline.passed
        time.sleep(0.01)


def test_dangerous_button_shows_its_plan_first(widget: ConsoleWidget, cluster: Cluster) -> None:
    widget.buttons["kill"].click()
    assert "SIGKILL" in widget.plan.value
    assert "Start reverts it" in widget.plan.value
    assert widget.confirm_row.layout.display == "flex"
    assert cluster.calls == []


def test_confirm_without_the_name_is_refused_and_keeps_the_plan(widget: ConsoleWidget, cluster: Cluster) -> None:
    widget.buttons["kill"].click()
    widget.typed.value = "RIGHT"
    widget.confirm.click()
    assert "the name typed is &#x27;RIGHT&#x27;" in widget.said.value
    assert "Type LEFT" in widget.said.value
    assert widget.confirm_row.layout.display == "flex"
    assert cluster.calls == []


def test_confirm_with_the_name_carries_out_the_fault(widget: ConsoleWidget, cluster: Cluster) -> None:
    widget.buttons["kill"].click()
    widget.typed.value = " LEFT "
    widget.confirm.click()
    until(lambda: "done" in widget.said.value)
    assert cluster.calls == ["kill"]
    assert widget.confirm_row.layout.display == "none"


def test_button_of_a_remedy_is_made_once_and_is_not_closed_while_a_page_may_look_for_it(widget: ConsoleWidget) -> None:
    """A page that is loaded gets the state of all widgets, taken while this one is drawn on another thread."""

    def offered(*events: str) -> list[Any]:
        seen = tuple(Event(name, "LEFT->RIGHT", "why", 1, flow="LEFT->RIGHT") for name in events)
        view = FlowView("LEFT->RIGHT", NO_WORKER, 0, 0, (), (), (), seen, (), None, None)
        down = (ClusterSeen("LEFT", KILLED), ClusterSeen("RIGHT", KILLED))
        widget.draw(ConsoleState(NOW, down, (view,)))
        return list(widget.remedy_row.children)

    (left,) = offered("SourceUnreachable")
    closed: list[bool] = []
    widget.remedy_row.observe(lambda _: closed.append(left.comm is None), names="children")
    assert offered("SourceUnreachable", "TargetUnreachable")[0] is left
    assert offered() == []
    assert offered("SourceUnreachable") == [left]
    assert closed == [False, False, False]


def test_leave_discards_the_plan(widget: ConsoleWidget, cluster: Cluster) -> None:
    widget.buttons["kill"].click()
    widget.leave.click()
    widget.typed.value = "LEFT"
    widget.confirm.click()
    assert "no button waits" in widget.said.value
    assert cluster.calls == []


def test_changing_the_cluster_discards_the_plan(widget: ConsoleWidget, cluster: Cluster) -> None:
    widget.buttons["kill"].click()
    widget.cluster.value = "RIGHT"
    assert widget.confirm_row.layout.display == "none", "another cluster needs another plan"
    widget.typed.value = "RIGHT"
    widget.confirm.click()
    assert cluster.calls == []


def test_click_returns_at_once_and_a_later_error_is_shown(widget: ConsoleWidget, cluster: Cluster) -> None:
    widget.buttons["start"].click()
    assert not cluster.gate.is_set(), "the action cannot have ended yet"
    assert "under way" in widget.said.value
    cluster.gate.set()
    until(lambda: "did not start" in widget.said.value)
    assert "its port is taken" in widget.said.value
    assert "Look at its log." in widget.said.value


def test_kill_of_a_stopped_cluster_is_refused_with_the_remedy(widget: ConsoleWidget, cluster: Cluster) -> None:
    cluster.brokers[0].alive = False
    for name in ("kill", "pause"):
        widget.buttons[name].click()
        widget.typed.value = "LEFT"
        widget.confirm.click()
        until(lambda: "none of its brokers is running" in widget.said.value)
        assert "Press Start first." in widget.said.value
        widget.said.value = ""
    widget.buttons["resume"].click()
    until(lambda: "none of its brokers is running" in widget.said.value)
    assert cluster.calls == []


def test_widget_reports_a_lab_that_was_stopped_elsewhere(
    widget: ConsoleWidget, watching: Watching, cluster: Cluster
) -> None:
    watching.gone = UsageError("There is no lab", ".lab holds no state.json", "Start one: drlib lab up --dir .lab")
    widget.buttons["resume"].click()
    assert "There is no lab" in widget.said.value
    assert "drlib lab up" in widget.said.value
    widget.buttons["kill"].click()
    widget.typed.value = "LEFT"
    widget.confirm.click()
    assert "There is no lab" in widget.said.value
    assert cluster.calls == []


def test_widget_unexpected_error_is_shown_with_its_class(
    widget: ConsoleWidget, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resume() -> None:
        raise TimeoutError("LEFT-1 (pid 7) outlived SIGKILL by 10 s")

    monkeypatch.setattr(cluster, "resume", resume)
    widget.buttons["resume"].click()
    until(lambda: "TimeoutError" in widget.said.value)
    assert "outlived SIGKILL" in widget.said.value
    assert "What it had changed until then is not undone" in widget.said.value


def test_abort_without_a_drill_says_so(widget: ConsoleWidget) -> None:
    widget.abort.click()
    assert "no drill runs here" in widget.said.value


def test_widget_without_a_lab_has_no_fault_buttons() -> None:
    found = ConsoleWidget(Watching(None))  # type: ignore[arg-type]
    assert found.lab_row.layout.display == "none"
    found.buttons["heal"].click()
    assert "no lab" in found.said.value
    found.close()


def test_widget_closed_ends_its_threads_and_ignores_clicks(widget: ConsoleWidget, cluster: Cluster) -> None:
    widget.start()
    assert [t for t in threading.enumerate() if t.name == "drlib-console-draw"]
    widget.close()
    widget.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("drlib-console-draw")]
    widget.buttons["resume"].click()
    assert "closed" in widget.said.value
    assert cluster.calls == []


def test_every_fault_has_a_plan_and_dangerous_ones_a_repair() -> None:
    labels = {one.label for one in faults.FAULTS}
    for one in faults.FAULTS:
        assert "LEFT" in one.plan("LEFT")
        assert "{" not in one.plan("LEFT")
        assert not one.dangerous or one.undo.split(",")[0] in labels
    with pytest.raises(UsageError, match="no such fault"):
        faults.fault("explode")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_notes_and_errors_of_any_text_have_the_same_elements(text: str) -> None:
    for made in (note, lambda word: wrong(UsageError(word, word, word)), lambda word: wrong(ValueError(word))):
        assert elements(made(text)) == elements(made("plain"))
