"""L0, what a flow is: a topic, its copy, the worker between them; and what a worker's death costs.

Rules: the break is a SIGKILL while records are being copied; the repair is to start a worker, whoever does it and however.
Records that somebody else wrote to the copy are no repair: the mirror knows nothing of them and will bring them once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go

from drlib.kafka.admin.descriptions import Record
from drlib.training.academy.lesson import BREAK, CheckResult, Lesson
from drlib.training.academy.pictures import bars
from drlib.ui.display import Shown

FLOW: Final = "flow"
FIRST: Final = 1000
MORE: Final = 1000  # before the kill, and again after it
ALL: Final = FIRST + 2 * MORE
PARTITIONS: Final = 3
_PROBE_S: Final = 8.0


class WhatAFlowIs(Lesson):
    key = "L0"
    title = "What a flow is"
    hints = (
        "A flow does nothing by itself: somebody has to read LEFT and write RIGHT. Who did, and is it still there?",
        "lesson.start_mirror() starts a worker; in a shell, `drlib mirror FILE` with the file that break_it() names does.",
        "lesson.start_mirror(): the new worker fences the dead one, reads back what stands on RIGHT and goes on behind it.",
    )
    claims = (
        "the copy holds all of the topic, brought by the mirror",
        "each record is in the copy once, in the order of its partition",
        "what is written to LEFT now is on RIGHT in seconds",
    )

    def clusters(self) -> Shown:
        """Both clusters: how applications reach them, and how the mirror does."""
        rows = [
            {"cluster": alias, "applications": here.bootstrap, "the mirror, over the link": here.link_bootstrap}
            for alias, here in self.testbed.lab.clusters.items()
        ]
        return Shown(
            "Two real Kafka clusters", rows, note="A flow LEFT->RIGHT reads LEFT and writes RIGHT, never back."
        )

    def flow(self) -> Shown:
        """Write 1,000 records to the topic on LEFT, start the flow's worker, and look at both sides."""
        self.step(FLOW, self._flow)
        return self._sides(f"{self.topic} on LEFT and its copy on RIGHT", "The name says where a copy is from.")

    def start_mirror(self) -> Shown:
        """Start a worker for LEFT->RIGHT where none runs."""
        self.require(FLOW, "lesson.flow()")
        self.testbed.start_mirror()
        if self.has_done(BREAK):
            self.testbed.wait_crossed(self.topic)
        return Shown(f"{self.testbed.mirror().name} runs", [], note="It goes on behind what stands on RIGHT.")

    def question(self) -> str:
        return (
            f"{2 * MORE:,} more records are written, and the worker is killed in the middle of it. When another worker has "
            f"done its work: how many records does the copy hold?"
        )

    def reference_answer(self) -> str:
        return str(ALL)

    def show_truth(self) -> Shown:
        theirs = self._copied()
        twice = sum(count - 1 for count in Counter(map(_content, theirs)).values())
        note = f"The copy holds {len(theirs):,} now, {twice} of them twice; {ALL:,} were written."
        return self._sides("What the copy holds", note)

    def inject_fault(self) -> Mapping[str, int]:
        self.require(FLOW, "lesson.flow()")
        testbed, mirror = self.testbed, self.testbed.mirror()
        if mirror.runs:
            testbed.write("LEFT", self.topic, range(FIRST + MORE), partitions=PARTITIONS)
            testbed.wait("some of it crossed", lambda: len(self._copied()) > FIRST)
            mirror.kill()
        testbed.write("LEFT", self.topic, range(ALL), partitions=PARTITIONS)
        return {}

    def fault_state(self) -> Shown:
        mirror = self.testbed.mirror()
        runs = "runs" if mirror.runs else "is dead (SIGKILL)"
        return self._sides(
            f"The worker {runs}", f"In a shell a worker starts with: drlib mirror {mirror.path.resolve()}"
        )

    def apply_reference(self) -> None:
        self.start_mirror()

    def verify(self, number: int) -> CheckResult:
        start = "Nobody mirrors. Start a worker: lesson.start_mirror()"
        if number == 3:
            return self._probe(start)
        ours, theirs = self.testbed.read("LEFT", self.topic), self._copied()
        brought = self.fully_mirrored(self.topic)
        if number == 1:
            seen = f"{len(ours):,} on LEFT, {len(theirs):,} on RIGHT"
            seen += "" if brought else ", not all by the mirror"
            return CheckResult(brought and len(ours) == len(theirs) == ALL, seen, start)
        same = brought and len(ours) == ALL and _by_partition(ours) == _by_partition(theirs)
        twice = sum(count - 1 for count in Counter(map(_content, theirs)).values())
        missing = len(set(map(_content, ours)) - set(map(_content, theirs)))
        seen = f"{missing:,} missing, {twice:,} there twice"
        return CheckResult(same, seen if brought else f"{seen}, not all by the mirror", start)

    def figure(self) -> go.Figure:
        names = [f"partition {number}" for number in range(PARTITIONS)]
        ours, theirs = _by_partition(self.testbed.read("LEFT", self.topic)), _by_partition(self._copied())
        series = {
            side: [len(found.get(n, [])) for n in range(PARTITIONS)]
            for side, found in (("LEFT", ours), ("RIGHT", theirs))
        }
        return bars("Records on both sides", names, series, "records")

    def _flow(self) -> None:
        for topic, partitions in ((self.topic, PARTITIONS), (self.probe_topic, 1)):
            self.testbed.make("LEFT", topic, partitions)
        self.testbed.write("LEFT", self.topic, range(FIRST), partitions=PARTITIONS)
        self.testbed.start_mirror()
        self.testbed.wait_crossed(self.topic)

    def _copied(self) -> list[Record]:
        return self.testbed.read("RIGHT", self.copy)

    def _sides(self, title: str, note: str) -> Shown:
        ours, theirs = _by_partition(self.testbed.read("LEFT", self.topic)), _by_partition(self._copied())
        rows = [
            {
                "partition": number,
                f"{self.topic} on LEFT": len(ours.get(number, [])),
                f"{self.copy} on RIGHT": len(theirs.get(number, [])),
                "the same records in the same order": ours.get(number) == theirs.get(number),
            }
            for number in range(PARTITIONS)
        ]
        return Shown(title, rows, note=note)

    def _probe(self, start: str) -> CheckResult:
        if not self.has_done(FLOW):
            return CheckResult(False, "there is no flow yet", "Run lesson.flow()")
        return self.check_probe(_PROBE_S, start)


def _content(record: Record) -> tuple[int, bytes | None, bytes | None]:
    return record.partition.partition, record.key, record.value


def _by_partition(records: list[Record]) -> dict[int, list[tuple[int, bytes | None, bytes | None]]]:
    found: dict[int, list[tuple[int, bytes | None, bytes | None]]] = {}
    for record in records:
        found.setdefault(record.partition.partition, []).append(_content(record))
    return found
