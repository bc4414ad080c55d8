"""The inventory that a run keeps in its folder, and what is known of a source that does not answer any more.

Rules: `complete` puts together what was seen now, what the target knows of the source, and the newest inventory that an earlier
run kept; each row says as of when, and by what. What was seen now replaces what was known before. At most `MOST` applications
are kept, producers last, and the rest is counted. What is kept can be read again: where it is too much for that, names of
topics, client IDs and hosts are left out first, then applications, and both are counted. An inventory of another pair of
clusters, by the target's cluster ID, is never used, and one whose source did not answer neither, as it has nothing of its own.
Not for: asking (`drlib.drill.readiness.observe`), who stayed after the move (`left_behind`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.drill.inventory.left_behind import OF_PRODUCERS
from drlib.drill.inventory.rules import Application, Inventory, in_order
from drlib.drill.step.step_output import DETAILS
from drlib.errors import UsageError
from drlib.files import make_folder, read_json, write_whole
from drlib.model import Flow

MOST: Final = 10_000
MOST_NAMES: Final = (1000, 50, 10, 3)
"""Topics, client IDs and hosts of one application, of each: the first number that is few enough."""
MOST_LINES: Final = 100  # about what is not known of a cluster
NEWEST: Final = 200  # run folders that are looked at for an earlier inventory
_LIMITS: Final = (decoding.MOST_BYTES // 2, decoding.MOST_VALUES // 2)  # the other half: what is shown of each row
_PATTERN: Final = "inventory.{source}.{target}.json"


@dataclass(frozen=True, slots=True)
class KeptInventory:
    """What was known when `run` took it, at `taken_ms` (Unix time in milliseconds). They move from `source` to `target`.

    `cluster_ids`: by alias, of the clusters that answered. `left_out`: how many applications there were besides. `older`: the
    run whose inventory was used for a source that did not answer, and `older_ms` when that was taken.
    """

    source: str
    target: str
    run: str
    taken_ms: int
    inventory: Inventory
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0
    older: str = ""
    older_ms: int | None = None

    @property
    def flow(self) -> Flow:
        return Flow(self.source, self.target)

    @property
    def movers(self) -> tuple[Application, ...]:
        """The applications of the cluster that they move from."""
        return tuple(row for row in self.inventory.applications if row.cluster == self.source)


_KEPT: Final = TypeAdapter(KeptInventory)
_ROW: Final = TypeAdapter(Application)


def complete(
    flow: Flow,
    run: str,
    now_ms: int,
    seen: Inventory,
    cluster_ids: Mapping[str, str],
    on_target: Sequence[Application] = (),
    older: KeptInventory | None = None,
) -> KeptInventory:
    """What to keep. `on_target`: what the target knows of the source's applications; `older`: the newest of an earlier run."""
    rows = {_key(row): row for row in seen.applications}
    lacking = flow.source in seen.silent or flow.source in seen.unknown
    use = older if lacking else None
    if use is not None:
        for row in use.movers:
            as_of = use.taken_ms if row.as_of_ms is None else row.as_of_ms
            rows.setdefault(_key(row), replace(row, as_of_ms=as_of, known_by=row.known_by or f"run {use.run}"))
    for row in on_target:
        before = rows.get(_key(row))
        if before is None:
            rows[_key(row)] = row
        elif before.as_of_ms is not None:  # not seen now: its last commit may be later than that inventory
            newest = max((at for at in (before.last_ms, row.last_ms) if at is not None), default=None)
            rows[_key(row)] = replace(before, last_ms=newest)
    ordered = sorted(in_order(rows.values()), key=lambda row: row.kind in OF_PRODUCERS)
    kept = _bounded(ordered[:MOST])
    return KeptInventory(
        flow.source,
        flow.target,
        run,
        now_ms,
        replace(seen, applications=in_order(kept), unknown=_few(seen.unknown), notes=_few(seen.notes)),
        cluster_ids,
        len(ordered) - len(kept),
        "" if use is None else use.run,
        None if use is None else use.taken_ms,
    )


