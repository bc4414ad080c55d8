"""`python -m bench.client_times`: seconds from SIGKILL of a cluster's only broker until unmodified clients work on another one.

A lab of its own for each run, with one producer and one consumer of one family at `drlib bootstrap`; no mirror, but the topic
of transactions that each mirror leaves on its target: without it a transactional client waits there for minutes. The pointer is
moved a fixed delay after SIGKILL, which the seconds contain. Records for the consumer are written to the other cluster all the
time, so that its seconds do not depend on its producer's. A family runs with its library's defaults, and with what
docs/clients.md recommends where that is more. Prints a Markdown table of medians and ranges; `--place` puts it into the page.
Not for: losses and sums (`proof.clients` of the drills).
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import Producer

from bench.meter import Surroundings
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.clock import now_ms
from drlib.lab import jars
from drlib.lab.clients import runtimes
from drlib.lab.clients.families import BY_NAME, Family, Runtime, chosen
from drlib.lab.clients.on_lab import Chosen, LabClients, One
from drlib.lab.clients.rules import wrote_at
from drlib.lab.lab import Lab
from drlib.lab.processes import wait_until
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.model import Flow
from drlib.outgoing.terminal import show

FLOW: Final = Flow("LEFT", "RIGHT")
FED: Final = "fed"  # how the ids of records on RIGHT begin
DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "clients.md"
BEGIN, END = "<!-- client times -->", "<!-- /client times -->"
_WORKS: Final = 20
_START_S: Final = 120.0
_EVERY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Case:
    """A family, with its library's defaults or as docs/clients.md recommends."""

    family: Family
    recommended: bool

    @property
    def settings(self) -> str:
        more = [*self.family.settings, *(["begun again after 8 s without a record"] if self.family.restarts else [])]
        return ", ".join(f"`{each}`" if "=" in each else each for each in more) if self.recommended else "default"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds since SIGKILL: when the pointer was moved, and the first record written and read after that.

    None for not in time, and of a producer that reports nothing. `other_load`: cores that other work kept busy meanwhile.
    """

    moved_s: float
    wrote_s: float | None
    read_s: float | None
    other_load: float


def cases(names: Sequence[str]) -> list[Case]:
    """Both ways where they differ."""
    families = [BY_NAME[name] for name in names]
    return [
        Case(each, more) for each in families for more in (False, True) if not more or each.settings or each.restarts
    ]


def measure(case: Case, runtime: Runtime, delay_s: float, limit_s: float) -> Times:
    """One run on clusters of its own. Raises `RuntimeError` for clients that do not work before it."""
    with tempfile.TemporaryDirectory(prefix="client-times-") as folder, Lab(Path(folder) / "lab") as lab:
        clients = LabClients(lab, Path(folder), FLOW, Path(folder) / "pointer.json", recommended=case.recommended)
        right = lab.clusters[FLOW.target]
        (one,) = clients.each(Chosen((runtime,)))
        create_topics(right.settings(), [TopicSpec(clients.remote(one), 1)])
        Producer({"bootstrap.servers": right.bootstrap, "transactional.id": FED}).init_transactions(30.0)
        try:
            clients.start(Chosen((runtime,)))
            if not wait_until(lambda: clients.processed(one) >= _WORKS, _START_S):
                raise RuntimeError(f"{one.name} processed nothing within {_START_S:.0f} s")
            with _fed(right.bootstrap, clients.remote(one)):
                around = Surroundings(_with_children(each.pid for each in lab.status() if each.alive))
                killed_ms = now_ms()
                lab.clusters[FLOW.source].kill()
                time.sleep(max(0.0, delay_s - (now_ms() - killed_ms) / 1000))
                pointer_file.write_atomic(clients.pointer, Pointer(2, FLOW.target, right.bootstrap))
                moved_ms = now_ms()
                wait_until(lambda: None not in _times(case, clients, one, moved_ms), limit_s)
                load = around.other_load(0.0)
            wrote_ms, read_ms = _times(case, clients, one, moved_ms)
        finally:
            clients.stop_all()
    return Times(
        (moved_ms - killed_ms) / 1000,
        None if not wrote_ms else (wrote_ms - killed_ms) / 1000,
        None if read_ms is None else (read_ms - killed_ms) / 1000,
        load,
    )


def _times(case: Case, clients: LabClients, one: One, moved_ms: int) -> tuple[int | None, int | None]:
    """When it wrote and read first; 0 for a producer that reports nothing."""
    seen = clients.seen(one)
    wrote = wrote_at(seen.produced.produced, moved_ms) if case.family.acknowledges else 0
    return wrote, min((row.at_ms for row in seen.consumed.consumed if row.id.startswith(f"{FED}-")), default=None)


def _with_children(pids: Iterable[int]) -> list[int]:
    """The console tools are children of the programs that feed and read them."""
    return [
        each for pid in pids for each in (pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    ]


@contextmanager
def _fed(servers: str, topic: str) -> Iterator[None]:
    """Records to a topic, as the family's own, while inside."""
    ended = threading.Event()

    def write() -> None:
        producer, number = Producer({"bootstrap.servers": servers, "log_level": 0}), 0
        while not ended.wait(_EVERY_S):
            headers: list[tuple[str, str | bytes | None]] = [("id", f"{FED}-{number}"), ("n", str(number))]
            producer.produce(topic, key=f"{FED}-k0", value=f"{number:0100}", headers=headers)
            producer.poll(0)
            number += 1
        producer.flush(10)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        yield
    finally:
        ended.set()
        writing.join()


