"""L0, what a flow is: a topic, its mirror topic, and the worker between them; and what the death of a worker costs.

Rules: the fault is a SIGKILL of the worker while it copies; the repair is to start a worker, by any means. Records that
something else wrote to the mirror topic are no repair: the mirror does not know them and copies theirs once more.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go

from drlib.kafka.admin.descriptions import Record
from drlib.runs.table import Table
from drlib.training.academy.lesson import BREAK, NOTED_S, CheckResult, Lesson
from drlib.training.academy.pictures import bars

FLOW: Final = "flow"
FIRST: Final = 1000
MORE: Final = 1000  # before the kill, and again after it
ALL: Final = FIRST + 2 * MORE
PARTITIONS: Final = 3
_PROBE_S: Final = 8.0
_START_HINT: Final = "No worker runs. Start one: lesson.start_mirror()"

_Content = tuple[int, bytes | None, bytes | None]  # partition, key, value


class WhatAFlowIs(Lesson):
    key = "L0"
    title = "What a flow is"
    hints = (
        "A flow needs a running worker, which reads LEFT and writes RIGHT. Is one running?",
        "lesson.start_mirror() starts a worker. So does, in a shell, the `drlib mirror` command that break_it() shows.",
        "Run lesson.start_mirror(). The new worker fences the dead one, reads what is on RIGHT and continues behind it.",
    )
    claims = (
        "the mirror topic has all records of the topic, copied by the mirror",
        "the mirror topic has each record once, in the order of its partition",
        "a record that is written to LEFT now is on RIGHT within seconds",
    )

    def clusters(self) -> Table:
        """Both clusters, and the addresses by which applications and the mirror reach them."""
        rows = [
            {"cluster": alias, "applications": cluster.bootstrap, "the mirror, over the link": cluster.link_bootstrap}
            for alias, cluster in self.testbed.lab.clusters.items()
        ]
        return Table("Two Kafka clusters", rows, note="Flow LEFT->RIGHT reads LEFT and writes RIGHT.")

    def flow(self) -> Table:
        """Write 1,000 records to the topic on LEFT, start the flow's worker, and compare both sides."""
        self.step(FLOW, self._create_flow)
        note = "The prefix of a mirror topic names its source cluster."
        return self._comparison(f"{self.topic} on LEFT and its mirror topic on RIGHT", note)

    def start_mirror(self) -> Table:
        """Start a worker for LEFT->RIGHT if none runs."""
        self.require(FLOW, "lesson.flow()")
        self.testbed.start_mirror()
        if self.has_done(BREAK):
            self.testbed.wait_mirrored(self.topic)
        note = "It continues behind the last record on RIGHT."
        return Table(f"Worker {self.testbed.mirror().name} runs", [], note=note)

    def question(self) -> str:
        return (
            f"{2 * MORE:,} more records are written to LEFT, and the worker is killed while it copies them. Then a new worker "
            "copies the rest. How many records does the mirror topic have at the end?"
        )

    def reference_answer(self) -> str:
        return str(ALL)

    def show_truth(self) -> Table:
        copied = self._copied()
        note = f"The mirror topic has {len(copied):,} records, {_repeated(copied)} of them twice; {ALL:,} were written."
        return self._comparison("Records in the mirror topic", note)

    def inject_fault(self) -> Mapping[str, int]:
        self.require(FLOW, "lesson.flow()")
        testbed, mirror = self.testbed, self.testbed.mirror()
        if mirror.runs:
            testbed.write("LEFT", self.topic, range(FIRST + MORE), partitions=PARTITIONS)
            testbed.wait("some of the new records are mirrored", lambda: len(self._copied()) > FIRST)
            mirror.kill()
        testbed.write("LEFT", self.topic, range(ALL), partitions=PARTITIONS)
        return {}

    def fault_state(self) -> Table:
        mirror = self.testbed.mirror()
        state = "runs" if mirror.runs else "was killed (SIGKILL)"
        note = f"To start a worker in a shell: drlib mirror {mirror.properties.resolve()}"
        return self._comparison(f"The worker {state}", note)

    def apply_reference(self) -> None:
        self.start_mirror()

    def verify(self, number: int) -> CheckResult:
        if number == 3:
            return self.check_probe(_PROBE_S, _START_HINT)
        source, copied = self.testbed.read("LEFT", self.topic), self._copied()
        by_mirror = self.fully_mirrored(self.topic, within_s=NOTED_S if len(copied) >= len(source) else 0.0)
        if number == 1:
            complete = by_mirror and len(source) == len(copied) == ALL
            observed = f"{len(source):,} on LEFT, {len(copied):,} on RIGHT"
        else:
            complete = by_mirror and len(source) == ALL and _by_partition(source) == _by_partition(copied)
            missing = len(set(map(_content, source)) - set(map(_content, copied)))
            observed = f"{missing:,} missing, {_repeated(copied):,} present twice"
        return CheckResult(complete, observed if by_mirror else f"{observed}, not all by the mirror", _START_HINT)

    def figure(self) -> go.Figure:
        names = [f"partition {number}" for number in range(PARTITIONS)]
        source, copied = _by_partition(self.testbed.read("LEFT", self.topic)), _by_partition(self._copied())
        series = {
            side: [len(records.get(number, [])) for number in range(PARTITIONS)]
            for side, records in (("LEFT", source), ("RIGHT", copied))
        }
        return bars("Records on both sides", names, series, "records")

    def _create_flow(self) -> None:
        for topic, partitions in ((self.topic, PARTITIONS), (self.probe_topic, 1)):
            self.testbed.create_topic("LEFT", topic, partitions)
        self.testbed.write("LEFT", self.topic, range(FIRST), partitions=PARTITIONS)
        self.testbed.start_mirror()
        self.testbed.wait_mirrored(self.topic)

    def _copied(self) -> list[Record]:
        return self.testbed.read("RIGHT", self.copy)

    def _comparison(self, title: str, note: str) -> Table:
        source, copied = _by_partition(self.testbed.read("LEFT", self.topic)), _by_partition(self._copied())
        rows = [
            {
                "partition": number,
                f"{self.topic} on LEFT": len(source.get(number, [])),
                f"{self.copy} on RIGHT": len(copied.get(number, [])),
                "same records, same order": source.get(number) == copied.get(number),
            }
            for number in range(PARTITIONS)
        ]
        return Table(title, rows, note=note)


def _content(record: Record) -> _Content:
    return record.partition.partition, record.key, record.value


def _repeated(records: list[Record]) -> int:
    """How many records repeat an earlier one."""
    return sum(count - 1 for count in Counter(map(_content, records)).values())


def _by_partition(records: list[Record]) -> dict[int, list[_Content]]:
    contents: dict[int, list[_Content]] = {}
    for record in records:
        contents.setdefault(record.partition.partition, []).append(_content(record))
    return contents
