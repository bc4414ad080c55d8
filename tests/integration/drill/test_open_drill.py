"""A runbook's drill on a real cluster: opened, left, taken up; refused when reality moved; one flow, one drill."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import papermill as pm
import pytest
import yaml
from fix_engine import create_topic, produce, wait_for
from fix_lab import LabFactory
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from testbed_actions import KERNEL

from drlib import open_drill
from drlib.drill.plan.plan import Call, Drill, Mode, Step
from drlib.drill.run import planning
from drlib.drill.run.lease import LeaseLost, LeaseUnconfirmed
from drlib.drill.session.board import BoardState, FlowWatch
from drlib.drill.session.session import DrillSession
from drlib.drill.step.context import DrillContext
from drlib.errors import LeaseHeld, StalePlan, UsageError
from drlib.kafka.admin.cluster import Cluster as Handle
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import LabMirrors
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.ui.console.board import Picture

ALIASES = ("SOURCE", "TARGET")
pytestmark = pytest.mark.usefixtures("topic_actions")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with Lab(tmp_path_factory.mktemp("session") / "lab", ALIASES) as up:
        yield up


def runbook(folder: Path, *topics: str, approval: str = "", rollback: str = "never") -> Path:
    """One that creates `topics` on TARGET; the step of `approval` waits for one."""
    steps: list[dict[str, object]] = [
        {
            "name": f"create-{topic}",
            "title": f"Create {topic}",
            "action": "topic.create",
            "arguments": {"cluster": "TARGET", "topic": topic, "partitions": "${partitions}"},
            "approval": topic == approval,
        }
        for topic in topics
    ]
    drill = {"flow": "SOURCE->TARGET", "mode": "practice", "rollback": rollback, "steps": steps}
    document = {
        "name": "create",
        "title": "Create",
        "notebook": "n.ipynb",
        "lab": {"clusters": [*ALIASES]},
        "drill": drill,
    }
    (folder / "n.ipynb").write_text("{}")
    (folder / "create.yaml").write_text(yaml.safe_dump(document))
    return folder / "create.yaml"


def opened(lab: Lab, place: Path, *topics: str, run: str = "run", partitions: int = 2) -> DrillSession:
    return open_drill(runbook(place, *topics), place / run, lab_dir=lab.root, partitions=partitions)


def there(lab: Lab, *topics: str) -> set[str]:
    with Handle(ClusterSettings("TARGET", (lab.clusters["TARGET"].bootstrap,))) as cluster:
        return set(cluster.topics(topics))


def test_drill_left_after_a_step_resumes_to_the_same_end(lab: Lab, tmp_path: Path) -> None:
    with opened(lab, tmp_path, "a1", "a2") as drill:
        assert "partitions of topic a1 on TARGET" in repr(drill.plan())
        assert there(lab, "a1", "a2") == set()
        drill.until("create-a1")
        assert there(lab, "a1", "a2") == {"a1"}
    with opened(lab, tmp_path, "a1", "a2") as drill:
        assert drill.finish().title == "Verdict: pass"
    assert there(lab, "a1", "a2") == {"a1", "a2"}


def test_open_drill_changed_clusters_make_the_plan_stale(lab: Lab, tmp_path: Path) -> None:
    with opened(lab, tmp_path, "b1", "b2"):
        pass
    with Handle(ClusterSettings("TARGET", (lab.clusters["TARGET"].bootstrap,))) as cluster:
        cluster.create_topic("b2", 2, -1)
    with opened(lab, tmp_path, "b1", "b2") as drill, pytest.raises(StalePlan, match="topic b2"):
        drill.finish()
    assert there(lab, "b1") == set()


def test_run_folder_accepts_only_its_own_plan(lab: Lab, tmp_path: Path) -> None:
    opened(lab, tmp_path, "c1").close()
    with pytest.raises(UsageError, match="another drill's plan"):
        opened(lab, tmp_path, "c1", partitions=3)


NOTEBOOK = (
    KERNEL
    + """\
