"""Workloads one after the other, engines in turns: who runs when, and what becomes of it.

Rules: a lab of its own for each workload; within it every repeat runs every engine once, each repeat beginning with
another one; what an engine left on the clusters is removed before the next starts; a run that fails is reported with
its reason and the others continue. Not for: numbers (`catchup`, `trickles`), files (`results`).
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import drills
from bench.catchup import catch_up
from bench.engines import ENGINES, Engine
from bench.meter import Surroundings
from bench.results import Machine, Results, Run
from bench.site import BROKER_SETTINGS, Site, clean, create_topics, site, wire_load
from bench.sources import TOPIC, Backlog, fill, many_topics
from bench.trickles import busy_topic
from bench.trickles import many_topics as measure_many_topics
from bench.workloads import DRILLS, FLOOR, RECORD_BYTES, Kind, Link, Workload
from drlib.lab import jars
from drlib.lab.lab import Lab

_SCRATCH: Final = "floor.scratch"
_LONG_WINDOW: Final = 48  # requests of about 1 MB: more than 1 Gb/s x 200 ms


def run_workload(
    workload: Workload,
    engines: Mapping[str, Engine],
    repeats: int,
    *,
    floor: bool = True,
    earlier: int = 0,
    on_event: Callable[[str], None] = lambda _: None,
    on_run: Callable[[Run], None] = lambda _: None,
) -> Results:
    """Everything of one workload: those of `engines` that it names, and its `floor` if it has one.

    `earlier` repeats were run before: engines take turns at going first across them too.
    """
    names = [name for name in workload.engines if name in engines or (floor and name == FLOOR)]
    runs: list[Run] = []
    with _lab() as lab:
        here = site(lab, workload.link)
        on_event(f"({workload.name}) {workload.title}: making what is on the source")
        measure, words = _prepared(here, workload)
        for repeat in range(repeats):
            turn = (earlier + repeat) % len(names)
            for name in (*names[turn:], *names[:turn]):
                on_event(f"{workload.name}: {name}, {repeat + 1} of {repeats}")
                runs.append(_one(here, workload, name, engines.get(name), measure))
                on_run(runs[-1])
    return Results(machine(), tuple(runs), {workload.name: words})


Measure = Callable[[Engine | None, str], Run]


def _prepared(here: Site, workload: Workload) -> tuple[Measure, str]:
    if workload.kind is Kind.CATCH_UP:
        backlog = fill(here, workload)

        def caught_up(engine: Engine | None, tag: str) -> Run:
            return _floor(here, workload) if engine is None else _catch_up(engine, here, workload, tag, backlog)

        return caught_up, backlog.words
    if workload.kind in DRILLS:
        return lambda _, tag: drills.measure(here, workload, tag), drills.words(workload)
    if workload.kind is Kind.LATENCY:
        create_topics(here.source_direct, [TOPIC], workload.partitions)
        words = f"1,000 records of {RECORD_BYTES} bytes a second, {workload.partitions} partitions"
        names: list[str] = []
    else:
        names = many_topics(here, workload)
        words = f"{workload.topics:,} topics of {workload.partitions} partitions"

    def trickled(engine: Engine | None, tag: str) -> Run:
        assert engine is not None, "there is no floor of a latency: it is a difference already"
        found = (
            measure_many_topics(engine, here, workload, tag, names)
            if names
            else busy_topic(engine, here, workload, tag)
        )
        return Run(
            workload.name, engine.name, _now(), found.metrics, found.load_before, found.other_load, found.problem
        )

    return trickled, words


def _one(here: Site, workload: Workload, name: str, engine: Engine | None, measure: Measure) -> Run:
    def failed(problem: Exception) -> Run:
        return Run(workload.name, name, _now(), {}, os.getloadavg()[0], 0.0, f"{type(problem).__name__}: {problem}")

    try:
        run = measure(engine, secrets.token_hex(3))
    except Exception as problem:  # whatever went wrong with one engine, the others still get their turn
        run = failed(problem)
    try:
        clean(here.target_direct)
        clean(here.source_direct, keep=(TOPIC, *(f"{TOPIC}.{n:04}" for n in range(workload.topics))))
    except Exception as problem:
        return run if run.problem else failed(problem)
    return run


def _catch_up(engine: Engine, here: Site, workload: Workload, tag: str, backlog: Backlog) -> Run:
    found = catch_up(engine, here, workload, tag, TOPIC, backlog.records)
    metrics = {"memory": found.peak_rss / 1e6, "first record": found.first_record_s}
    problem = "" if found.window else f"only {found.done} of {backlog.records} records came across: too few to measure"
    if found.window:
        metrics |= {
            "throughput": megabytes(found.window.rate),
            "records": found.window.rate,
            "cpu": found.window.cpu / megabytes(found.window.records) * 1000,
        }
    return Run(workload.name, engine.name, _now(), metrics, found.load_before, found.other_load, problem)


def _floor(here: Site, workload: Workload) -> Run:
    """What the raw wire does: reading the backlog, and producing as much to a topic of its own."""
    around = Surroundings(here.pids)
    children = _children_cpu()
    read = wire_load("fetch", here.source, TOPIC, workload.partitions, window=_LONG_WINDOW)
    over_link = workload.link is Link.TARGET
    create_topics(here.target_direct, [_SCRATCH], workload.partitions)
    made = wire_load(
        "produce",
        here.target,
        _SCRATCH,
        workload.partitions,
        records=workload.records,
        batch_records=900 if over_link else workload.batch_records,  # 900 are just under the broker's 1 MiB
        codec=workload.codec,
        window=_LONG_WINDOW if over_link else 16,
    )
    metrics = {
        "fetch only": megabytes(read.rate),
        "fetch only cpu": read.cpu_per_record / megabytes(1) * 1000,
        "produce only": megabytes(made.rate),
        "produce only cpu": made.cpu_per_record / megabytes(1) * 1000,
    }
    other = around.other_load(_children_cpu() - children)
    return Run(workload.name, FLOOR, _now(), metrics, around.load_before, other)


def _children_cpu() -> float:
    """Seconds that children of this process used which have ended."""
    times = os.times()
    return times.children_user + times.children_system


def megabytes(records: float) -> float:
    return records * RECORD_BYTES / 1e6


@contextmanager
def _lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="drlib-bench-", ignore_cleanup_errors=True) as root:
        lab = Lab(Path(root) / "lab", extra=BROKER_SETTINGS)
        try:
            yield lab.up()
        finally:
            lab.down()


def scaled(workload: Workload, share: float) -> Workload:
    """The same with fewer records or topics; for trying out, not for publishing."""
    return replace(
        workload,
        records=max(1, round(workload.records * share)) if workload.records else 0,
        topics=max(1, round(workload.topics * share)),
        groups=max(1, round(workload.groups * share)) if workload.groups else 0,
    )


def machine() -> Machine:
    """This machine and these versions."""
    memory = Path("/proc/meminfo").read_text(encoding="ascii").split()[1]
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return Machine(
        cores=os.cpu_count() or 0,
        memory_gb=round(int(memory) / 1e6, 1),
        cpu=next((line.partition(":")[2].strip() for line in cpus if line.startswith("model name")), "unknown"),
        python=platform.python_version(),
        java=str(jars.java().version),
        kafka=jars.KAFKA_VERSION,
        drlib=importlib.metadata.version("drlib"),
        commit=_commit(),
    )


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), *words], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (" and changes" if git("status", "--porcelain", "-uno") else "")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def chosen(names: Sequence[str]) -> dict[str, Engine]:
    """The engines of these names; all of them for none."""
    return {name: engine for name, engine in ENGINES.items() if not names or name in names}