def cell(seconds: Sequence[float | None], limit_s: float) -> str:
    """`1.2 s (0.9 to 2.0)`: the median of the runs in time and their range, and how many were not."""
    found = sorted(each for each in seconds if each is not None)
    missed = len(seconds) - len(found)
    if not found:
        return f"not within {limit_s:.0f} s"
    said = f"{median(found):.1f} s ({found[0]:.1f} to {found[-1]:.1f})"
    return f"{said}; {missed} of {len(seconds)} not within {limit_s:.0f} s" if missed else said


def row(case: Case, version: str, times: Sequence[Times], limit_s: float) -> str:
    wrote = cell([each.wrote_s for each in times], limit_s) if case.family.acknowledges else "not reported"
    read = cell([each.read_s for each in times], limit_s)
    return f"| {case.family.title} {version} | {case.settings} | {wrote} | {read} |"


def table(rows: Sequence[str], times: Sequence[Times], repeats: int) -> str:
    """The rows of all cases, with what they rest on."""
    moved = sorted(each.moved_s for each in times)
    load = max(each.other_load for each in times)
    said = (
        f"{repeats} runs of each on {os.cpu_count()} processors ({platform.machine()}, Kafka {jars.KAFKA_VERSION}, one "
        f"broker a cluster, the family alone); other work kept at most {load:.1f} of them busy. Seconds from SIGKILL, median "
        f"and range. The pointer moved {moved[0]:.1f} to {moved[-1]:.1f} s after SIGKILL, which they contain."
    )
    return "\n".join([said, "", "| client | settings | written after | read after |", "|---|---|---|---|", *rows, ""])


def placed(document: str, found: str) -> str:
    """`document` with the table between its two marks. Raises `ValueError` where it has no such marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{found}{END}{after}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.client_times", description=__doc__.splitlines()[0])
    parser.add_argument("--families", default="all", help=f"all, or some of {','.join(BY_NAME)}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--delay", type=float, default=1.0, metavar="S", help="from SIGKILL to the pointer's move")
    parser.add_argument("--limit", type=float, default=70.0, metavar="S", help="that a client may take after that")
    parser.add_argument("--place", action="store_true", help="put the table into docs/clients.md")
    options = parser.parse_args(argv)
    runtime = {each.family: each for each in chosen(options.families.split(","), runtimes.found())}
    rows, every, failed = [], [], False
    for case in cases([name for name, each in runtime.items() if not each.missing]):
        times = []
        for number in range(options.repeats):
            try:
                times.append(measure(case, runtime[case.family.name], options.delay, options.limit))
                show(f"{case.family.name}, {case.settings}, {number + 1} of {options.repeats}: {times[-1]}", error=True)
            except Exception as problem:  # the others still get their turn
                failed = True
                show(f"{case.family.name}, {case.settings}: {type(problem).__name__}: {problem}", error=True)
        if times:
            rows.append(row(case, runtime[case.family.name].version, times, options.limit))
            every += times
    for each in runtime.values():
        if each.missing:
            show(f"{each.family} is not measured: {each.missing}", error=True)
    if not every:
        return 1
    found = table(rows, every, options.repeats)
    show(found)
    if options.place:
        DOCUMENT.write_text(placed(DOCUMENT.read_text(encoding="utf-8"), found), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
