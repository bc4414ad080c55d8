"""The style sheet of figures in the dark theme: which colours it changes, and that they can be read."""

from __future__ import annotations

import re

import pytest
from repository_root import ROOT

from drlib.ui.figures import dark, figures

GROUND = "#111111"  # JupyterLab's dark page, and almost that of the report
REPORT = (ROOT / "drlib" / "ui" / "report" / "templates" / "draw.js").read_text()


def luminance(colour: str) -> float:
    parts = [int(part, 16) / 255 for part in re.findall("..", colour.removeprefix("#"))]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", figures.TEXT_COLOURS)
def test_text_in_the_dark_theme_can_be_read(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 4.5
    assert contrast(dark.DARK[colour], GROUND) >= 4.5


@pytest.mark.parametrize(
    "colour",
    [figures.ORANGE, figures.SKY, figures.GREEN, figures.BLUE, figures.VERMILLION, figures.PURPLE, figures.YELLOW],
)
def test_colours_of_lines_and_bars_are_visible_in_the_dark_theme_and_stay(colour: str) -> None:
    assert colour not in dark.DARK
    assert contrast(colour, GROUND) >= 3.0


def test_colours_of_the_dark_theme_are_those_of_the_dark_report() -> None:
    assert dark.DARK.keys() >= {*figures.TEXT_COLOURS, figures.GRID, dark.WHITE}
    changed = {light: colour for light, colour in dark.DARK.items() if light != dark.WHITE}
    assert [
        f'"{light}": "{colour}"' for light, colour in changed.items() if f'"{light}": "{colour}"' not in REPORT
    ] == []


def test_style_sheet_is_for_figures_with_our_title_in_the_dark_theme_alone() -> None:
    assert figures.blank("A title", height=0).layout.font.color == dark.INK
    rules = dark.style_sheet().splitlines()
    assert len(rules) == 2 * len(dark.DARK) + 1
    assert all(rule.startswith('body[data-jp-theme-light="false"] .js-plotly-plot:has(.gtitle') for rule in rules)
    assert any('"fill: rgb(31, 41, 51)"' in rule and rule.endswith("{ fill: #e6edf3 !important; }") for rule in rules)
