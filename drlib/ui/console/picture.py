"""The console's picture: one state as text, as HTML and as a plotly figure, the same in a notebook, a report and a terminal.

Rules: everything is escaped; a standing is a mark and a word, its colour only repeats it; times are UTC; unknown is written
as unknown. Problems come first, and a shortened list says how much it leaves out.
Not for: pressing anything (`drlib.ui.console`).
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

import plotly.graph_objects as go

from drlib import formats
from drlib.drill.session.board import StepStand
from drlib.mirror.monitor.flow_view import INCOMPLETE, MIRROR_MAKER, MIRRORING, NO_WORKER, STARTING, WAITING, FlowView
from drlib.mirror.status.causes import subject
from drlib.mirror.status.worker_status import Event
from drlib.runs.table import bundle
from drlib.ui.console.board import MARKS
from drlib.ui.console.state import ClusterSeen, ConsoleState, DrillSeen, TopicLag, standing
from drlib.ui.figures.figures import BLUE, INK, blank, empty

ROWS: Final = 10  # of topics and of groups
RESOLVED: Final = 3
STEPS: Final = 7  # of a drill, those before and behind the current one
# Classes: 4.5:1 on their tints, in JupyterLab's light and dark themes.
GOOD, WARN, BAD, ODD = "good", "warn", "bad", "odd"
FLOW_LOOKS: Final = {
    MIRRORING: ("✓", GOOD),
    MIRROR_MAKER: ("✓", GOOD),
    STARTING: ("…", WARN),
    WAITING: ("…", WARN),
    INCOMPLETE: ("▲", WARN),
    NO_WORKER: ("✗", BAD),
}
STYLE: Final = """<style>
.drlib-console,.drlib-console-widget{--ink:#1f2933;--dim:#52606d;--paper:#fff;--edge:#c3ccd5;--line:#52606d;--rule:#e3e8ee;
 --good:#00573f;--good-tint:#e3f4ee;--warn:#7a4b00;--warn-tint:#fdf1d8;--bad:#a02800;--bad-tint:#fde8e0;--odd:#5b3a8c;
 --odd-tint:#f0eaf8}
[data-jp-theme-light="false"] .drlib-console,[data-jp-theme-light="false"] .drlib-console-widget{--ink:#e8edf2;--dim:#b3bdc7;
 --paper:#15191e;--edge:#4d5965;--line:#9aa5b1;--rule:#333d47;--good:#83dcb8;--good-tint:#10352a;--warn:#f2c879;
 --warn-tint:#3d2c0a;--bad:#ffab8c;--bad-tint:#4a1d0d;--odd:#d3bdf7;--odd-tint:#302349}
.drlib-console{font:13px/1.45 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--ink);background:var(--paper);
 border:1px solid var(--edge);border-radius:6px;padding:10px 14px;max-width:1280px;box-sizing:border-box}
.drlib-console .row{display:flex;flex-wrap:wrap;gap:8px 14px;align-items:center;margin:6px 0}
.drlib-console .cols{display:flex;flex-wrap:wrap;gap:4px 28px;align-items:flex-start}
.drlib-console .box{border:1px solid var(--line);border-radius:6px;padding:4px 12px;min-width:104px;text-align:center}
.drlib-console .arrow{flex:1;min-width:200px;max-width:380px;text-align:center;position:relative;
 border-bottom:2px solid var(--line);padding:0 18px 2px}
.drlib-console .arrow:after{content:"";position:absolute;right:-2px;bottom:-6px;border:5px solid transparent;
 border-left:9px solid var(--line);border-right:0}
.drlib-console .chip{display:inline-block;border-radius:4px;padding:0 7px;font-weight:600;white-space:nowrap}
.drlib-console .good{color:var(--good);background:var(--good-tint)}
.drlib-console .warn{color:var(--warn);background:var(--warn-tint)}
.drlib-console .bad{color:var(--bad);background:var(--bad-tint)}
.drlib-console .odd{color:var(--odd);background:var(--odd-tint)}
.drlib-console table{border-collapse:collapse;margin:6px 0;font-size:13px}
.drlib-console caption{text-align:left;font-weight:600;padding:2px 0;caption-side:top}
.drlib-console th,.drlib-console td{padding:2px 14px 2px 0;text-align:left;border-bottom:1px solid var(--rule);
 vertical-align:top;background:none;color:var(--ink)}
.drlib-console .n{text-align:right;font-variant-numeric:tabular-nums}
.drlib-console .dim{color:var(--dim)}
.drlib-console p{margin:4px 0}
.drlib-console-confirm [role=alert],.drlib-console-said [role]{max-width:900px;line-height:1.45;white-space:pre-line}
.drlib-console-said .wrong{color:var(--bad)}
.drlib-console-widget button:focus-visible,.drlib-console-widget input:focus-visible,.drlib-console-widget select:focus-visible{
 outline:3px solid #0072b2!important;outline-offset:2px;box-shadow:0 0 0 2px #fff!important}
</style>"""


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
    lines += [f"flow {view.flow}: {view.state}, {_behind(view)}" for view in state.flows]
    lines += [f"topic {t.topic} ({t.flow}): {_lag(t)}" for t in state.topics[:ROWS]]
    lines += _more(len(state.topics), "topic")
    groups = _groups(state)
    lines += [f"group {name} ({flow}): {said}, lag {lag}" for flow, name, said, lag in groups[:ROWS]]
    lines += _more(len(groups), "group")
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


# -- HTML --------------------------------------------------------------------------------------------------------------


def html_of(state: ConsoleState) -> str:
    """The same as a page's part, without scripts."""
    parts = [
        STYLE,
        '<div class="drlib-console" role="region" aria-label="Console">',
        "" if state.banner is None else state.banner.html(),
        f'<div class="row"><b>{escape(_headline(state))}</b>'
        f'<span class="dim">{formats.clock(state.at_ms)[:8]} UTC</span></div>',
        *(f"<p>{escape(line)}</p>" for line in state.first),
        *_topology(state),
        *(f"<p>{_chip('?', 'could not be read', ODD)} {escape(why)}</p>" for why in state.unseen),
        *_events(state),
        '<div class="cols">',
        _table(
            "Lag by topic",
            ("flow", "topic", "#partitions", "#records behind", "#oldest"),
            _lag_rows(state),
            "nothing mirrored yet",
        ),
        _table("If you failed over now", ("flow", "group", "positions", "#lag"), _groups(state), _no_groups(state)),
        "</div>",
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
            f'<div class="row" role="group" aria-label="{escape(f"flow {view.flow}: {view.state}, {_behind(view)}")}">'
            f"{_box(source, by_alias.get(source))}"
            f'<div class="arrow">{_chip(mark, view.state, look)}<br>{escape(_behind(view))}'
            f'<br><span class="dim">{escape(_workers(view))}</span></div>'
            f"{_box(target, by_alias.get(target))}</div>"
        )
    others = [cluster for cluster in state.clusters if cluster.alias not in drawn]
    if others:
        yield f'<div class="row">{"".join(_box(cluster.alias, cluster) for cluster in others)}</div>'


def _box(alias: str, cluster: ClusterSeen | None) -> str:
    if cluster is None:
        return f'<div class="box"><b>{escape(alias)}</b><br>{_chip("?", formats.UNKNOWN, ODD)}</div>'
    mark, look = {True: ("✓", GOOD), False: ("✗", BAD), None: ("?", ODD)}[cluster.well]
    link = f'<br><span class="dim">link {escape(cluster.link.removeprefix("link "))}</span>' if cluster.link else ""
    link += f"<br>{_chip('▲', cluster.clock, WARN)}" if cluster.clock else ""
    detail = f' title="{escape(cluster.detail)}"' if cluster.detail else ""
    return f'<div class="box"{detail}><b>{escape(alias)}</b><br>{_chip(mark, cluster.word, look)}{link}</div>'


def _chip(mark: str, word: str, look: str) -> str:
    return f'<span class="chip {look}"><span aria-hidden="true">{mark}</span> {escape(word)}</span>'


def _events(state: ConsoleState) -> Iterator[str]:
    for event in state.open_events:
        where = f"<b>{escape(event.name)}</b> {escape(subject(event))}{_since(event)}"
        remedy = f'<span class="dim">{escape(event.remedy)}</span>'
        yield f"<p>{_chip('▲', 'open', BAD)} {where}: {escape(event.detail)}. {remedy}</p>"
    for event in state.resolved_events[:RESOLVED]:
        yield f'<p class="dim">{_chip("✓", "resolved", GOOD)} {escape(event.name)} {escape(subject(event))}</p>'


def _since(event: Event) -> str:
    return f" since {formats.clock(event.opened_ms)[:8]}" if event.opened_ms else ""


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], none: str) -> str:
    """A column that begins with # is of numbers."""
    if not rows:
        return f'<p><b>{escape(title)}</b>: <span class="dim">{escape(none)}</span></p>'
    heads = "".join(
        f'<th scope="col"{" class=n" if c.startswith("#") else ""}>{escape(c.lstrip("#"))}</th>' for c in columns
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=n' if c.startswith('#') else ''}>{escape(v)}</td>" for c, v in zip(columns, row, strict=True)
        )
        + "</tr>"
        for row in rows[:ROWS]
    )
    rest = "".join(f'<p class="dim">{escape(line)}</p>' for line in _more(len(rows), "row"))
    return (
        f"<div><table><caption>{escape(title)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table>{rest}</div>"
    )


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
        f'<div class="row"><b>Drill {escape(drill.name)}</b> {_chip(mark, drill.word, look)} '
        f'<span class="dim">{escape(drill.mode)}, {escape(drill.flow)}, {done} of {len(drill.steps)} steps, '
        f"{escape(drill.folder.name)}</span></div>"
    )
    if drill.note:
        yield f"<p>{escape(drill.note)}</p>"
    rows = [
        (f"{MARKS[s.stand]} {s.stand.value}", s.title, "" if s.seconds is None else f"{s.seconds:.1f} s")
        for s in _near(drill)
    ]
    yield _table("Current steps", ("state", "step", "#took"), rows, "none")


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


def _more(count: int, what: str) -> list[str]:
    return [f"and {count - ROWS} {what}s more"] if count > ROWS else []


# -- plotly ------------------------------------------------------------------------------------------------------------


def figure_of(state: ConsoleState) -> go.Figure:
    """Records behind by topic, each bar labelled; the state of the flows is above."""
    title = "; ".join(f"{view.flow} {view.state}" for view in state.flows) or "No flow is known"
    known = [lag for lag in state.topics if lag.records is not None][:ROWS]
    if not known:
        why = "; ".join(state.unseen) or "No lag is known."
        return empty(escape(title), escape(why))
    unknown = len(state.topics) - len([lag for lag in state.topics if lag.records is not None])
    figure = blank(escape(title) + (f" ({unknown} topics unknown)" if unknown else ""), height=0)
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
        textfont={"size": 13, "color": INK},
        hovertemplate="%{y}: %{x:,} records<extra></extra>",
    )
    figure.update_layout(height=130 + 34 * len(known), margin={"t": 60, "l": 16, "r": 16})
    figure.update_xaxes(range=[0, most * 2.2], title="records behind", rangemode="tozero", tickformat=",d")
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure
