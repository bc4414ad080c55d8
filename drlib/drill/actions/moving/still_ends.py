"""The log ends of the cluster that is left, as they were when nothing moved before a planned move: kept in the run's folder.

So what producers wrote behind them is counted also where the process that moved the pointer was killed before it did so.
"""

from collections.abc import Mapping
from pathlib import Path

from drlib.drill.step import step_output as details
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.model import TopicPartition


def keep(run_dir: Path, step: str, ends: Mapping[TopicPartition, int]) -> None:
    details.write_rows(
        run_dir,
        _name(step),
        [{"topic": p.topic, "partition": p.partition, "end": end} for p, end in sorted(ends.items())],
    )


def read(run_dir: Path, step: str) -> dict[TopicPartition, int]:
    """What was kept; nothing where nothing was."""
    return {
        TopicPartition(str(row["topic"]), int(row["partition"] or 0)): int(row["end"] or 0)
        for row in details.read_rows(run_dir, _name(step))
    }


def written_since(source: Cluster, ends: Mapping[TopicPartition, int]) -> int | None:
    """Records that a committed reader finds behind `ends` now; None when the cluster does not say."""
    try:
        now = source.log_ends(ends)
        grown = {p: Range(end, now[p]) for p, end in ends.items() if now[p] > end}
        return sum(1 for _ in source.read(grown)) if grown else 0
    except DrlibError:
        return None


def _name(step: str) -> str:
    return f"{step}.still"
