"""Which cluster a step is about: the ID it was formatted with, as it answers now.

Rules: a plan is for the cluster it was made on, wherever an alias or an address leads by then; so the ID is a fact of the
plan, and what is typed before something is destroyed. What a step changes on a cluster it records with that ID
(`cluster_id`), so that a later run finds what is still to be taken back there.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from drlib.drill.plan.plan import Fact
from drlib.drill.step.step_output import Row, read_rows, rows_file, write_rows
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.runs.folder import NAME, amended


def cluster_id(cluster: ClusterSettings) -> str:
    """Asked over a handle of its own. Raises `Unreachable`."""
    with Cluster(cluster) as admin:
        return admin.cluster_id()


def identity(cluster: ClusterSettings) -> Fact:
    """Raises `Unreachable`."""
    return identified(cluster.alias, cluster_id(cluster))


def identified(alias: str, its_id: str) -> Fact:
    """The fact of a cluster whose ID is known."""
    return Fact(f"ID of cluster {alias}", its_id)


def _is_foreign(folder: Path) -> bool:
    """Is it no run, and of another user, as `lost+found` on a volume of its own?"""
    return NAME.fullmatch(folder.name) is None and not os.access(folder, os.X_OK, effective_ids=True)


def rows_beside(run_dir: Path, name: str, cluster: ClusterSettings) -> dict[Path, tuple[Row, ...]]:
    """By folder, the rows of that name and of this cluster that a run and those beside it keep, in their order.

    The cluster is asked only where there are rows. Raises `Unreachable`, and `UsageError` for a run that may not be read.
    """
    folders = sorted(path for path in run_dir.parent.iterdir() if path.is_dir() and not _is_foreign(path))
    found = {folder: rows for folder in folders if (rows := read_rows(folder, name))}
    this = cluster_id(cluster) if found else ""
    of_it = {folder: tuple(row for row in rows if row["cluster_id"] == this) for folder, rows in found.items()}
    return {folder: rows for folder, rows in of_it.items() if rows}


def write_beside(folder: Path, name: str, rows: Iterable[Row]) -> None:
    """Keep `rows` as what the run in `folder`, this one or one beside it, has of that name. One that is verified stays so."""
    with amended(folder, rows_file(name)):
        write_rows(folder, name, rows)
