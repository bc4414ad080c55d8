"""Records a program in a terminal as an SVG picture that plays: what tmux shows, screen by screen, as text.

Rules: a screen is kept when it differs from the one before, and `SHORTEST_S` after the one that was kept; waits of more than
`LONGEST_S` are played as that long, and the last screen stays for `LAST_S` before it begins again. Viewers that asked for less
motion see the last screen only. The picture loads nothing and has no script. Needs tmux.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from rich.color import Color
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, TerminalTheme
from rich.text import Text

LONGEST_S: Final = 1.5
SHORTEST_S: Final = 0.5
LAST_S: Final = 8.0
_EVERY_S: Final = 0.15
_WIDE, _HIGH, _MARGIN = 8.43, 18.0, 12.0  # of a letter of 14 px, and around them
_THEME: Final[TerminalTheme] = DEFAULT_TERMINAL_THEME


@dataclass(frozen=True)
class Screen:
    """What was to be seen from `at_s` on, with escape sequences of colors."""

    at_s: float
    lines: tuple[str, ...]


class Terminal:
    """A terminal that is recorded from its start."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()
        self.screens: list[Screen] = []

    def type(self, text: str) -> None:
        """Type it, and Enter."""
        self._tmux("send-keys", "-t", self._name, "-l", text)
        self.look_until(lambda shown: text[-20:] in shown, 5)
        self._tmux("send-keys", "-t", self._name, "Enter")

    def look_until(self, holds: Callable[[str], bool], deadline_s: float) -> None:
        """Record until what is shown fits. Raises `TimeoutError`."""
        end = time.monotonic() + deadline_s
        while True:
            shown = self._look()
            if holds(shown):
                return
            if time.monotonic() > end:
                raise TimeoutError(f"not shown within {deadline_s:g} s; instead:\n{shown}")
            time.sleep(_EVERY_S)

    def _look(self) -> str:
        lines = tuple(self._tmux("capture-pane", "-p", "-e", "-t", self._name).rstrip("\n").split("\n"))
        if not self.screens or self.screens[-1].lines != lines:
            self.screens.append(Screen(time.monotonic() - self._began, lines))
        return "\n".join(Text.from_ansi(line).plain for line in lines)

    @staticmethod
    def _tmux(*arguments: str) -> str:
        return subprocess.run(["tmux", *arguments], check=True, capture_output=True, text=True).stdout


@contextmanager
def terminal(folder: Path, *, columns: int = 100, rows: int = 34) -> Iterator[Terminal]:
    """A shell in tmux, with a prompt of one sign."""
    name = f"drlib-{secrets.token_hex(4)}"
    path = shlex.quote(f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    shell = f"cd {shlex.quote(str(folder))} && PATH={path} PS1='$ ' exec bash --norc --noprofile"
    size = ["-x", str(columns), "-y", str(rows)]
    subprocess.run(["tmux", "new-session", "-d", "-s", name, *size, shell], check=True)
    try:
        yield Terminal(name)
    finally:
        subprocess.run(["tmux", "kill-session", "-t", name], check=False)


def as_svg(screens: Sequence[Screen], *, columns: int = 100, rows: int = 34) -> str:
    """The picture. Each screen is a group that is visible for its part of the whole time."""
    return picture([(screen.at_s, _drawn(screen)) for screen in thinned(screens)], columns=columns, rows=rows)


def thinned(screens: Sequence[Screen]) -> list[Screen]:
    """Without those that the next one replaced within `SHORTEST_S`, such as each turn of a clock; the last one stays."""
    kept: list[Screen] = []
    for screen, after in itertools.pairwise(screens):
        if after.at_s - (kept[-1].at_s if kept else screens[0].at_s) >= SHORTEST_S:
            kept.append(screen)
    return [*kept, screens[-1]]


def picture(screens: Sequence[tuple[float, Sequence[str]]], *, columns: int = 100, rows: int = 34) -> str:
    """The same of screens that are drawn: when each was seen (s), and its rows. A row that several have is in it once."""
    shown = [min(b - a, LONGEST_S) for (a, _), (b, _) in itertools.pairwise(screens)] + [LAST_S]
    whole = sum(shown)
    wide, high = columns * _WIDE + 2 * _MARGIN, rows * _HIGH + 2 * _MARGIN
    rules, groups = [], []
    names: dict[str, str] = {}
    begin = 0.0
    for number, ((_, drawn), seconds) in enumerate(zip(screens, shown, strict=True)):
        first, last = 100 * begin / whole, 100 * (begin + seconds) / whole
        steps = f"0%{{visibility:hidden}}{first:.3f}%{{visibility:visible}}{last:.3f}%,100%{{visibility:hidden}}"
        if number == 0:
            steps = f"0%{{visibility:visible}}{last:.3f}%,100%{{visibility:hidden}}"
        if number == len(screens) - 1:
            steps = f"0%{{visibility:hidden}}{first:.3f}%,100%{{visibility:visible}}"
        rules.append(f"@keyframes s{number}{{{steps}}}#s{number}{{animation:s{number} {whole:.2f}s step-end infinite}}")
        uses = "".join(f'<use href="#{names.setdefault(row, f"r{len(names)}")}"/>' for row in drawn)
        groups.append(f'<g id="s{number}" class="s">{uses}</g>')
        begin += seconds
    still = f"@media(prefers-reduced-motion:reduce){{.s{{animation:none!important}}#s{len(screens) - 1}{{visibility:visible}}}}"
    style = "text{font:14px Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}.s{visibility:hidden}"
    defined = "".join(row.replace("<text ", f'<text id="{name}" ', 1) for row, name in names.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" role="img" '
        f'aria-label="A recording of a terminal"><style>{style}{"".join(rules)}{still}</style><defs>{defined}</defs>'
        f'<rect width="100%" height="100%" rx="8" fill="#ffffff" stroke="#d0d0d0"/>{"".join(groups)}</svg>\n'
    )


def _drawn(screen: Screen) -> list[str]:
    console = Console(width=1000, color_system="truecolor", force_terminal=True)
    drawn = []
    for row, line in enumerate(screen.lines):
        text = Text.from_ansi(line.rstrip())
        if not text.plain:
            continue
        spans, column = [], 0
        for segment in text.render(console):
            if segment.text.strip():
                look = segment.style
                # A banner is drawn in the colour of its background: the picture's own is white.
                color = None if look is None else look.bgcolor or look.color
                css = "" if color is None else f' fill="{_hex(color)}"'
                css += ' font-weight="bold"' if look is not None and look.bold else ""
                css += ' fill-opacity=".65"' if look is not None and look.dim else ""
                spans.append(f'<tspan x="{_MARGIN + column * _WIDE:.1f}"{css}>{escape(segment.text)}</tspan>')
            column += len(segment.text)
        drawn.append(f'<text y="{_MARGIN + (row + 0.8) * _HIGH:.1f}">{"".join(spans)}</text>')
    return drawn


def _hex(color: Color) -> str:
    red, green, blue = color.get_truecolor(_THEME)
    return f"#{red:02x}{green:02x}{blue:02x}"
