"""Render the state of flows for a terminal: a head line, lag, lanes with their owners, and events with their remedies.

Rules: the same output once and with `--watch`; the greatest lag comes first, and a cut list says how many rows it leaves out.
Unknown is written as unknown. While a side does not answer, the first lines say what a failover would lose and whether its gate
is open. Sizes are estimates and say so. Text from outside never becomes markup.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drlib import formats
from drlib.drill.readiness.score import Readiness
from drlib.kafka.protocol.error_codes import UNAUTHORIZED
from drlib.kafka.security.errors import CANNOT_USE
from drlib.mirror.monitor.flow_view import (
    INCOMPLETE,
    MIRROR_MAKER,
    MIRRORING,
    NO_WORKER,
    STARTING,
    UNKNOWN,
    WAITING,
    FlowView,
)
from drlib.mirror.offsets.mirror_maker.mirrored_by import EXACT_BY_TAKEOVER, MirrorMakerFlow
from drlib.mirror.status.causes import subject
from drlib.mirror.status.forecast import Outlook
from drlib.mirror.status.worker_status import Event, PartitionStatus
from drlib.ui.terminal.plain_console import pairs

ROWS: Final = 12
STALE_MS: Final = 10_000  # age of the log ends from which on the output says how old they are
RESOLVED: Final = 3
COLOURS: Final = {
    MIRRORING: "green",
    MIRROR_MAKER: "green",
    STARTING: "yellow",
    WAITING: "yellow",
    INCOMPLETE: "yellow",
    UNKNOWN: "magenta",
    NO_WORKER: "red",
}
NEVER: Final = "not at these rates"
OPEN: Final = "open"
CLOSED: Final = "closed"


def render_status(
    views: Sequence[FlowView],
    *,
    rows: int = ROWS,
    footer: str = "",
    first: Sequence[str] = (),
    readiness: Mapping[str, Readiness] = MappingProxyType({}),
) -> RenderableType:
    """Every flow, one below the other, after the lines `first`.

    `rows`: how many partitions to show of each; `readiness`: of flows that lost a side.
    """
    parts: list[RenderableType] = [Text(formats.one_line(line)) for line in first]
    for view in views:
        parts += [_head(view)]
        if view.source_error or view.target_error:
            parts += [Padding(_failover(view, readiness.get(view.flow)), (0, 0, 0, 2))]
        parts += [Padding(_numbers(view), (0, 0, 0, 2))]
        if view.lanes:
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
    answered = ""
    if view.mirror_maker is not None:
        members = view.mirror_maker.words(view.at_ms)
    if view.members:
        answered = f", {'all' if len(view.workers) >= view.members else len(view.workers) or 'none'} answering"
    return Text.assemble(
        (f" {view.state.upper()} ", f"bold reverse {COLOURS.get(view.state, 'magenta')}"),
        (f"  {formats.one_line(view.flow)}", "bold"),
        f"  {members}{answered}",
        (f"  {formats.clock(view.at_ms)} UTC", "dim"),
    )


def _failover(view: FlowView, readiness: Readiness | None) -> Table:
    """What a failover now would lose, and whether its gate is open."""
    table = pairs()
    source, _, target = view.flow.partition("->")
    for alias, why in ((source, view.source_error), (target, view.target_error)):
        if why:
            side = "refused by" if UNAUTHORIZED in why or CANNOT_USE in why else "lost side"
            table.add_row(side, Text(f"{formats.one_line(alias)}: {formats.one_line(why)}"))
    table.add_row("loses at most", Text(formats.one_line(loss(view))))
    state, why = gate_of(view, readiness)
    colour = {OPEN: "green", CLOSED: "red"}.get(state, "magenta")
    table.add_row("gate", Text.assemble((state, f"bold {colour}"), f": {formats.one_line(why)}"))
    return table


def loss(view: FlowView) -> str:
    """The records that a failover now would lose at most, as far as they are known. Pure."""
    source = view.flow.partition("->")[0]
    if view.lag is None and view.mirror_maker is not None:
        return _loss_of_mirror_maker(view, view.mirror_maker, source)
    if view.lag is None or not view.partitions:
        unasked = "no worker that answers knows" if not view.workers else "its workers do not know"
        unsaid = f"{source} does not say where its logs end"
        if view.target_error and not view.source_error:
            unsaid = f"{view.flow.partition('->')[2]} does not say what it has"
        return f"unknown: {unsaid}, and {unasked}"
    at = f"{formats.clock(view.as_of_ms)[:8]} UTC" if view.as_of_ms else "an unknown time"
    age = f" ({formats.duration(max(0, view.at_ms - view.as_of_ms) / 1000)} ago)" if view.as_of_ms else ""
    return f"{formats.records(view.lag)} known at {at}{age}, and what {source} took after that, which is unknown"


def _loss_of_mirror_maker(view: FlowView, mirror_maker: MirrorMakerFlow, source: str) -> str:
    seen = mirror_maker.source_seen_ms
    last = ""
    if seen is not None:
        ago = formats.duration(max(0, view.at_ms - seen) / 1000)
        last = f"; the last heartbeat of {source} that it mirrored is of {formats.clock(seen)[:8]} UTC ({ago} ago)"
    what = f"{source} took after the last mirrored record of each partition"
    return f"unknown number of records: what {what}. MirrorMaker 2 does not keep where the logs ended{last}"


def gate_of(view: FlowView, readiness: Readiness | None) -> tuple[str, str]:
    """The gate of an emergency failover, and why it is so. Pure."""
    if UNAUTHORIZED in view.target_error:
        return formats.UNKNOWN, "what the target knows may not be read"
    if view.target_error:
        return CLOSED, f"applications cannot be moved: {view.target_error}"
    if readiness is None or not readiness.source_lost:
        return formats.UNKNOWN, "drlib doctor says"
    closed = readiness.emergency
    if closed:
        return CLOSED, "; ".join(f"{f.title}: {f.evidence}. {f.fix}" for f in closed[:3])
    left = f"; not determined: {', '.join(readiness.not_determined)}" if readiness.not_determined else ""
    return (
        OPEN,
        f"the target can take over, and scores {readiness.score} of 100{left}. drlib failover FILE '{view.flow}'",
    )


def _numbers(view: FlowView) -> Table:
    table = pairs()
    stale = ""
    if view.partitions and view.as_of_ms and view.at_ms - view.as_of_ms > STALE_MS:
        stale = f", as of {formats.duration((view.at_ms - view.as_of_ms) / 1000)} ago"
    if view.mirror_maker is not None:
        table.add_row("known by", ", ".join(view.mirror_maker.evidence))
        for text in view.mirror_maker.unread:
            table.add_row("not read", Text(formats.one_line(text)))
    if view.lag is None:
        table.add_row("lag", formats.UNKNOWN)
    elif view.lag == 0:
        table.add_row("lag", f"0 records{stale}" if view.partitions else "nothing to mirror")
    else:
        size = "" if view.lag_bytes is None else f", about {formats.size(view.lag_bytes)}"
        age = "age unknown" if view.lag_s is None else f"the oldest is {formats.duration(view.lag_s)} old"
        bounds = "" if view.mirror_maker is None else f"at least {formats.count(view.lag_at_least)}, at most "
        table.add_row("lag", f"{bounds}{formats.records(view.lag)}{size}, {age}{stale}")
        table.add_row("caught up in", _eta(view))
        if view.left_s is not None:
            table.add_row("expires in", formats.duration(max(0.0, view.left_s)))
    rate = formats.UNKNOWN if view.records_per_s is None else f"{view.records_per_s:,.0f} records/s"
    if view.bytes_per_s is not None:
        rate += f", {formats.size(int(view.bytes_per_s))}/s"
    table.add_row("rate", rate)
    if view.mirror_maker is not None:
        table.add_row("exact with", EXACT_BY_TAKEOVER)
    kept = [(lane.kept_bytes, lane.lane) for lane in view.lanes if lane.kept_bytes]
    if kept:
        most, lane = max(kept)
        text = f"{formats.size(sum(size for size, _ in kept))} of records read ahead"
        table.add_row("memory", f"{text}, {formats.size(most)} of it by lane {lane}")
    compared = [p.to_compare for p in view.partitions if p.to_compare]
    if compared:
        text = f"{sum(compared):,} offsets of {len(compared):,} partitions that MirrorMaker 2 copied are still to be compared;"
        table.add_row("comparing", f"{text} positions in them are bounded until then")
    guarded = sum(p.guarded for p in view.partitions)
    if guarded:
        text = f"{guarded:,} partitions: the target may have forgotten the claim, so a write by another client would be"
        table.add_row("guarded", f"{text} detected, not prevented")
    return table


def _eta(view: FlowView) -> str:
    if view.eta_s is not None:
        return formats.duration(view.eta_s)
    measured = [p.outlook.out_per_s is not None for p in view.partitions if p.lag]
    return NEVER if all(measured) else formats.UNKNOWN


def _lanes(view: FlowView) -> Table:
    table = _table(("lane", 1), ("owner", 0), ("state", 0), ("epoch", 1), ("since", 0), ("partitions", 1), ("lag", 1))
    for lane in view.lanes:
        colour = {"running": "green", "owned": "green", "not owned": "red"}.get(lane.state, "yellow")
        table.add_row(
            str(lane.lane),
            Text(formats.one_line(lane.owner or "none")),
            Text(lane.state, style=colour),
            str(lane.epoch) if lane.epoch >= 0 else "-",
            _since(lane.claimed_ms, view.at_ms),
            f"{lane.partitions:,}",
            formats.count(lane.lag),
        )
    return table


def _since(at_ms: int, now_ms: int) -> str:
    """The time of day within the last 24 hours, else the date; UTC."""
    if not at_ms:
        return "-"
    return formats.moment(at_ms)[11:19] if now_ms - at_ms < 86_400_000 else formats.moment(at_ms)[:10]


def _partitions(view: FlowView, rows: int) -> RenderableType:
    table = _table(
        ("partition", 0),
        ("lag", 1),
        ("about", 1),
        ("oldest", 2),
        ("in, out/s", 1),
        ("caught up", 2),
        ("expires", 2),
    )
    worst = sorted(view.partitions, key=_urgency)
    for partition in worst[:rows]:
        table.add_row(*_partition(partition))
    hidden = worst[rows:]
    if not hidden:
        return table
    lagging = sum(1 for p in hidden if p.lag or not p.known)
    which = f"{lagging:,} of them with lag" if lagging else "none of them with lag"
    return Group(table, Text(f"and {len(hidden):,} more partitions, {which}", style="dim"))


def _urgency(p: PartitionStatus) -> tuple[object, ...]:
    return (not p.parked, not p.outlook.warning, p.known, -p.lag, p.topic, p.partition)


def _partition(status: PartitionStatus) -> list[RenderableType]:
    outlook = status.outlook
    name = Text(formats.one_line(f"{status.topic}-{status.partition}"), style="red" if status.parked else "")
    if not status.known:
        return [name, *[Text(formats.UNKNOWN)] * 6]
    if not status.lag:
        return [name, "0", "-", "-", _rates(outlook), "-", "-"]
    eta = (
        formats.duration(outlook.eta_s)
        if outlook.eta_s is not None
        else formats.UNKNOWN
        if outlook.out_per_s is None
        else NEVER
    )
    left = "-" if outlook.left_s is None else formats.duration(max(0.0, outlook.left_s))
    return [
        name,
        formats.count(status.lag),
        formats.size(outlook.lag_bytes),
        formats.duration(outlook.lag_s),
        _rates(outlook),
        Text("parked" if status.parked else eta, style="red" if status.parked else ""),
        Text(left, style="red" if outlook.warning else ""),
    ]


def _rates(outlook: Outlook) -> str:
    if outlook.in_per_s is None or outlook.out_per_s is None:
        return formats.UNKNOWN
    return ", ".join(f"{v:,.0f}" if v >= 9.95 or v == 0 else f"{v:,.1f}" for v in (outlook.in_per_s, outlook.out_per_s))


def _groups(view: FlowView) -> RenderableType:
    table = _table(
        ("group", 0),
        ("offsets", 1),
        ("lag", 1),
        ("exact", 1),
        ("ahead of the mirror", 1),
        ("other", 1),
        ("reads again", 1),
    )
    for group in view.groups or ():
        table.add_row(
            Text(formats.one_line(group.group)),
            *(formats.count(n) for n in (group.partitions, group.lag, group.exact, group.behind, group.other)),
            formats.count(group.read_again),
        )
    return table if table.row_count else Text("no group has a committed offset on a mirrored topic", style="dim")


def _events(view: FlowView) -> RenderableType:
    if not view.events and view.members and not view.workers:
        return Text(
            "Problems are not known: no worker answers. Start workers with --metrics HOST:PORT.", style="yellow"
        )
    if not view.events:
        return Text("No problem is reported.", style="dim")
    resolved = [event for event in view.events if event.resolved_ms is not None]
    lines = [_event(event, view.at_ms) for event in view.open_events]
    if view.events_omitted:
        lines.append(Text(f"and {view.events_omitted:,} more open events, which are not listed", style="bold red"))
    return Group(*lines, *(_event(event, view.at_ms) for event in resolved[:RESOLVED]))


def _event(event: Event, now_ms: int) -> RenderableType:
    is_open = event.resolved_ms is None
    since = "" if not event.opened_ms else f" since {formats.moment(event.opened_ms)[:19]} UTC"
    if is_open and event.opened_ms:
        since += f" ({formats.duration(max(0, now_ms - event.opened_ms) / 1000)})"
    elif event.resolved_ms:
        since = f" {formats.moment(event.opened_ms)[11:19]} to {formats.moment(event.resolved_ms)[11:19]} UTC"
    again = f", {event.times} times" if event.times > 1 else ""
    text = Text.assemble(
        ("open     " if is_open else "resolved ", "bold red" if is_open else "dim green"),
        (f"{event.name} ", "bold" if is_open else "dim"),
        (formats.one_line(subject(event)), "" if is_open else "dim"),
        (f"{since}{again}", "dim"),
    )
    if not is_open:
        return text
    lines = [Text(formats.one_line(event.detail))]
    if event.remedy:
        lines.append(Text(formats.one_line(event.remedy), style="cyan"))
    return Group(text, Padding(Group(*lines), (0, 0, 0, 9)))


def _table(*columns: tuple[str, int]) -> Table:
    """Each with its kind: 0 a name, to the left, 1 a number, 2 words to the right. In a narrow terminal names and words take
    more lines, and nothing is cut."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0, 0, 0))
    for name, kind in columns:
        table.add_column(name, justify="right" if kind else "left", no_wrap=kind == 1, overflow="fold")
    return table
