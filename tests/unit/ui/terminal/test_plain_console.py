"""No console of drlib takes names and messages from outside for markup, and no output passes their control characters on."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from hostile_text import HOSTILE
from rich.color import ColorSystem
from rich.console import RenderableType
from rich.control import Control
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from sample_flow import NOW, partition, survey, worker

from drlib.mirror.monitor.flow_view import overview
from drlib.mirror.monitor.survey import GroupStatus
from drlib.mirror.status.worker_status import Event
from drlib.ui.terminal.plain_console import plain_console
from drlib.ui.terminal.status import render_status


def status_of_event(text: str) -> RenderableType:
    event = Event("Parked", text, text, NOW - 9000, remedy=text, flow="LEFT->RIGHT")
    return render_status([overview(survey(), [worker(event)], NOW)])


def status_of_topic(text: str) -> RenderableType:
    return render_status([overview(survey(partitions=(replace(partition(0, 1, 9), topic=text),)), [], NOW)])


def status_of_group(text: str) -> RenderableType:
    return render_status([overview(survey(groups=(GroupStatus(text, 6, 12, 5, 1, 0, 7),)), [], NOW)])


def status_of_refusal(text: str) -> RenderableType:
    return render_status([overview(survey(source_error=text, events=status_events(text)), [], NOW)])


def status_events(text: str) -> tuple[Event, ...]:
    return (Event("SourceUnreachable", "LEFT->RIGHT", text, 0, flow="LEFT->RIGHT"),)


@pytest.mark.parametrize("render", [status_of_event, status_of_topic, status_of_group, status_of_refusal])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_status_of_names_from_outside_has_no_control_character(
    text: str, render: Callable[[str], RenderableType]
) -> None:
    out = io.StringIO()
    plain_console(file=out, width=300).print(render(text))
    assert all(line.isprintable() for line in out.getvalue().split("\n"))


@pytest.mark.parametrize("name", ["foo[/red]", "[bold]foo", "[link=x]y[/link]", ":warning:"])
def test_plain_console_prints_markup_as_it_is(name: str) -> None:
    table = Table()
    table.add_column(name)
    table.add_row(name)
    out = io.StringIO()
    console = plain_console(file=out, width=80)
    console.print(name)
    console.print(table)
    assert out.getvalue().count(name) == 3


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_plain_console_escapes_control_characters_in_whatever_it_prints(text: str) -> None:
    table = Table(text, title=text, caption=text)
    table.add_row(text)
    out = io.StringIO()
    console = plain_console(file=out, width=300)
    with console.status(Text(text)):
        for renderable in (text, Text(text), Text.assemble((text, "")), table, Panel(text, title=Text(text))):
            console.print(renderable)
    assert all(line.isprintable() for line in out.getvalue().split("\n"))


def test_plain_console_on_a_terminal_keeps_styles_and_moves_the_cursor_itself() -> None:
    out = io.StringIO()
    console = plain_console(file=out, width=80)
    console._force_terminal, console._color_system = True, ColorSystem.STANDARD
    console.print(Text("\x1b[2Jname", style="red"))
    console.control(Control.home())
    assert out.getvalue() == "\x1b[31m\\x1b[2Jname\x1b[0m\n\x1b[H"
