"""What crosses the process boundary goes through the one function of its sink or input: docs/security.md has the table.

Each test reads the sources, so that new code cannot go around the function; what the function does is tested with its module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from repository_root import ROOT, parsed

PACKAGE = ROOT / "drlib"
DIRECTIVE = re.compile(
    r"^(\[(Unit|Service|Timer|Install)\]|(ExecStart|OnCalendar|CRON_TZ)=)|^from airflow ", re.MULTILINE
)


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


@cache
def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def calls(path: Path, names: set[str]) -> Iterator[ast.Call]:
    """Calls of a function or method that has one of `names`."""
    for node in nodes(path):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in names:
                yield node


def calls_outside(names: set[str], *allowed: str) -> list[str]:
    """Calls in modules that are not `allowed`, each of which has one: an entry without a reason is a fault, too."""
    found = {path: [where(path, call) for call in calls(path, names)] for path in sources()}
    assert [name for name in allowed if not found[ROOT / name]] == []
    return [place for path, places in found.items() if str(path.relative_to(ROOT)) not in allowed for place in places]


def templates(path: Path) -> dict[str, ast.Constant]:
    """Constants of the module that are service files, by name."""
    return {
        target.id: node.value
        for node in nodes(path)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and isinstance(node.value.value, str) and DIRECTIVE.search(node.value.value)
    }


def test_text_in_a_service_file_is_made_by_its_escaping_functions_only() -> None:
    """With mypy: `fill` takes `Escaped` values, and only `drlib.outgoing.service_files` makes these."""
    assert calls_outside({"Escaped"}, "drlib/outgoing/service_files.py") == []


def test_service_file_is_a_constant_that_only_fill_takes() -> None:
    found = {path: templates(path) for path in sources()}
    assert {"CRONTAB", "SYSTEMD", "AIRFLOW", "UNIT"} <= {name for names in found.values() for name in names}
    outside = []
    for path, constants in found.items():
        filled = {id(call.args[0]) for call in calls(path, {"fill"}) if call.args}
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and DIRECTIVE.search(node.value):
                outside += [] if node in constants.values() else [where(path, node)]
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in constants:
                outside += [] if id(node) in filled else [where(path, node)]
    assert outside == []


def test_patterns_of_files_are_compiled_by_one_package_only() -> None:
    importing = {
        path.relative_to(ROOT).parent.as_posix()
        for path in sources()
        for node in nodes(path)
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "regex" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "regex")
    }
    assert importing == {"drlib/config/patterns"}


def test_patterns_of_the_standard_library_are_constants_of_the_sources() -> None:
    """A value that could be a file's or an argument's has no time limit there."""
    functions = {"compile", "match", "fullmatch", "search", "split", "sub", "subn", "findall", "finditer"}
    outside = [
        where(path, call)
        for path in sources()
        if path.parent != PACKAGE / "config" / "patterns"
        for call in calls(path, functions)
        if isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "re"
        and not all(
            isinstance(node, ast.Constant | ast.JoinedStr | ast.FormattedValue | ast.Load)
            or (isinstance(node, ast.Name) and node.id.isupper())
            for node in ast.walk(call.args[0])
        )
    ]
    assert outside == []


def test_rich_consoles_are_made_without_markup_in_one_place() -> None:
    """A name such as `foo[/red]` is no markup in any of them; `drlib/ui/console` has a class of the same name."""
    assert calls_outside({"Console"}, "drlib/ui/console/open.py") == []
    bases = {
        path.relative_to(ROOT).as_posix()
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Console") for base in node.bases)
    }
    assert bases == {"drlib/ui/terminal/plain_console.py"}
    markup = [
        where(path, call)
        for path in sources()
        for call in calls(path, {"TextColumn", "from_markup", "render_str"})
        if "markup=False" not in ast.unparse(call)
    ]
    assert markup == []


def test_standard_output_and_error_are_written_in_one_place() -> None:
    """Beside rich consoles, whose texts are escaped as well, and the lines of a worker's log."""
    terminal, log = "drlib/outgoing/terminal.py", "drlib/cli/log/setup.py"
    streams = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
    writing = {
        path.relative_to(ROOT).as_posix()
        for path in sources()
        for node in nodes(path)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in streams)
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "print")
    }
    assert writing == {terminal, log}
    assert calls_outside({"echo", "secho"}) == []


