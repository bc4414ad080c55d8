"""Who was left behind by the newest moves: the inventories that runs keep, compared with the clusters that were left.

Rules: a run counts once a step of it moved applications, and that step was not undone. Of two clusters the newest move counts,
whichever way it went: after a failback no client is left behind by the failover. Runs of another lab or file are passed over.
The folder is read, and the cluster that was left is asked; nothing is changed.
Not for: comparing (`drlib.drill.inventory.left_behind`), taking an inventory (`inventory.take`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from drlib import clock, formats
from drlib.config.settings import MirrorSettings
from drlib.drill.inventory.kept import KeptInventory, folders, has_kept, kept_of, read_kept
from drlib.drill.inventory.left_behind import Moved, Stand, compare, in_words, left_of, unanswered
from drlib.drill.inventory.rules import Inventory
from drlib.drill.plan.plan import Drill
from drlib.drill.plan.progress import Noted
from drlib.drill.readiness.observe.applications.applications import take_inventory
from drlib.drill.run import planning
from drlib.drill.run.request import ClusterTarget
from drlib.drill.session import find_running
from drlib.errors import DrlibError, UsageError
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.journal import JOURNAL, Line

MOVES: Final = frozenset({"pointer.move", "switchover.move", "wave.move", "wave.switchover"})
LOOK_S: Final = 5.0
SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Move:
    """A run that moved applications, at `moved_ms` (Unix time in milliseconds), and the inventory that it kept before.

    `unread`: why that cannot be read, so that `kept` has no application.
    """

    folder: Path
    kept: KeptInventory
    moved_ms: int
    unread: str = ""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What the cluster that was left showed after `move`. `now`: its inventory."""

    move: Move
    applications: tuple[Moved, ...]
    now: Inventory

    @property
    def left(self) -> tuple[Moved, ...]:
        """Those who are left behind, and those of whom that is not known."""
        return left_of(self.applications)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Why others may be there, of whom nothing is known; empty where the cluster has said who is."""
        unread = self.move.unread
        return (*((unread,) if unread else ()), *unanswered(self.now, self.move.kept.source))


def moved_ms(drill: Drill, lines: Sequence[Line]) -> int | None:
    """When a run moved applications last; None where it did not, left the pointer where it was, or took that back. Pure."""
    moving = {step.name: step.action.name for step in drill.steps if step.action.name in MOVES}
    last: dict[str, int] = {}
    for line in lines:
        step = str(line.data.get("step", ""))
        if moving.get(step) == "pointer.move" and line.data.get("left"):
            continue
        if step in moving and line.event == Noted.STEP_SUCCEEDED:
            last[step] = int(datetime.fromisoformat(line.at).timestamp() * 1000)
        elif step in moving and line.event == Noted.UNDO_SUCCEEDED:
            last.pop(step, None)
    return max(last.values(), default=None)


def of_run(runs_dir: Path, run: str) -> Move:
    """The move of one run, by its path or its name in `runs_dir`.

    Raises `UsageError` where there is none, it moved nothing or kept no inventory, and `JournalTampered`.
    """
    again = "Name a run that moved applications; drlib runs lists them."
    folder = next((path for path in (Path(run), runs_dir / run) if path.is_dir()), None)
    if folder is None:
        raise UsageError(f"there is no run {run}", f"neither the path nor {runs_dir} has a folder of that name", again)
    kept = read_kept(folder)
    if not kept:
        raise UsageError(
            f"{folder.name} has no inventory", "its runbook has no step inventory.take, or did not come to it", again
        )
    at_ms = _moved(folder)
    if at_ms is None:
        why = "none of its steps moved them, or the move was taken back"
        raise UsageError(f"{folder.name} has not moved the applications", why, again)
    return Move(folder, max(kept, key=lambda each: each.taken_ms), at_ms)


def newest_moves(runs_dir: Path, flows: Collection[Flow], place: ClusterTarget) -> tuple[Move, ...]:
    """The newest move between the clusters of each flow. Where its inventory cannot be read, it has none and says so; runs
    whose plan or journal cannot be read are passed over."""
    directions = sorted({each for flow in flows for each in (flow, flow.reverse)}, key=str)
    wanted = {frozenset((flow.source, flow.target)) for flow in flows}
    places = [place]
    if place.properties is not None:  # the file of a lab is in its folder
        places.append(ClusterTarget(lab_dir=place.properties.parent))
    found: dict[frozenset[str], Move] = {}
    for folder in folders(runs_dir):
        if wanted <= found.keys():
            break
        try:
            has = [flow for flow in directions if has_kept(folder, flow)]
            at_ms = _moved(folder) if has and any(find_running.is_at(folder, at) for at in places) else None
        except (DrlibError, OSError):
            continue
        for flow in has if at_ms is not None else ():
            found.setdefault(frozenset((flow.source, flow.target)), _move(folder, flow, at_ms or 0))
    return tuple(found.values())


def _move(folder: Path, flow: Flow, at_ms: int) -> Move:
    try:
        if (kept := kept_of(folder, flow)) is not None:
            return Move(folder, kept, at_ms)
        why = "it is gone"
    except UsageError as error:
        why = error.why
    nothing = KeptInventory(flow.source, flow.target, folder.name, at_ms, Inventory(()))
    return Move(folder, nothing, at_ms, f"the inventory of run {folder.name} cannot be read: {why}")


def look(
    settings: MirrorSettings,
    move: Move,
    *,
    seconds: float = LOOK_S,
    silent: Mapping[str, str] = MappingProxyType({}),
) -> LeftBehind:
    """Ask the cluster that was left. Raises `UsageError` where the file does not have it; nothing that it can cause.

    `silent`: by alias, why a cluster is known not to answer.
    """
    kept = move.kept
    flow = settings.flow(kept.source, kept.target)
    now, _ = take_inventory(settings, [flow], seconds, silent, only=[kept.source], activity=False)
    return LeftBehind(move, compare(kept.movers, now, kept.source, move.moved_ms, clock.now_ms()), now)


def lines(found: Collection[LeftBehind]) -> tuple[str, ...]:
    """What to show first about them: none once all are gone, and known to be."""
    said = []
    for each in found:
        if not each.left and not each.unknown:
            continue
        kept = each.move.kept
        who = "LEFT BEHIND" if each.left else "NOT KNOWN WHO IS LEFT BEHIND"
        since = formats.second(each.move.moved_ms)
        said.append(f"{who} on {kept.source} since the move to {kept.target} at {since} UTC, run {kept.run}:")
        counted = [one for one in each.left if one.stand is not Stand.NOT_KNOWN]
        for one in counted[:SHOWN]:
            who = ", ".join(filter(None, (", ".join(one.application.clients), ", ".join(one.application.hosts))))
            at = f" ({who})" if who else ""
            kind, way = one.application.kind.value, one.application.way.value
            said.append(
                f"  {one.application.name}{at}, {kind}: {one.why}; it moves by {way}".replace("by by hand", "by hand")
            )
        if len(counted) > SHOWN:
            said.append(f"  and {len(counted) - SHOWN} more")
        unknown = [one for one in each.left if one.stand is Stand.NOT_KNOWN]
        if unknown:
            said.append(f"  not known of {len(unknown)} applications: {unknown[0].why}")
        more = [why for why in each.unknown if why not in {one.why for one in unknown[:1]}]
        if more:
            said.append(f"  not known who else is there: {formats.first_few(more, SHOWN)}")
        said.append(f"  all of them: drlib inventory FILE --left-behind {each.move.folder}")
    return tuple(said)


def headline(found: LeftBehind) -> str:
    """One line about one move."""
    kept = found.move.kept
    words = in_words(found.applications, kept.source, found.unknown)
    return f"{words}, since the move to {kept.target} at {formats.second(found.move.moved_ms)} UTC"


def _moved(folder: Path) -> int | None:
    try:
        return moved_ms(planning.read(folder).drill, journal.read(folder / JOURNAL))
    except FileNotFoundError:
        return None
