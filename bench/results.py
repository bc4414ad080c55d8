"""What was measured, as values: one run, and rows that sum up the runs of an engine on a workload.

Rules: pure but for reading and writing `latest.json`; a row is a median with the smallest and largest run beside it;
runs are kept, so that rows can always be made again; a workload that is run again replaces its former runs unless
they are to be added to. Not for: judging against goals (`goals`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from bench.steady import median
from bench.workloads import WORKLOADS

# metric -> (unit, whether more is better), in the order they are shown
METRICS: Final[Mapping[str, tuple[str, bool]]] = {
    "throughput": ("MB/s", True),
    "records": ("records/s", True),
    "cpu": ("CPU-s/GB", False),
    "memory": ("MB peak RSS", False),
    "first record": ("s after start", False),
    "topics ready": ("s after start", False),
    "latency p50": ("ms added", False),
    "latency p99": ("ms added", False),
    "idle cpu": ("% of a core", False),
    "status": ("s until drlib status has answered", False),
    "doctor": ("s until drlib doctor has answered", False),
    "fetch only": ("MB/s", True),
    "fetch only cpu": ("CPU-s/GB", False),
    "produce only": ("MB/s", True),
    "produce only cpu": ("CPU-s/GB", False),
    "groups moved": ("s after the decision", False),
    "each group": ("ms", False),
    "drained": ("s of it", False),
    "translated": ("s of it", False),
    "committed": ("s of it", False),
    "not exact": ("positions", False),
    "producers held": ("s", False),
    "lost": ("acknowledged records", False),
    "written twice": ("records", False),
    "read twice": ("records", False),
    "skipped": ("records", False),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One engine, once. `metrics` by the names of `METRICS`; `problem` is why there are none, or not all.

    `load_before` is the machine's load average then, `other_load` the cores that neither the engine nor the lab used
    meanwhile: how quiet the machine was.
    """

    workload: str
    engine: str
    at: str
    metrics: Mapping[str, float]
    load_before: float
    other_load: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A metric of an engine on a workload over its runs."""

    workload: str
    engine: str
    metric: str
    unit: str
    median: float
    min: float
    max: float
    runs: int


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and with what a run was made."""

    cores: int
    memory_gb: float
    cpu: str
    python: str
    java: str
    kafka: str
    drlib: str
    commit: str


@dataclass(frozen=True, slots=True)
class Results:
    """Everything of `latest.json`. `sizes`: workload -> what was on the source, in words."""

    machine: Machine
    runs: tuple[Run, ...]
    sizes: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> tuple[Row, ...]:
        return rows(self.runs)


def rows(runs: Iterable[Run]) -> tuple[Row, ...]:
    """One row for each workload, engine and metric that any run has, in the order of first appearance."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for metric in METRICS:
            if metric in run.metrics:
                values.setdefault((run.workload, run.engine, metric), []).append(run.metrics[metric])
    return tuple(
        Row(workload, engine, metric, METRICS[metric][0], median(v), min(v), max(v), len(v))
        for (workload, engine, metric), v in values.items()
    )


def merged(old: Results | None, new: Results, *, add: bool) -> Results:
    """`new`, with those of `old` that it does not replace: other workloads, and with `add` the earlier runs too."""
    if old is None:
        return new
    again = set() if add else {run.workload for run in new.runs}
    kept = tuple(run for run in old.runs if run.workload not in again)
    order = {name: n for n, name in enumerate(WORKLOADS)}
    runs = sorted((*kept, *new.runs), key=lambda run: (order.get(run.workload, len(order)), run.workload))
    return Results(new.machine, tuple(runs), {**old.sizes, **new.sizes})


def repeats(results: Results | None, workload: str) -> int:
    """How often the workload's most run engine was run."""
    engines = [run.engine for run in results.runs if run.workload == workload] if results else []
    return max((engines.count(engine) for engine in set(engines)), default=0)


def write(path: Path, results: Results) -> None:
    """Write rows, runs and the machine as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = {**asdict(results), "rows": [asdict(row) for row in results.rows()]}
    path.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Results | None:
    """What `write` wrote; None when there is nothing."""
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    found.pop("rows", None)
    return TypeAdapter(Results).validate_python(found)


def value(rows: Sequence[Row], workload: str, engine: str, metric: str) -> Row | None:
    """The row of that name, None when it was not measured."""
    return next((r for r in rows if (r.workload, r.engine, r.metric) == (workload, engine, metric)), None)
