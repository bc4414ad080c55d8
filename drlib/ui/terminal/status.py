"""The state of flows on a terminal: one head line, what is behind, who owns what, and events with their remedies.

Rules: the same picture once and in `--watch`; what is behind comes first and a long list says what it leaves out. Unknown
is written as unknown. Sizes are estimates and say so. Text from outside never becomes markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drlib.mirror.monitor.flow_view import INCOMPLETE, MIRRORING, NO_WORKER, STARTING, UNKNOWN, FlowView
from drlib.mirror.status.catch_up import Outlook
from drlib.mirror.status.worker_status import Event, PartitionStatus
from drlib.ui import words

ROWS: Final = 12
STALE_MS: Final = 10_000  # of the source's word on where its logs end
RESOLVED: Final = 3
COLOURS: Final = {MIRRORING: "green", STARTING: "yellow", INCOMPLETE: "yellow", UNKNOWN: "magenta", NO_WORKER: "red"}
NEVER: Final = "not in sight"


def render_status(views: Sequence[FlowView], *, rows: int = ROWS, footer: str = "") -> RenderableType:
    """Every flow, one under the other. `rows`: how many partitions to show of each."""
    parts: list[RenderableType] = []
    for view in views:
        parts += [_head(view), Padding(_numbers(view), (0, 0, 0, 2))]
        parts += [Padding(_lanes(view), (1, 0, 0, 2))]
        if view.partitions:
            parts += [Padding(_partitions(view, rows), (1, 0, 0, 2))]
        if view.groups is not None:
            parts += [Padding(_groups(view), (1, 0, 0, 2))]
        parts += [Padding(_events(view), (1, 0, 1, 2))]
    if footer:
        parts.append(Text(footer, style="dim"))
    return Group(*parts)


def _head(view: FlowView) -> Text:
    members = "members unknown" if view.members is None else f"{view.members} worker{'' if view.members == 1 else 's'}"
    heard = ""
    if view.members:
        heard = (
            ", heard" if len(view.workers) >= view.members else ", not heard" if not view.workers else ", some heard"
        )
    return Text.assemble(
        (f" {view.state.upper()} ", f"bold reverse {COLOURS.get(view.state, 'magenta')}"),
        (f"  {words.one_line(view.flow)}", "bold"),
        f"  {members}{heard}",
        (f"  {words.clock(view.at_ms)} UTC", "dim"),
    )


def _numbers(view: FlowView) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    stale = ""
    if view.partitions and view.as_of_ms and view.at_ms - view.as_of_ms > STALE_MS:
        stale = f", as of {words.duration((view.at_ms - view.as_of_ms) / 1000)} ago"
    if view.lag is None:
        table.add_row("behind", words.UNKNOWN)
    elif view.lag == 0:
        table.add_row("behind", f"nothing{stale}" if view.partitions else "nothing to mirror")
    else:
        size = "" if view.lag_bytes is None else f", about {words.size(view.lag_bytes)}"
        age = "their age is unknown" if view.lag_s is None else f"the oldest {words.duration(view.lag_s)} old"
        table.add_row("behind", f"{words.records(view.lag)}{size}, {age}{stale}")
        table.add_row("caught up in", _eta(view))
        if view.left_s is not None:
            table.add_row("expires in", words.duration(max(0.0, view.left_s)))
    rate = words.UNKNOWN if view.records_per_s is None else f"{view.records_per_s:,.0f} records/s"
    if view.bytes_per_s is not None:
        rate += f", {words.size(int(view.bytes_per_s))}/s"
    table.add_row("rate", rate)
    guarded = sum(p.guarded for p in view.partitions)
    if guarded:
        text = (
            f"{guarded:,} partitions: their target may have forgotten our claim, so a stranger's write there would be"
        )
        table.add_row("guarded", f"{text} detected, not prevented")
    return table


def _eta(view: FlowView) -> str:
    if view.eta_s is not None:
        return words.duration(view.eta_s)
    measured = [p.outlook.out_per_s is not None for p in view.partitions if p.lag]
    return NEVER if all(measured) else words.UNKNOWN


def _lanes(view: FlowView) -> Table:
    table = _table(
        ("lane", 1), ("owner", 0), ("state", 0), ("epoch", 1), ("since", 0), ("partitions", 1), ("behind", 1)
    )
    for lane in view.lanes:
        colour = {"running": "green", "owned": "green", "not owned": "red"}.get(lane.state, "yellow")
        table.add_row(
            str(lane.lane),
            Text(words.one_line(lane.owner or "nobody")),
            Text(lane.state, style=colour),
            str(lane.epoch) if lane.epoch >= 0 else "-",
            _since(lane.claimed_ms, view.at_ms),
            f"{lane.partitions:,}",
            words.count(lane.lag),
        )
    return table


def _since(at_ms: int, now_ms: int) -> str:
    """The time of a recent moment, the day of an older one; UTC, as the head line says."""
    if not at_ms:
        return "-"
    return words.moment(at_ms)[11:19] if now_ms - at_ms < 86_400_000 else words.moment(at_ms)[:10]


def _partitions(view: FlowView, rows: int) -> RenderableType:
    table = _table(
        ("partition", 0),
        ("behind", 1),
        ("about", 1),
        ("oldest", 1),
        ("in, out/s", 1),
        ("done in", 1),
        ("expires in", 1),
    )
    worst = sorted(view.partitions, key=_urgency)
    for found in worst[:rows]:
        table.add_row(*_partition(found))
    rest = worst[rows:]
    if not rest:
        return table
    behind = sum(1 for p in rest if p.lag or not p.known)
    what = f"{behind:,} of them behind" if behind else "none of them behind"
    return Group(table, Text(f"and {len(rest):,} partitions more, {what}", style="dim"))


def _urgency(found: PartitionStatus) -> tuple[object, ...]:
    return (not found.parked, not found.outlook.warning, found.known, -found.lag, found.topic, found.partition)


def _partition(found: PartitionStatus) -> list[RenderableType]:
    seen = found.outlook
    name = Text(words.one_line(f"{found.topic}-{found.partition}"), style="red" if found.parked else "")
    if not found.known:
        return [name, *[Text(words.UNKNOWN)] * 6]
    if not found.lag:
        return [name, "0", "-", "-", _rates(seen), "-", "-"]
    eta = words.duration(seen.eta_s) if seen.eta_s is not None else words.UNKNOWN if seen.out_per_s is None else NEVER
    left = "-" if seen.left_s is None else words.duration(max(0.0, seen.left_s))
    return [
        name,
        words.count(found.lag),
        words.size(seen.lag_bytes),
        words.duration(seen.lag_s),
        _rates(seen),
        Text("parked" if found.parked else eta, style="red" if found.parked else ""),
        Text(left, style="red" if seen.warning else ""),
    ]


def _rates(seen: Outlook) -> str:
    if seen.in_per_s is None or seen.out_per_s is None:
        return words.UNKNOWN
    return ", ".join(f"{v:,.0f}" if v >= 9.95 or v == 0 else f"{v:,.1f}" for v in (seen.in_per_s, seen.out_per_s))


def _groups(view: FlowView) -> RenderableType:
    table = _table(
        ("group", 0),
        ("positions", 1),
        ("behind", 1),
        ("exact", 1),
        ("ahead of the mirror", 1),
        ("other", 1),
        ("reads again", 1),
    )
    for group in view.groups or ():
        table.add_row(
            Text(words.one_line(group.group)),
            *(words.count(n) for n in (group.partitions, group.lag, group.exact, group.behind, group.other)),
            words.count(group.read_again),
        )
    return table if table.row_count else Text("no group has a position on a mirrored topic", style="dim")


def _events(view: FlowView) -> RenderableType:
    if not view.events:
        return Text("Nothing is wrong that could be seen.", style="dim")
    resolved = [event for event in view.events if event.resolved_ms is not None]
    shown = [*view.open_events, *resolved[:RESOLVED]]
    return Group(*(_event(event, view.at_ms) for event in shown))


def _event(event: Event, now_ms: int) -> RenderableType:
    is_open = event.resolved_ms is None
    since = "" if not event.opened_ms else f" since {words.moment(event.opened_ms)[:19]} UTC"
    if is_open and event.opened_ms:
        since += f" ({words.duration(max(0, now_ms - event.opened_ms) / 1000)})"
    elif event.resolved_ms:
        since = f" {words.moment(event.opened_ms)[11:19]} to {words.moment(event.resolved_ms)[11:19]} UTC"
    again = f", {event.times} times" if event.times > 1 else ""
    text = Text.assemble(
        ("open     " if is_open else "resolved ", "bold red" if is_open else "dim green"),
        (f"{event.name} ", "bold" if is_open else "dim"),
        (words.one_line(event.entity), "" if is_open else "dim"),
        (f"{since}{again}", "dim"),
    )
    if not is_open:
        return text
    lines = [Text(words.one_line(event.detail))]
    if event.remedy:
        lines.append(Text(words.one_line(event.remedy), style="cyan"))
    return Group(text, Padding(Group(*lines), (0, 0, 0, 9)))


def _table(*columns: tuple[str, int]) -> Table:
    """Numbers to the right on one line; names to the left, cut before they push numbers out."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0, 0, 0))
    for name, right in columns:
        table.add_column(
            name,
            justify="right" if right else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=None if right else min(24, 3 * len(name)) if name in ("partition", "group") else len(name),
        )
    return table