# Values in HTML that are no call of `html_text`: HTML that was made in the same way, numbers, and words of the sources.
TAG = re.compile(r"<[a-zA-Z/!]")
HTML = {
    "drlib/lab/environment.py": {"self.word", "self.word.capitalize()", "style"},
    "drlib/runs/table.py": {
        "NOWRAP", "_data(formats.cell(row.get(c)), side)", "body", "heads", "note", "side",
        "title", "whole",
    },
    "drlib/ui/console/board.py": {
        "FOCUS", "MARKS[s.stand]", "_STYLE", "note", "rows", "self.state.banner.html()", "steps", "waits",
    },
    "drlib/ui/console/picture.py": {
        "_age_chip(view, state.at_ms)", "_box(cluster.alias, cluster)", "_box(source, by_alias.get(source))",
        "_box(target, by_alias.get(target))", "_since(event)", "chip('?', 'could not be read', ODD)",
        "chip('?', formats.UNKNOWN, ODD)", "chip('▲', 'open', BAD)", "chip('▲', 'stays', WARN)", "chip('▲', age, WARN)",
        "chip('▲', cluster.clock, WARN)", "chip('✓', 'resolved', GOOD)", "chip(mark, cluster.word, look)",
        "chip(mark, drill.word, look)", "chip(mark, view.state, look)", "detail", "done", "formats.clock(state.at_ms)[:8]",
        "len(drill.steps)", "link", "remedy", "where",
    },
    "drlib/ui/console/show/applications.py": {"chip('?', 'not known', ODD)", "chip('▲', 'left behind', WARN)"},
    "drlib/ui/console/show/matrix.py": {"heads", "rows"},
    "drlib/ui/console/show/records.py": {"inner", "name"},
    "drlib/ui/console/show/style.py": {"body", "heads", "look", "mark", "parts", "rest"},
}  # fmt: skip
# What looks like HTML in these is none: patterns, and labels of figures, which `formats.figure_texts` goes through.
NO_HTML = (
    "drlib/config/patterns/", "drlib/outgoing/credentials.py", "drlib/ui/figures/", "drlib/ui/sizing/",
    "drlib/training/academy/pictures.py", "drlib/training/incidents/reveal_figure.py",
)  # fmt: skip


def unescaped(value: ast.expr) -> Iterator[str]:
    """What of a value in HTML is neither escaped nor a constant."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "html_text":
        return
    if isinstance(value, ast.IfExp):
        yield from (*unescaped(value.body), *unescaped(value.orelse))
    elif isinstance(value, ast.JoinedStr):
        for part in value.values:
            if isinstance(part, ast.FormattedValue):
                yield from unescaped(part.value)
    elif isinstance(value, ast.Call) and ast.unparse(value.func) == "''.join":
        (joined,) = value.args
        yield from unescaped(joined.elt if isinstance(joined, ast.GeneratorExp | ast.ListComp) else joined)
    elif not isinstance(value, ast.Constant):
        yield ast.unparse(value)


def html_values(path: Path) -> set[str]:
    return {
        found
        for node in nodes(path)
        if isinstance(node, ast.JoinedStr)
        and any(isinstance(part, ast.Constant) and TAG.search(str(part.value)) for part in node.values)
        for found in unescaped(node)
    }


def test_values_in_html_are_escaped() -> None:
    """Reports are made by templates that escape everything; a new value elsewhere is escaped, or named above."""
    found = {path.relative_to(ROOT).as_posix(): html_values(path) for path in sources()}
    assert {path: values for path, values in found.items() if values and not path.startswith(NO_HTML)} == HTML
    concatenated = [
        where(path, node)
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.BinOp | ast.Call)
        and (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod))
        for side in (node.left, node.right)
        if isinstance(side, ast.Constant)
        and isinstance(side.value, str)
        and re.search(r"</?[a-z]+[ >]", side.value)
        and side.value not in ("<tr>", "</tr>")
    ]
    assert concatenated == []


def test_templates_escape_and_nothing_is_called_safe() -> None:
    (environment,) = [call for path in sources() for call in calls(path, {"Environment"})]
    assert {word.arg: ast.unparse(word.value) for word in environment.keywords}["autoescape"] == "True"
    assert calls_outside({"Markup"}, "drlib/ui/report/page.py", "drlib/ui/report/notebook_cells.py") == []
    texts = [path.read_text() for path in PACKAGE.rglob("*.j2")]
    assert len(texts) == 2
    assert not [text for text in texts if re.search(r"\|\s*safe|autoescape", text)]
    shown = (
        "drlib/ui/console/widget.py",
        "drlib/ui/console/show/browser.py",
        "drlib/training/incidents/live/replay.py",
        "drlib/training/incidents/live/widget.py",
    )
    assert calls_outside({"HTML"}, *shown) == []


def test_figures_are_shown_and_written_in_two_places() -> None:
    """Both go through `formats.figure_texts`."""
    assert calls_outside({"to_json"}, "drlib/runs/table.py", "drlib/ui/report/page.py") == []
    assert calls_outside({"figure_texts"}, "drlib/runs/table.py", "drlib/ui/report/page.py", "drlib/formats.py") == []
    assert calls_outside({"FigureWidget", "to_html", "write_html", "to_plotly_json"}) == []


def test_metrics_are_written_by_prometheus_own_library() -> None:
    importing = {
        path.relative_to(ROOT).as_posix()
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "prometheus_client" in (getattr(node, "module", None) or ",".join(a.name for a in node.names))
    }
    status = "drlib/mirror/status"
    others = {"drlib/client/bootstrap/metrics.py", "drlib/drill/readiness/metrics.py"}
    assert importing == {f"{status}/endpoint.py", f"{status}/metrics.py", *others}
    assert calls_outside({"generate_latest"}, "drlib/mirror/status/endpoint.py") == []
