"""Action `inventory.take`: who uses the flow's topics before they are moved, kept in the run's folder and shown in its report.

Rules: it holds up no run: what does not answer within `within_s` is named. A source that does not answer, or in part, is known
by what the target has of it, and by the newest inventory that an earlier run beside this one kept; each row says as of when.
After the move it is compared with who is still there (`drlib inventory FILE --left-behind RUN`, `drlib status`).
Not for: which positions move (`groups.translate`), and whether they read on (`groups.verify`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from drlib import clock, formats
from drlib.drill.inventory.kept import KeptInventory, complete, keep, newest_kept
from drlib.drill.inventory.left_behind import OF_PRODUCERS
from drlib.drill.inventory.rules import Application, Way
from drlib.drill.readiness.observe.applications.applications import take_inventory
from drlib.drill.readiness.observe.applications.known_applications import known_on_target
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Seconds
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction, Shared
from drlib.drill.step.known_silence import PROBE_S, ask_in_run
from drlib.drill.step.step_output import ScorecardPart, rows_file
from drlib.errors import Unreachable
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import KeptTable

MOST_SCORED: Final = 1000  # rows in the scorecard; the step's rows have all
HEADS: Final = ("application", "kind", "moves", "members", "client IDs", "hosts", "topics", "last active, UTC", "known")
_NAMED: Final = 5


class TakeInventory(ReadOnlyTargetAction):
    """Keep who uses the flow's topics, and how each of them moves."""

    name = "inventory.take"
    shared_topics = Shared.SOME

    within_s: Seconds = PROBE_S
    """How long both clusters have to answer; what is open then is named as not known."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        settings, flow = self.context.mirror_settings(), self.flow
        chosen = settings.flow(flow.source, flow.target)
        answers = ask_in_run(self.context, [self.source_cluster])
        silent = {alias: each.why for alias, each in answers.items() if isinstance(each, Unreachable)}
        seen, ids = take_inventory(settings, [chosen], self.within_s, silent)
        on_target: Sequence[Application] = ()
        refused: Sequence[str] = ()
        older = None
        if flow.source in seen.silent or flow.source in seen.unknown:
            abort.check()
            on_target, refused = known_on_target(settings, chosen, self.within_s)
            run_dir = self.context.run_dir
            older, unread = newest_kept(run_dir.parent, flow, ids.get(flow.target, ""), besides=run_dir.name)
            refused = (*refused, *unread)
        kept = complete(flow, self.context.run_dir.name, clock.now_ms(), seen, ids, on_target, older)
        keep(self.context.run_dir, kept)
        self.show(map(row, kept.movers))
        self.score(ScorecardPart(tables=(table(kept, self.step),)))
        return evidence(kept, refused)


def row(each: Application) -> Mapping[str, Scalar]:
    """A row of the step's results."""
    return dict(zip(HEADS, cells(each), strict=True)) | {"how": each.how}


def cells(each: Application) -> tuple[str, ...]:
    """One application as text, in the order of `HEADS`."""
    return (
        each.name,
        each.kind.value,
        f"{each.way.value}: {each.how}",
        "" if each.kind in OF_PRODUCERS else formats.cell(each.members),
        ", ".join(each.clients),
        ", ".join(each.hosts),
        ", ".join(each.topics),
        "" if each.last_ms is None else formats.second(each.last_ms),
        known(each),
    )


def known(each: Application) -> str:
    """As of when a row is known, and by what; "now" where its cluster said so."""
    short = f"; {each.left_out} topics, client IDs and hosts are left out" if each.left_out else ""
    if not each.known_by:
        return (each.unknown or "now") + short
    when = "" if each.as_of_ms is None else f", as of {formats.second(each.as_of_ms)}"
    return f"by {each.known_by}{when}{short}"


def basis(kept: KeptInventory) -> str:
    """What the inventory rests on."""
    source, why = kept.source, kept.inventory.silent.get(kept.source)
    unknown = kept.inventory.unknown.get(source, ())
    if why is None and not unknown:
        return f"as {source} answered at {formats.second(kept.taken_ms)} UTC"
    lacking = f"{source} did not answer" if why is not None else f"{source} answered in part"
    if kept.older_ms is None:
        return f"{lacking}: by what {kept.target} knows; no earlier run kept an inventory, so others may be missing"
    age = formats.span(max(0, kept.taken_ms - kept.older_ms) / 1000)
    return f"{lacking}: by what {kept.target} knows, and by the inventory of run {kept.older}, {age} old"


def table(kept: KeptInventory, step: str) -> KeptTable:
    rows = tuple(cells(each) for each in kept.movers)
    left_out = max(0, len(rows) - MOST_SCORED) + kept.left_out
    caption = f"Who uses the topics of {kept.source}, {basis(kept)}"
    file = rows_file(step) if left_out else ""
    return KeptTable(
        title="Applications", caption=caption, heads=HEADS, rows=rows[:MOST_SCORED], left_out=left_out, file=file
    )


def evidence(kept: KeptInventory, refused: Sequence[str] = ()) -> Evidence:
    ways = Counter(each.way for each in kept.movers)
    by_hand = [each.name for each in kept.movers if each.way is Way.BY_HAND]
    unknown = [*kept.inventory.unknown.get(kept.source, ()), *refused]
    return {
        "applications": len(kept.movers) + kept.left_out,
        "by_hand": ways[Way.BY_HAND],
        "move_by_hand": formats.first_few(by_hand, _NAMED),
        "known": basis(kept),
        "not_known": formats.first_few(unknown, _NAMED),
    }
