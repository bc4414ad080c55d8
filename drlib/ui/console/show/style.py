"""The console's colours, chips, tables and answers.

Rules: everything is escaped; a mark and a word, which the colour only repeats; a shortened table says how much it leaves out.
Nothing sticks out from 360 pixels on. The page is drawn again each second, so nothing in it takes the focus.
"""

from collections.abc import Sequence
from typing import Final

from drlib.errors import DrlibError
from drlib.formats import html_text

ROWS: Final = 10  # of topics and of groups
# Classes: 4.5:1 on their tints, in JupyterLab's light and dark themes.
GOOD, WARN, BAD, ODD = "good", "warn", "bad", "odd"
STYLE: Final = """<style>
.drlib-console,.drlib-console-widget{--ink:#1f2933;--dim:#52606d;--paper:#fff;--edge:#c3ccd5;--line:#52606d;--rule:#e3e8ee;
 --good:#00573f;--good-tint:#e3f4ee;--warn:#7a4b00;--warn-tint:#fdf1d8;--bad:#a02800;--bad-tint:#fde8e0;--odd:#5b3a8c;
 --odd-tint:#f0eaf8}
[data-jp-theme-light="false"] .drlib-console,[data-jp-theme-light="false"] .drlib-console-widget{--ink:#e8edf2;--dim:#b3bdc7;
 --paper:#15191e;--edge:#4d5965;--line:#9aa5b1;--rule:#333d47;--good:#83dcb8;--good-tint:#10352a;--warn:#f2c879;
 --warn-tint:#3d2c0a;--bad:#ffab8c;--bad-tint:#4a1d0d;--odd:#d3bdf7;--odd-tint:#302349}
.drlib-console{font:13px/1.45 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--ink);background:var(--paper);
 border:1px solid var(--edge);border-radius:6px;padding:10px 14px;max-width:1280px;box-sizing:border-box;
 container-type:inline-size}
.drlib-console,.drlib-console-widget{overflow-wrap:anywhere}
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
.drlib-console .matrix{min-width:min(100%,46em)}
.drlib-console caption{text-align:left;font-weight:600;padding:2px 0;caption-side:top}
.drlib-console th,.drlib-console td{padding:2px 14px 2px 0;text-align:left;border-bottom:1px solid var(--rule);
 vertical-align:top;background:none;color:var(--ink)}
.drlib-console td,.drlib-console tbody th{overflow-wrap:anywhere;min-width:3em}
.drlib-console .n{white-space:nowrap;text-align:right;font-variant-numeric:tabular-nums}
.drlib-console .dim{color:var(--dim)}
.drlib-console p{margin:4px 0}
.drlib-console-confirm [role=alert],.drlib-console-said [role]{max-width:900px;line-height:1.45;white-space:pre-line}
.drlib-console-said .wrong{color:var(--bad)}
.drlib-console-widget>*{max-width:100%;box-sizing:border-box}
@container (max-width:620px){
.drlib-console .box{flex:1}.drlib-console .arrow{order:3;flex-basis:100%;max-width:none;border-bottom:0}
.drlib-console .arrow:after{display:none}
.drlib-console .lists,.drlib-console .lists tbody,.drlib-console .lists tr,.drlib-console .lists th,
.drlib-console .lists td,.drlib-console .lists caption{display:block}
.drlib-console .lists td{padding:0;border:0;text-align:left;white-space:normal}
.drlib-console .lists tr{padding:3px 0;border-bottom:1px solid var(--rule)}.drlib-console .lists tbody th{border:0;padding:0}
.drlib-console .lists thead{display:none}.drlib-console .lists td:before{content:attr(data-of) ": ";color:var(--dim)}}
</style>"""
FOCUS: Final = """<style>
.drlib-console-widget button:focus-visible,.drlib-console-widget input:focus-visible,.drlib-console-widget select:focus-visible{
 outline:3px solid #0072b2!important;outline-offset:2px;box-shadow:0 0 0 2px #fff!important}
.drlib-board-said{white-space:normal!important;height:auto!important}
</style>"""


def chip(mark: str, word: str, look: str) -> str:
    return f'<span class="chip {look}"><span aria-hidden="true">{mark}</span> {html_text(word)}</span>'


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    none: str,
    *,
    most: int = ROWS,
    wide: bool = False,
) -> str:
    """A column that begins with # is of numbers. `most` rows are shown; `wide`: in a narrow place each row is a list."""
    if not rows:
        return f'<p><b>{html_text(title)}</b>: <span class="dim">{html_text(none)}</span></p>'
    heads = "".join(
        f'<th scope="col"{" class=n" if c.startswith("#") else ""}>{html_text(c.lstrip("#"))}</th>' for c in columns
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-of="{html_text(c.lstrip("#"))}"{" class=n" if c.startswith("#") else ""}>{html_text(v)}</td>'
            for c, v in zip(columns, row, strict=True)
        )
        + "</tr>"
        for row in rows[:most]
    )
    rest = "".join(f'<p class="dim">{html_text(line)}</p>' for line in more(len(rows), "row", most))
    return (
        f"<div><table{' class=lists' if wide else ''}><caption>{html_text(title)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table>{rest}</div>"
    )


def more(count: int, what: str, most: int = ROWS) -> list[str]:
    return [f"and {count - most} {what}s more"] if count > most else []


def note(text: str) -> str:
    """An answer under a widget's controls, as screen readers announce it."""
    return f'<div role="status" aria-live="polite">{html_text(text)}</div>'


def wrong(error: BaseException) -> str:
    """What, why and what to do; an internal error by its kind."""
    if isinstance(error, DrlibError):
        parts = f"<b>{html_text(error.what)}</b>: {html_text(error.why)}. {html_text(error.remedy)}"
    else:
        parts = (
            f"<b>{html_text(type(error).__name__)}</b>: {html_text(str(error))}. What it had changed until then is not undone: "
            "see the picture above, then try it again."
        )
    return f'<div role="alert" class="wrong"><span aria-hidden="true">▲</span> {parts}</div>'
