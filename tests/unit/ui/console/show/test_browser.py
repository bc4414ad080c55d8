"""What the browser of records offers, and that it asks nothing where nothing was chosen."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.mirror.monitor.flow_view import MIRRORING, FlowView
from drlib.mirror.monitor.survey import GroupPosition, GroupStatus
from drlib.mirror.status.worker_status import PartitionStatus
from drlib.model import TopicPartition, TranslationKind
from drlib.ui.console.show.browser import CLOSE, OPEN, Browser
from drlib.ui.console.state import ClusterSeen, ConsoleState


def state(*topics: str) -> ConsoleState:
    partitions = tuple(PartitionStatus(topic, 0, f"A.{topic}", 0, 0, 0, 0, 0) for topic in topics)
    position = GroupPosition(TopicPartition("t", 0), 4, 9, 1.0, TranslationKind.EXACT, 4)
    groups = (GroupStatus("readers", 1, 5, 1, 0, 0, 0, (position,)),) if topics else ()
    view = FlowView("A->B", MIRRORING, 0, 1, (), (), partitions, (), groups, None, None)
    return ConsoleState(0, (ClusterSeen("A", "runs"), ClusterSeen("B", "runs")), (view,))


@pytest.fixture
def browser() -> Browser:
    def none() -> None:
        raise UsageError("nothing was read", "there is no file", "Name one.")

    return Browser(none, lambda: state("t"), lambda _: None)  # type: ignore[arg-type]


def test_browser_offers_what_there_is_and_keeps_what_was_chosen(browser: Browser) -> None:
    browser.draw(state())
    assert (browser.cluster.value, browser.group.value) == ("A", None)
    browser.draw(state("u", "t"))
    assert tuple(browser.topic.options) == ("t", "u")
    assert browser.group.value == "readers (A->B)"
    browser.cluster.value = "B"
    browser.draw(state("t", "v"))
    assert (browser.cluster.value, tuple(browser.topic.options)) == ("B", ("A.t", "A.v"))


def test_browser_shows_positions_without_asking_a_cluster(browser: Browser) -> None:
    browser.draw(state("t"))
    callbacks = dict(browser.callbacks())
    callbacks[browser.positions]()
    assert "readers (A-&gt;B)" in browser.result.value
    assert "4 (exact)" in browser.result.value


def test_browser_opens_closes_and_forgets(browser: Browser) -> None:
    browser.draw(state("t"))
    callbacks = dict(browser.callbacks())
    callbacks[browser.toggle]()
    assert (browser.fields.layout.display, browser.toggle.description) == ("flex", CLOSE)
    callbacks[browser.positions]()
    callbacks[browser.toggle]()
    assert (browser.fields.layout.display, browser.toggle.description, browser.result.value) == ("none", OPEN, "")
    browser.close()
    assert all(control.disabled for control in browser.controls)


def test_browser_without_a_choice_says_what_is_missing(browser: Browser) -> None:
    callbacks = dict(browser.callbacks())
    with pytest.raises(UsageError, match="no topic was named"):
        callbacks[browser.show]()
    with pytest.raises(UsageError, match="no page is shown"):
        callbacks[browser.older]()
    with pytest.raises(UsageError, match="no group has a position"):
        callbacks[browser.positions]()
    browser.topic.value = "t"
    with pytest.raises(UsageError, match="there is no file"):
        callbacks[browser.show]()