import drlib
drill = drlib.open_drill({runbook!r}, {run!r}, lab_dir={lab!r}, partitions=2)
---
drill.board()
---
drill.until("create-e1")
---
drill.finish()
"""
)


def test_board_under_papermill_keeps_its_last_state(lab: Lab, tmp_path: Path) -> None:
    runs = {"runbook": str(runbook(tmp_path, "e1", "e2")), "run": str(tmp_path / "run"), "lab": str(lab.root)}
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in NOTEBOOK.format(**runs).split("---")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "board.ipynb")
    pm.execute_notebook(tmp_path / "board.ipynb", tmp_path / "out.ipynb", kernel_name="python3", engine_name="drlib")
    _, board, shown, ended = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    (picture,) = board.outputs
    assert "2 of 2 steps" in picture.data["text/plain"]
    assert "create-e2: done" in picture.data["text/plain"]
    assert "flow SOURCE->TARGET" in picture.data["text/plain"]
    assert "Board of the drill" in picture.data["text/html"]
    assert len(shown.outputs) == len(ended.outputs) == 1  # each cell's own table, and no board again


class Front:
    """What JupyterLab is to a kernel: it runs cells, sees widgets being made, and tells what was done to them."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.widgets: dict[str, dict[str, object]] = {}  # by comm ID, their state now
        self.text: list[str] = []

    def run(self, code: str) -> str:
        """What a cell shows, as text, and the error it ends with."""
        self.text = []
        reply = self.client.execute_interactive(code, timeout=60, allow_stdin=True, output_hook=self._seen)
        return "\n".join([*self.text, str(reply["content"].get("evalue", ""))])

    def tell(self, widget: str, data: Mapping[str, object]) -> None:
        """Send `data` to `widget` and come back when the kernel is through with it."""
        message = self.client.session.msg("comm_msg", {"comm_id": widget, "data": data})
        self.client.shell_channel.send(message)
        while True:
            answer = self.client.get_iopub_msg(timeout=30)
            self._seen(answer)
            mine = answer["parent_header"].get("msg_id") == message["header"]["msg_id"]
            if mine and answer["content"].get("execution_state") == "idle":
                return

    def one(self, **state: object) -> str:
        """The ID of the newest widget of this state."""
        return [w for w, now in self.widgets.items() if state.items() <= now.items()][-1]

    def _seen(self, message: dict[str, Any]) -> None:
        content = message["content"]
        match message["msg_type"]:
            case "comm_open":
                self.widgets[content["comm_id"]] = content["data"]["state"]
            case "comm_msg" if content["data"].get("method") == "update":
                self.widgets[content["comm_id"]].update(content["data"]["state"])
            case "display_data" | "update_display_data" | "execute_result":
                self.text.append(content["data"].get("text/plain", ""))


