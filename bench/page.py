"""The results as one HTML page that needs no network.

Rules: every number on it is a row of the results; bars are medians, whiskers the smallest and largest run; text is
escaped by the template. Not for: deciding anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import jinja2
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from bench.goals import judge
from bench.results import METRICS, Results, value
from bench.table import cell, engines_of, metrics_of, outcome, problems, quietness, word
from bench.workloads import WORKLOADS

_COLOURS: Final = {
    "drlib": "#0b6e4f",
    "drlib-2": "#5aa786",
    "mm2": "#b0b0b0",
    "mm2-tuned": "#e07a1f",
    "mm2-tuned-1": "#f2b880",
    "floor": "#4a6fa5",
}
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>drlib: benchmark results</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}.reached{color:#0b6e4f}.missed{color:#b3261e}.quiet{color:#666}</style>
<h1>Benchmark results</h1>
<p>{{ m.cores }} cores ({{ m.cpu }}), {{ m.memory_gb }} GB, Python {{ m.python }}, Java {{ m.java }}, Kafka and MirrorMaker 2
{{ m.kafka }}, drlib {{ m.commit }}. Bars are medians; whiskers reach from the smallest to the largest run.</p>
<h2>Goals</h2><table><tr><th>workload<th>goal<th>found<th></tr>
{% for v in verdicts %}<tr><td>{{ v.goal.workload }}<td>{{ v.goal.text }}<td>{{ outcome(v) }}
<td class="{{ word(v) }}">{{ word(v) }}</tr>{% endfor %}</table>
{% for w in workloads %}<h2>({{ w.name }}) {{ w.title }}</h2><p>{{ w.size }}</p><div id="chart-{{ loop.index }}"></div>
<table><tr><th>{% for e in w.engines %}<th>{{ e }}{% endfor %}</tr>
{% for label, cells in w.lines %}<tr><td>{{ label }}{% for c in cells %}<td>{{ c }}{% endfor %}</tr>{% endfor %}</table>
<p class="quiet">{{ w.quiet }}</p>{% for p in w.problems %}<p class="missed">{{ p }}</p>{% endfor %}{% endfor %}
<script>{{ plotly }}</script><script>
{% for w in workloads %}{const f={{ w.figure }};Plotly.newPlot("chart-{{ loop.index }}",f.data,f.layout,
{displayModeBar:false,responsive:true});}{% endfor %}</script></html>
"""


def write(path: Path, results: Results) -> None:
    """Write the page to `path`."""
    from markupsafe import Markup

    rows = results.rows()
    shown = []
    for workload in dict.fromkeys(run.workload for run in results.runs):
        engines = engines_of(rows, workload)
        lines = [
            (f"{metric}, {METRICS[metric][0]}", [cell(value(rows, workload, e, metric)) for e in engines])
            for metric in metrics_of(rows, workload)
        ]
        shown.append(
            {
                "name": workload,
                "title": WORKLOADS[workload].title if workload in WORKLOADS else "",
                "size": results.sizes.get(workload, ""),
                "engines": engines,
                "lines": lines,
                "quiet": quietness(results.runs, workload),
                "problems": problems(results.runs, workload),
                # JSON inside a script element: "</" would end it early.
                "figure": Markup((figure(results, workload).to_json() or "").replace("</", "<\\/")),
            }
        )
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(_PAGE).render(
        m=results.machine,
        verdicts=judge(rows),
        outcome=outcome,
        word=word,
        workloads=shown,
        plotly=Markup(get_plotlyjs()),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def figure(results: Results, workload: str) -> go.Figure:
    """One small bar chart per metric, side by side, engines in fixed colours."""
    from plotly.subplots import make_subplots

    rows = results.rows()
    metrics = metrics_of(rows, workload)
    titles = [f"{metric}<br>{METRICS[metric][0]}" for metric in metrics]
    drawn = make_subplots(rows=1, cols=max(1, len(metrics)), subplot_titles=titles, horizontal_spacing=0.05)
    for column, metric in enumerate(metrics, start=1):
        there = [row for row in rows if row.workload == workload and row.metric == metric]
        drawn.add_trace(
            go.Bar(
                x=[row.engine for row in there],
                y=[row.median for row in there],
                marker_color=[_COLOURS.get(row.engine, "#888888") for row in there],
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": [row.max - row.median for row in there],
                    "arrayminus": [row.median - row.min for row in there],
                },
                showlegend=False,
            ),
            row=1,
            col=column,
        )
    return drawn.update_layout(template="plotly_white", height=300, margin={"l": 40, "r": 10, "t": 60, "b": 40})
