"""The console's picture: one state as text, as HTML and as a plotly figure, the same in a notebook, a report and a terminal.

Rules: everything is escaped; a standing is a mark and a word, its colour only repeats it; times are UTC; unknown is written
as unknown. Problems come first, and a shortened list says how much it leaves out.
Not for: pressing anything (`drlib.ui.console`).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import plotly.graph_objects as go

from drlib import formats
from drlib.drill.plan.rollback_preview import AS_FAR_AS, RollbackPreview
from drlib.drill.session.board import StepStand
from drlib.formats import html_text
from drlib.mirror.monitor.flow_view import INCOMPLETE, MIRROR_MAKER, MIRRORING, NO_WORKER, STARTING, WAITING, FlowView
from drlib.mirror.status.causes import subject
from drlib.mirror.status.worker_status import Event
from drlib.runs.table import bundle
from drlib.ui.console.board import MARKS
from drlib.ui.console.show.applications import application_html, application_lines
from drlib.ui.console.show.matrix import matrix_html, matrix_lines, matrix_of
from drlib.ui.console.show.style import BAD, FOCUS, GOOD, ODD, ROWS, STYLE, WARN, chip, more, table
from drlib.ui.console.state import MOVED, NOT_STARTED, ClusterSeen, ConsoleState, DrillSeen, TopicLag, as_of, standing
from drlib.ui.figures.figures import BLUE, blank, empty

RESOLVED: Final = 3
STEPS: Final = 7  # of a drill, those before and behind the current one
FLOW_LOOKS: Final = {
    MIRRORING: ("✓", GOOD),
    MIRROR_MAKER: ("✓", GOOD),
    STARTING: ("…", WARN),
    WAITING: ("…", WARN),
    NOT_STARTED: ("·", ODD),
    MOVED: ("·", ODD),
    INCOMPLETE: ("▲", WARN),
    NO_WORKER: ("✗", BAD),
}


class ConsolePicture:
    """One state, shown anywhere."""

    def __init__(self, state: ConsoleState) -> None:
        self.state = state

    def __repr__(self) -> str:
        return text_of(self.state)

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> dict[str, object]:
        return bundle(text_of(self.state), html_of(self.state), figure_of(self.state), include, exclude)


# -- text --------------------------------------------------------------------------------------------------------------


def text_of(state: ConsoleState) -> str:
    """The whole state in lines."""
    lines = [] if state.banner is None else [str(state.banner)]
    lines += [f"Console, {formats.clock(state.at_ms)[:8]} UTC"]
    lines += state.first
    lines += [f"cluster {c.alias}: {_cluster_words(c)}" for c in state.clusters]
    lines += [f"flow {view.flow}: {view.state}, {_behind(view)}{_age(view, state.at_ms)}" for view in state.flows]
    lines += [f"topic {t.topic} ({t.flow}): {_lag(t)}" for t in state.topics[:ROWS]]
    lines += more(len(state.topics), "topic")
    groups = _groups(state)
    lines += [f"group {name} ({flow}): {said}, lag {lag}" for flow, name, said, lag in groups[:ROWS]]
    lines += more(len(groups), "group")
    lines += [line for view in state.flows for line in matrix_lines(matrix_of(view))]
    lines += application_lines(state.applications)
    lines += [f"open {e.name} {subject(e)}: {e.detail}. {e.remedy}" for e in state.open_events]
    lines += [f"resolved {e.name} {subject(e)}" for e in state.resolved_events[:RESOLVED]]
    if state.drill is not None:
        lines += _drill_lines(state.drill)
    lines += [f"could not be read: {why}" for why in state.unseen]
    return "\n".join(formats.one_line(line) for line in lines)


def _drill_lines(drill: DrillSeen) -> Iterator[str]:
    yield f"drill {drill.name} ({drill.mode}, {drill.flow}): {drill.word}{f'; {drill.note}' if drill.note else ''}"
    for step in drill.steps:
        seconds = "" if step.seconds is None else f", {step.seconds:.1f} s"
        yield f"  {MARKS[step.stand]} {step.title}: {step.stand.value}{seconds}"
    if drill.rollback is not None:
        yield from (f"  would undo {step.step}: {'; '.join(step.changes)}" for step in drill.rollback.undone)
        yield from (f"  would leave {step}: {why}" for step, why in drill.rollback.stays)


# -- HTML --------------------------------------------------------------------------------------------------------------


def html_of(state: ConsoleState) -> str:
    """The same as a page's part, without scripts."""
    parts = [
        STYLE,
        FOCUS,
        '<div class="drlib-console" role="region" aria-label="Console">',
        "" if state.banner is None else state.banner.html(),
        f'<div class="row"><b>{html_text(_headline(state))}</b>'
        f'<span class="dim">{formats.clock(state.at_ms)[:8]} UTC</span></div>',
        *(f"<p>{html_text(line)}</p>" for line in state.first),
        *_topology(state),
        *(f"<p>{chip('?', 'could not be read', ODD)} {html_text(why)}</p>" for why in state.unseen),
        *_events(state),
        '<div class="cols">',
        table(
            "Lag by topic",
            ("flow", "topic", "#partitions", "#records behind", "#oldest"),
            _lag_rows(state),
            "nothing mirrored yet",
            wide=True,
        ),
        table(
            "If you failed over now",
            ("flow", "group", "positions", "#lag"),
            _groups(state),
            _no_groups(state),
            wide=True,
        ),
        "</div>",
        *(part for view in state.flows for part in matrix_html(matrix_of(view))),
        *application_html(state.applications),
        *_drill(state.drill),
        "</div>",
    ]
    return "".join(parts)


def _headline(state: ConsoleState) -> str:
    if not state.flows:
        return "Clusters" if state.clusters else "State unknown"
    well = sum(view.state in (MIRRORING, MIRROR_MAKER) for view in state.flows)
    count = len(state.open_events)
    flows = f"{well} of {len(state.flows)} flow{'' if len(state.flows) == 1 else 's'} mirroring"
    return f"{flows}, {count or 'no'} open event{'' if count == 1 else 's'}"


def _topology(state: ConsoleState) -> Iterator[str]:
    by_alias = {cluster.alias: cluster for cluster in state.clusters}
    drawn = set()
    for view in state.flows:
        source, _, target = view.flow.partition("->")
        drawn |= {source, target}
        mark, look = FLOW_LOOKS.get(view.state, ("?", ODD))
        yield (
            f'<div class="row" role="group" aria-label="{html_text(f"flow {view.flow}: {view.state}, {_behind(view)}")}">'
            f"{_box(source, by_alias.get(source))}"
            f'<div class="arrow">{chip(mark, view.state, look)}<br>{html_text(_behind(view))}'
            f'<br><span class="dim">{html_text(_workers(view))}</span>{_age_chip(view, state.at_ms)}</div>'
            f"{_box(target, by_alias.get(target))}</div>"
        )
    others = [cluster for cluster in state.clusters if cluster.alias not in drawn]
    if others:
        yield f'<div class="row">{"".join(_box(cluster.alias, cluster) for cluster in others)}</div>'


def _box(alias: str, cluster: ClusterSeen | None) -> str:
    if cluster is None:
        return f'<div class="box"><b>{html_text(alias)}</b><br>{chip("?", formats.UNKNOWN, ODD)}</div>'
    mark, look = {True: ("✓", GOOD), False: ("✗", BAD), None: ("?", ODD)}[cluster.well]
    link = f'<br><span class="dim">link {html_text(cluster.link.removeprefix("link "))}</span>' if cluster.link else ""
    link += f"<br>{chip('▲', cluster.clock, WARN)}" if cluster.clock else ""
    detail = f' title="{html_text(cluster.detail)}"' if cluster.detail else ""
    return f'<div class="box"{detail}><b>{html_text(alias)}</b><br>{chip(mark, cluster.word, look)}{link}</div>'


def _events(state: ConsoleState) -> Iterator[str]:
    for event in state.open_events:
        where = f"<b>{html_text(event.name)}</b> {html_text(subject(event))}{_since(event)}"
        remedy = f'<span class="dim">{html_text(event.remedy)}</span>'
        yield f"<p>{chip('▲', 'open', BAD)} {where}: {html_text(event.detail)}. {remedy}</p>"
    for event in state.resolved_events[:RESOLVED]:
        yield f'<p class="dim">{chip("✓", "resolved", GOOD)} {html_text(event.name)} {html_text(subject(event))}</p>'


def _since(event: Event) -> str:
    return f" since {formats.clock(event.opened_ms)[:8]}" if event.opened_ms else ""


def _lag_rows(state: ConsoleState) -> list[tuple[str, ...]]:
    return [
        (
            t.flow,
            f"{t.topic} ({t.parked} parked)" if t.parked else t.topic,
            f"{t.partitions:,}",
            formats.count(t.records),
            "-" if t.records == 0 else formats.duration(t.seconds),
        )
        for t in state.topics
    ]


def _no_groups(state: ConsoleState) -> str:
    if not state.flows or any(view.groups is None for view in state.flows):
        return formats.UNKNOWN
    return "no group has a position on a mirrored topic"


def _drill(drill: DrillSeen | None) -> Iterator[str]:
    if drill is None:
        return
    look = {"running": WARN, "passed": GOOD}.get(drill.word, BAD)
    mark = {"running": "▶", "passed": "✓"}.get(drill.word, "▲")
    done = sum(step.stand.value in ("done", "undone") for step in drill.steps)
    yield (
        f'<div class="row"><b>Drill {html_text(drill.name)}</b> {chip(mark, drill.word, look)} '
        f'<span class="dim">{html_text(drill.mode)}, {html_text(drill.flow)}, {done} of {len(drill.steps)} steps, '
        f"{html_text(drill.folder.name)}</span></div>"
    )
    if drill.note:
        yield f"<p>{html_text(drill.note)}</p>"
    rows = [
        (f"{MARKS[s.stand]} {s.stand.value}", s.title, "" if s.seconds is None else f"{s.seconds:.1f} s")
        for s in _near(drill)
    ]
    yield table("Current steps" if drill.alive else "Last steps", ("state", "step", "#took"), rows, "none")
    if drill.rollback is not None:
        yield from _rollback(drill, drill.rollback)