def test_approval_buttons_in_notebook_approve_and_abort(lab: Lab, tmp_path: Path) -> None:
    book = runbook(tmp_path, "f1", "f2", "f3", approval="f2")
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        front = Front(client)
        opened = f"drill = drlib.open_drill({str(book)!r}, {str(tmp_path / 'run')!r}, lab_dir={str(lab.root)!r}, partitions=2)"
        front.run(f"{KERNEL}import drlib\n{opened}\ndrill.board()")
        assert "waits for its approval" in front.run('drill.until("create-f2")')
        waits = "create-f2 (Create f2) waits for approval"
        assert waits in "\n".join(front.text)
        assert there(lab, "f1", "f2") == {"f1"}
        front.tell(
            front.one(description="Approved by"), {"method": "update", "state": {"value": "Ada"}, "buffer_paths": []}
        )
        click = {"method": "custom", "content": {"event": "click"}}
        front.tell(front.one(description="Approve create-f2"), click)
        assert (
            tmp_path / "run" / "approved"
        ).read_text() == f"create-f2 of {planning.read(tmp_path / 'run').hash} by Ada\n"
        front.run('drill.until("create-f2")')
        assert there(lab, "f1", "f2", "f3") == {"f1", "f2"}
        assert "Verdict: pass" in front.run("drill.finish()")

        other = runbook(tmp_path, "g1", "g2", approval="g2", rollback="always")
        front.run(opened.replace(str(book), str(other)).replace("/run", "/other") + "\ndrill.board()")
        assert "waits for its approval" in front.run('drill.until("create-g2")')
        front.tell(front.one(description="Abort the drill"), click)
        assert "by the board's button" in front.run('drill.until("create-g2")')
        assert not (tmp_path / "other" / "approved").exists()
        assert there(lab, "g1", "g2") == set()
        last = journal.read(tmp_path / "other" / "journal.jsonl")[-1]
        assert (last.event, last.data["detail"]) == ("run-ended", "aborted")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_board_shows_lag_of_the_drills_own_mirror(lab: Lab, tmp_path: Path) -> None:
    flow = Flow(*ALIASES)
    bootstrap = lab.clusters["SOURCE"].bootstrap
    create_topic(bootstrap, "own", 2)
    produce(bootstrap, "own", 100, partitions=2)
    own = LabMirrors(lab, "own-mirror-it", "own", (flow,))
    place = DrillContext(
        clusters={a: c.settings() for a, c in lab.clusters.items()},
        flow=flow,
        run_dir=tmp_path,
        properties=lab.write_properties(topics="flights"),
        lab=lab,
    )
    watch = FlowWatch(place)
    drill = Drill(name="d", flow=flow, mode=Mode.PRACTICE, steps=(Step(name="s", title="S", action=Call("x")),))

    def reported() -> str:
        return repr(Picture(BoardState(drill, (), watch.survey, watch.unseen)))

    watch.start()
    try:
        wait_for("it looked at the lab's own file", lambda: "lag unknown" in reported())
        own.start(Abort(tmp_path))
        wait_for("it tells the lag", lambda: "lag 0 records" in reported() and "2 partitions" in reported())
    finally:
        watch.close()
        own.stop()


FROZEN = """
import os, signal, sys, threading
os.kill(int(sys.argv[1]), signal.SIGSTOP)
threading.Event().wait(22)  # longer than the usual session of a lease
os.kill(int(sys.argv[1]), signal.SIGCONT)
"""


@pytest.mark.long
def test_drill_that_keeps_its_target_from_answering_keeps_its_lease_if_it_says_so(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    lab = lab_factory(ALIASES)
    broker = lab.clusters["TARGET"].brokers[0]
    (pid,) = (process.pid for process in lab.status() if process.name == broker.name)
    for name, outage_s in (("declared", 30), ("not-declared", 0)):
        book = runbook(tmp_path, name)
        document = yaml.safe_load(book.read_text())
        arguments = {"argv": [sys.executable, "-c", FROZEN, str(pid)], "outage_seconds": outage_s}
        hook = {"name": "roll", "title": "Roll", "action": "hook.command", "undoable": False, "arguments": arguments}
        document["drill"]["steps"].insert(0, hook)
        book.write_text(yaml.safe_dump(document))
        with open_drill(book, tmp_path / name, lab_dir=lab.root, partitions=2) as drill:
            if outage_s:
                assert drill.finish().title == "Verdict: pass"
                continue
            try:
                with pytest.raises((LeaseLost, LeaseUnconfirmed)):
                    drill.finish()
            finally:
                broker.resume()  # the hook was ended before it did
    assert there(lab, "declared", "not-declared") == {"declared"}


def test_run_second_run_of_a_flow_is_refused(lab: Lab, tmp_path: Path) -> None:
    with opened(lab, tmp_path, "d1", "d2") as first:
        first.until("create-d1")
        with opened(lab, tmp_path, "d1", "d3", run="other") as second, pytest.raises(LeaseHeld):
            second.until("create-d3")
    assert there(lab, "d1", "d2", "d3") == {"d1"}
