"""A runbook with a drill of real steps on one cluster of a lab, a notebook of a few cells, and `drlib` as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from fix_engine import wait_for
from testbed_actions import KERNEL
from tiny_notebook import write_notebook

from drlib.cli.app import app
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import TopicPartition
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

ALIAS = "RIGHT"
PARAMETERS = """\
run_dir: str = ""  # where evidence goes
runbook: str = ""  # the runbook
lab_dir: str = ""  # a lab that runs
topic: str = "orders"  # what is created
partitions: int = 2
"""
OPEN = (
    KERNEL
    + """\
import os
from pathlib import Path
import drlib
(Path(run_dir) / "kernel.pid").write_text(str(os.getpid()))
drill = drlib.open_drill(runbook, run_dir, lab_dir=lab_dir, topic=topic, partitions=partitions)
drill.plan()
"""
)
STEPS = ("create", "place", "call", "move")


@dataclass
class Stage:
    """`topic` is not there yet; the group `old` stands at 3 of `old_topic`."""

    lab: Lab
    root: Path
    topic: str
    old_topic: str
    drill: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with self.cluster() as cluster:
            cluster.create_topic(self.old_topic, 1, 1)
            wait_for("the group has its position", lambda: _placed(cluster, f"old.{self.topic}", self.old_topic))

    def cluster(self) -> Cluster:
        return Cluster(ClusterSettings(ALIAS, (self.lab.clusters[ALIAS].bootstrap,)))

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def runbook(self, **steps: Mapping[str, Any]) -> Path:
        """Create the topic, place a new group in it, call a program, move the old group. `steps` say more of a step."""
        called = [
            sys.executable,
            "-c",
            "import sys; open(sys.argv[1], 'a').write('called\\n')",
            str(self.root / "called"),
        ]
        found: list[dict[str, Any]] = [
            {
                "name": "create",
                "action": "topic.create",
                "arguments": {"topic": "${topic}", "partitions": "${partitions}"},
            },
            {"name": "place", "action": "group.move", "arguments": self._positions(f"new.{self.topic}", "0:5", "1:7")},
            {
                "name": "call",
                "action": "hook.command",
                "arguments": {"argv": called, "idempotent": True},
                "undoable": False,
            },
            {
                "name": "move",
                "action": "group.move",
                "arguments": self._positions(f"old.{self.topic}", "0:9", old=True),
            },
        ]
        for step in found:
            step["title"] = f"The step {step['name']}"
            if not step["action"].startswith("hook"):
                step["arguments"]["cluster"] = ALIAS
            more = dict(steps.get(step["name"], {}))
            step["arguments"] = {**step["arguments"], **more.pop("arguments", {})}
            step.update(more)
        drill = {"flow": f"LEFT->{ALIAS}", "mode": "planned", "lease": False, "steps": found, **self.drill}
        cells = [("open", OPEN), *((name, f'drill.until("{name}")') for name in STEPS), ("finish", "drill.finish()")]
        write_notebook(self.root / "tiny.ipynb", *cells, parameters=PARAMETERS)
        document = {
            "name": "tiny",
            "title": "A tiny drill",
            "notebook": "tiny.ipynb",
            "parameters": {"topic": self.topic},
            "drill": drill,
            **self.more,
        }
        path = self.root / "tiny.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def _positions(self, group: str, *positions: str, old: bool = False) -> dict[str, Any]:
        return {"group": group, "topic": self.old_topic if old else "${topic}", "positions": list(positions)}

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """`drlib`, with this stage's run folders."""
        main = f"{KERNEL}from drlib.cli import main; main()"
        argv = [sys.executable, "-c", main, *map(str, arguments), "--runs-dir", str(self.runs)]
        return subprocess.Popen(argv, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def drlib(self, *arguments: str | Path, code: int = 0) -> str:
        """What it printed, to stdout and then the error it ended with; it has to end with `code`. In this process."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                ended = app([*map(str, arguments), "--runs-dir", str(self.runs)], standalone_mode=False)
            except DrlibError as error:
                ended = error.exit_code
                print(error, file=sys.stderr)
        said = out.getvalue() + err.getvalue()
        assert (ended or 0) == code, said
        return said

    def on_lab(self) -> tuple[str, str]:
        return ("--lab-dir", str(self.lab.root))

    def run_folder(self) -> Path:
        """The only run's folder."""
        (found,) = (path for path in self.runs.iterdir() if path.is_dir())
        return found

    def lines(self) -> list[str]:
        """The events of the journal so far, with their steps."""
        try:
            path = self.run_folder() / JOURNAL
        except (FileNotFoundError, ValueError):
            return []
        found = journal.read(path) if path.exists() else ()
        return [f"{line.event} {line.data.get('step', '')}".strip() for line in found]

    def now(self) -> tuple[bool, dict[int, int], dict[int, int]]:
        """Is the topic there, and the positions of the new group and of the old one."""
        with self.cluster() as cluster:
            there = self.topic in cluster.topics([self.topic])
            new, old = cluster.group_offsets(f"new.{self.topic}"), cluster.group_offsets(f"old.{self.topic}")
        return there, {p.partition: o.offset for p, o in new.items()}, {p.partition: o.offset for p, o in old.items()}

    def members(self) -> list[str]:
        """Groups of either cluster that have members, or seem to: a worker that was killed is one until its session ends."""
        found = []
        for alias, one in self.lab.clusters.items():
            with Cluster(ClusterSettings(alias, (one.bootstrap,))) as cluster:
                found += [f"{alias}: {g.group}" for g in cluster.groups() if g.state not in ("EMPTY", "DEAD")]
        return found

    def everything(self) -> object:
        """Topics with their settings and log ends, groups with their positions: all there is to see of both clusters."""
        found = {}
        for alias, one in self.lab.clusters.items():
            with Cluster(ClusterSettings(alias, (one.bootstrap,))) as cluster:
                topics = cluster.topics()
                partitions = [TopicPartition(t.name, n) for t in topics.values() for n in range(t.partitions)]
                groups = {g.group: (g.state, cluster.group_offsets(g.group)) for g in cluster.groups()}
                found[alias] = (topics, cluster.topic_config(topics), cluster.log_ends(partitions), groups)
        return found


BEFORE: tuple[bool, dict[int, int], dict[int, int]] = (False, {}, {0: 3})
DONE = (True, {0: 5, 1: 7}, {0: 9})


def wait_fast(what: str, condition: Callable[[], bool], deadline_s: float = 90.0) -> None:
    """As `wait_for`, looking as often as can be: a kill is to come right after a line of a journal."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what}"
        time.sleep(0.002)


def kernel_of(folder: Path) -> int:
    return int((folder / "kernel.pid").read_text())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _placed(cluster: Cluster, group: str, topic: str) -> bool:
    """Position 3 in the topic's only partition; a broker that has just started has no coordinator for a moment."""
    try:
        cluster.alter_group_offsets(group, {TopicPartition(topic, 0): CommittedOffset(3)})
    except (ClusterRefused, Unreachable):
        return False
    return True