def _rollback(drill: DrillSeen, would: RollbackPreview) -> Iterator[str]:
    """What an abort, or a rollback of a run that nothing executes, would really do."""
    title = "If you abort it now, this is undone" if drill.alive else "If you roll it back, this is undone"
    rows = [
        (f"{number}", step.step, "; ".join(step.changes) + (f" ({AS_FAR_AS})" if step.partly else ""))
        for number, step in enumerate(would.undone, 1)
    ]
    none = "nothing" if would.stays else "nothing: no step has changed anything yet"
    yield table(title, ("#order", "step", "what becomes of it"), rows, none, most=len(rows))
    for step, why in would.stays:
        yield f"<p>{chip('▲', 'stays', WARN)} {html_text(step)}: {html_text(why)}</p>"


def _near(drill: DrillSeen) -> Sequence[StepStand]:
    """At most `STEPS` steps, with the current one and the two before it in sight."""
    current = drill.current
    at = drill.steps.index(current) if current is not None else len(drill.steps)
    first = max(0, min(at - 2, len(drill.steps) - STEPS))
    return drill.steps[first : first + STEPS]


# -- words -------------------------------------------------------------------------------------------------------------


def _cluster_words(cluster: ClusterSeen) -> str:
    parts = [cluster.word, cluster.detail, f"link {cluster.link.removeprefix('link ')}" if cluster.link else ""]
    parts += [cluster.clock]
    return ", ".join(filter(None, parts))


def _behind(view: FlowView) -> str:
    if view.lag is None or not view.partitions:
        return "lag unknown" if view.lag is None or view.state != MIRRORING else "nothing to mirror"
    if view.lag == 0:
        return "nothing behind"
    age = f", the oldest {formats.duration(view.lag_s)} old" if view.lag_s is not None else ", age unknown"
    return f"{formats.records(view.lag)} behind{age}"


def _age(view: FlowView, now_ms: int) -> str:
    """ ", as of 10:15:03, 42 s ago" of old figures, else nothing."""
    at_ms, old = as_of(view, now_ms)
    return f", as of {formats.clock(at_ms)[:8]}, {formats.duration((now_ms - at_ms) / 1000)} ago" if old else ""


def _age_chip(view: FlowView, now_ms: int) -> str:
    age = _age(view, now_ms).removeprefix(", ")
    return f"<br>{chip('▲', age, WARN)}" if age else ""


def _workers(view: FlowView) -> str:
    members = "workers unknown" if view.members is None else f"{view.members} worker{'' if view.members == 1 else 's'}"
    return members if view.records_per_s is None else f"{members}, {view.records_per_s:,.0f} records/s"


def _lag(lag: TopicLag) -> str:
    age = "" if lag.records == 0 else f", the oldest {formats.duration(lag.seconds)} old"
    return f"{formats.records(lag.records)} behind{age}{f', {lag.parked} parked' if lag.parked else ''}"


def _groups(state: ConsoleState) -> list[tuple[str, str, str, str]]:
    return [
        (view.flow, group.group, standing(group), formats.count(group.lag))
        for view in state.flows
        for group in view.groups or ()
    ]


# -- plotly ------------------------------------------------------------------------------------------------------------


def figure_of(state: ConsoleState) -> go.Figure:
    """Records behind by topic, each bar labelled; the state of the flows is above."""
    title = "; ".join(f"{view.flow} {view.state}" for view in state.flows) or "No flow is known"
    known = [lag for lag in state.topics if lag.records is not None][:ROWS]
    if not known:
        why = "; ".join(state.unseen) or "No lag is known."
        return empty(html_text(title), html_text(why))
    unknown = len(state.topics) - len([lag for lag in state.topics if lag.records is not None])
    figure = blank(html_text(title) + (f" ({unknown} topics unknown)" if unknown else ""), height=0)
    names = [f"{lag.topic} ({lag.flow})" for lag in known]
    most = max((lag.records or 0) for lag in known) or 1
    figure.add_bar(
        x=[lag.records for lag in known],
        y=names,
        orientation="h",
        marker={"color": BLUE},
        width=0.6,
        text=[_lag(lag) for lag in known],
        textposition="outside",
        cliponaxis=False,
        textfont={"size": 13},  # in the figure's ink, which is the report's light one in the dark
        hovertemplate="%{y}: %{x:,} records<extra></extra>",
    )
    figure.update_layout(height=130 + 34 * len(known), margin={"t": 60, "l": 16, "r": 16})
    figure.update_xaxes(range=[0, most * 2.2], title="records behind", rangemode="tozero", tickformat=",d")
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure
