"""What a console says of real clusters: a flow that mirrors, a group exact, a worker that dies, and the end of its threads."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from fix_engine import Engine, create_topic, produce, wait_for
from fix_lab import LabFactory
from tiny_notebook import tiny_runbook

import drlib
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, Range
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.apps.specs import ProducerSpec
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.mirror.monitor.flow_view import MIRRORING, NO_WORKER
from drlib.mirror.monitor.survey import Surveyor
from drlib.mirror.offsets.translation.translate_groups import Positions
from drlib.model import TopicPartition
from drlib.runbook.execution.execute import execute
from drlib.runs.table import PLOTLY
from drlib.ui.console import faults
from drlib.ui.console.open import Console
from drlib.ui.console.show.browser import read_page
from drlib.ui.console.show.records import Log
from drlib.ui.console.state import NOT_STARTED
from drlib.ui.console.widget import ConsoleWidget


def test_console_picture_shows_lag_groups_and_a_dead_worker(engine: Engine, left: str) -> None:
    engine.extra["groups"] = f"{engine.topics}.*"
    create_topic(left, engine.topics, 2)
    produce(left, engine.topics, 400, partitions=2)
    worker = engine.start()
    engine.wait_caught_up(engine.topics, 2)
    group = f"{engine.topics}.readers"
    with Cluster(ClusterSettings("L", tuple(left.split(",")))) as cluster:
        cluster.alter_group_offsets(group, {TopicPartition(engine.topics, p): CommittedOffset(50) for p in (0, 1)})
    console = drlib.console(engine.properties)

    def is_reported() -> bool:
        found = console.state.flows
        return len(found) == 1 and found[0].state == MIRRORING and bool(found[0].groups) and found[0].lag == 0

    wait_for("the flow is reported", is_reported, 30)
    state = console.state
    (topic,) = [one for one in state.topics if one.topic == engine.topics]
    assert (topic.partitions, topic.records, topic.parked) == (2, 0, 0)
    assert [(c.alias, c.word) for c in state.clusters] == [(engine.target, "answers"), (engine.source, "answers")]
    applications = state.applications.inventory
    assert applications is not None
    assert group in {row.name for row in applications.applications if row.cluster == engine.source}
    bundle = console.picture()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", PLOTLY}
    assert "Applications, and how they move" in str(bundle["text/html"])
    assert f"group {group} ({engine.source}->{engine.target}): exact, lag 300" in str(bundle["text/plain"])
    (found,) = [one for one in state.flows[0].groups or () if one.group == group]
    assert [(at.at.partition, at.offset, at.end, at.lag, at.target_offset) for at in found.positions] == [
        (p, 50, 200, 150, 51)
        for p in (0, 1)  # behind the marker of the worker's claim
    ]
    assert all(at.lag_s is not None and 0 <= at.lag_s < 120 for at in found.positions), "how old the unread records are"
    assert f"groups on {engine.topics} ({engine.source}->{engine.target}): {group} 300, " in str(bundle["text/plain"])
    log, shown, records = read_page(
        ClusterSettings("L", tuple(left.split(","))), TopicPartition(engine.topics, 0), "50"
    )
    assert (log, shown, [record.offset for record in records]) == (Log(0, 200), Range(50, 70), list(range(50, 70)))
    with pytest.raises(UsageError, match="has 2 partitions"):
        read_page(ClusterSettings("L", tuple(left.split(","))), TopicPartition(engine.topics, 7), "newest")
    with pytest.raises(UsageError, match="none of this name"):
        read_page(ClusterSettings("L", tuple(left.split(","))), TopicPartition("nowhere", 0), "newest")

    worker.kill()
    worker.wait(10)
    wait_for("its death is reported", lambda: console.state.flows[0].state == NO_WORKER, 30)
    assert [event.name for event in console.state.open_events] == ["NoWorker"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("drlib-console")]


def test_console_polls_while_open_and_leaves_no_thread_when_closed(engine: Engine, left: str, tmp_path: Path) -> None:
    create_topic(left, engine.topics, 1)
    subject = drlib.console(engine.properties, runs_dir=tmp_path).subject
    first, second = (Console(subject, attended=lambda: True) for _ in range(2))
    for console in (first, second):
        console.show()
    wait_for("it has looked", lambda: NO_WORKER in str(second.widget.picture.value), 30)  # type: ignore[union-attr]
    assert first.widget.closed, "one live console a kernel"  # type: ignore[union-attr]
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("drlib-console")]
    assert sorted(names) == ["drlib-console-draw", "drlib-console-survey"]
    second.close()
    second.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("drlib-console")]


def _stamp(bootstrap: str, topic: str) -> int:
    """Seconds that the newest record of `topic` lies back; a day where there is none."""
    with Cluster(ClusterSettings("L", tuple(bootstrap.split(",")))) as cluster:
        at = TopicPartition(topic, 0)
        end = cluster.log_ends([at])[at]
        records = list(cluster.read({at: Range(max(0, end - 1), end)}))
    return round(time.time() - records[-1].timestamp_ms / 1000) if records else 86_400


def test_skew_fault_changes_record_timestamps_until_clocks_are_set(
    lab: Lab, left: str, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic = fresh_topic("clocks")
    create_topic(left, topic, 1)
    pointer_file.write_atomic(tmp_path / "pointer.json", Pointer(1, "LEFT", left))
    applications = LabApplications(lab, tmp_path)
    spec = ProducerSpec(
        str(tmp_path / "pointer.json"), str(applications.history_path("stamps")), topic=topic, records_per_second=50.0
    )
    applications.start("stamps", spec)
    console = drlib.console(lab_dir=lab.root)
    try:
        wait_for("records of now", lambda: _stamp(left, topic) < 5, 20)
        with pytest.raises(UsageError, match="its name was not typed"):
            faults.carry_out(lab, "skew", "LEFT")
        faults.carry_out(lab, "skew", "LEFT", "LEFT")
        wait_for("records of twenty minutes ago", lambda: abs(_stamp(left, topic) - 1200) < 5, 20)
        (clock,) = [one.clock for one in console.watching.state().clusters if one.clock]
        assert clock == "clocks 20 min 00 s behind"
        faults.carry_out(lab, "set", "LEFT")
        wait_for("records of now again", lambda: _stamp(left, topic) < 5, 20)
        assert not [one.clock for one in console.watching.state().clusters if one.clock]
    finally:
        faults.carry_out(lab, "set", "LEFT")
        applications.stop("stamps")
        console.close()


@pytest.mark.long
def test_console_notices_a_lab_that_starts_and_one_that_stops(
    lab_factory: LabFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster has no group coordinator in its first second, and none for a moment after each start: that is no silence."""
    lab = lab_factory()
    lab.write_properties()
    console = drlib.console(lab_dir=lab.root, runs_dir=tmp_path)
    for _ in ("just started", "started again"):
        state = console.state
        assert [(one.state, one.members, one.groups) for one in state.flows] == [(NOT_STARTED, 0, ())], state
        assert state.open_events == (), "no worker is expected of a lab that never had one"
        assert state.unseen == ()
        lab.clusters["RIGHT"].kill()
        lab.clusters["RIGHT"].start()

    def unasked(_: Surveyor, source_alive: bool) -> Positions:
        raise Unreachable("listing groups on LEFT got no answer", "it was busy", "Try it again.")

    monkeypatch.setattr(Surveyor, "_positions", unasked)
    state = console.state
    assert [one.groups for one in state.flows] == [None], "unknown is not the same as no group"
    assert "GroupsUnseen" in [event.name for event in state.open_events]
    assert "it was busy" in repr(console.picture())

    widget = ConsoleWidget(console.watching)
    widget.cluster.value = "RIGHT"
    lab.clusters["RIGHT"].kill()
    widget.buttons["resume"].click()
    wait_for("what cannot be done is said", lambda: "none of its brokers is running" in widget.said.value, 10)
    assert "Press Start first." in widget.said.value
    lab.down()
    for name in ("start", "heal"):
        widget.said.value = ""
        widget.buttons[name].click()
        wait_for("that it is gone is said", lambda: "There is no lab" in widget.said.value, 10)
        assert "drlib lab up" in widget.said.value
    widget.close()
    state = console.state
    assert (state.clusters, state.flows) == ((), ())
    assert ["There is no lab" in why for why in state.unseen] == [True]


def test_console_under_papermill_leaves_a_picture_and_no_widget(lab: Lab, tmp_path: Path) -> None:
    lab.write_properties()
    console = f"import drlib\nconsole = drlib.console(lab_dir={str(lab.root)!r}, runs_dir=run_dir)\nconsole"
    threads = "import threading\nprint([one.name for one in threading.enumerate() if 'console' in one.name])"
    book = tiny_runbook(tmp_path, console, "console.show()", threads)
    done = execute(book, {}, runs_dir=tmp_path / "runs", lab_dir=None, on_progress=lambda *_: None)
    executed = nbformat.read(done.folder / "executed.ipynb", as_version=4)
    assert "widgets" not in executed.metadata
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    bundles = [output.data for output in outputs if "data" in output]
    assert [set(bundle) for bundle in bundles] == [{"text/plain", "text/html", PLOTLY}] * 2
    for bundle in bundles:
        assert "cluster LEFT: runs" in bundle["text/plain"]
        # a test before may have left what MirrorMaker 2 writes on the shared lab
        flow = re.search(
            "flow LEFT->RIGHT: (mirror not started|no worker|mirrored by MirrorMaker 2)", bundle["text/plain"]
        )
        assert flow is not None
        assert "LEFT" in bundle["text/html"]
        assert f"LEFT-&gt;RIGHT {flow[1]}" in str(bundle[PLOTLY])
    assert [output.text.strip() for output in outputs if "text" in output] == ["[]"], "nothing runs for show"
    page = done.report.read_text(encoding="utf-8")
    assert "If you failed over now" in page
    assert "jupyter.widget" not in page