def _key(row: Application) -> tuple[str, bool, str]:
    return row.cluster, row.kind in OF_PRODUCERS, row.name


def _bounded(rows: Sequence[Application]) -> list[Application]:
    """As many of `rows`, the first before the last, and of their names, as can be read again."""
    short, sizes = list(rows), list[tuple[int, int]]()
    for most in MOST_NAMES:
        short = [_with_names(row, most) for row in short]
        sizes = list(map(_size, short))
        if sum(size for size, _ in sizes) <= _LIMITS[0] and sum(values for _, values in sizes) <= _LIMITS[1]:
            return short
    kept: list[Application] = []
    size, values = 0, 0
    for row, (more, more_values) in zip(short, sizes, strict=True):
        if size + more <= _LIMITS[0] and values + more_values <= _LIMITS[1]:
            size, values = size + more, values + more_values
            kept.append(row)
    return kept


def _size(row: Application) -> tuple[int, int]:
    """Bytes and values, as `drlib.decoding` counts them."""
    document = _ROW.dump_json(row)
    return len(document) + 1, 2 + document.count(b",") + document.count(b"[") + document.count(b"{")


def _with_names(row: Application, most: int) -> Application:
    names = (row.topics, row.clients, row.hosts)
    more = sum(max(0, len(each) - most) for each in names)
    if not more:
        return row
    topics, clients, hosts = (each[:most] for each in names)
    return replace(row, topics=topics, clients=clients, hosts=hosts, left_out=row.left_out + more)


def _few(lines: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    return {
        alias: each if len(each) <= MOST_LINES else (*each[:MOST_LINES], f"{len(each) - MOST_LINES} more")
        for alias, each in lines.items()
    }


def keep(run_dir: Path, kept: KeptInventory) -> None:
    path = _path(run_dir, kept.flow)
    make_folder(path.parent)
    write_whole(path, _KEPT.dump_json(kept))


def read_kept(run_dir: Path) -> tuple[KeptInventory, ...]:
    """Those of a run, one for each direction in which it takes one; none where it keeps none. Raises `UsageError` for a file
    that was changed."""
    paths = sorted((run_dir / DETAILS).glob(_PATTERN.format(source="*", target="*")))
    return tuple(read_json(path, _KEPT, "Begin a new run.") for path in paths)


def has_kept(run_dir: Path, flow: Flow) -> bool:
    """Does a run keep one of this direction, which may be unreadable?"""
    return os.path.lexists(_path(run_dir, flow))


def kept_of(run_dir: Path, flow: Flow) -> KeptInventory | None:
    """That of one direction; None where the run keeps none. Raises `UsageError` for a file that cannot be read."""
    try:
        return read_json(_path(run_dir, flow), _KEPT, "Begin a new run.")
    except FileNotFoundError:
        return None


def newest_kept(
    runs_dir: Path, flow: Flow, target_id: str, *, besides: str = ""
) -> tuple[KeptInventory | None, tuple[str, ...]]:
    """The newest inventory of the flow whose source answered, of the runs in `runs_dir` but `besides`; None without one. And
    which newer ones cannot be read, and why.

    `target_id`: the ID of the target's cluster.
    """
    unread = []
    for folder in folders(runs_dir):
        if folder.name == besides:
            continue
        try:
            found = kept_of(folder, flow)
        except UsageError as error:
            unread.append(f"the inventory of run {folder.name}: {error.why}")
            continue
        if found is None:
            continue
        if found.source not in found.inventory.silent and found.cluster_ids.get(flow.target) == target_id:
            return found, tuple(unread)
    return None, tuple(unread)


def folders(runs_dir: Path) -> Iterator[Path]:
    """The newest run folders, newest first: their names begin with the time they were made at."""
    try:
        found = sorted((path for path in runs_dir.iterdir() if os.path.isdir(path / DETAILS)), reverse=True)
    except OSError:
        return iter(())
    return iter(found[:NEWEST])


def _path(run_dir: Path, flow: Flow) -> Path:
    return run_dir / DETAILS / _PATTERN.format(source=flow.source, target=flow.target)
