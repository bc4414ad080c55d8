"""The colours of figures in JupyterLab's dark theme, as a style sheet.

Rules: a figure is made once, for a light page, and is readable on its own white paper wherever it is shown. JupyterLab as
`drlib notebook` starts it gets this style sheet, so that figures follow its theme, also while it is changed; of a notebook
that is opened again JupyterLab first shows the picture that it saved, which is light. Only drlib's figures are changed, known
by the ink of their titles; text on coloured bars stays as it is, and so are the colours of lines and bars, which are visible
on both. The others are those of the report's dark form (`drlib/ui/report/templates/draw.js`); the ground is the page's.
Not for: making figures, which import plotly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

INK: Final = "#1f2933"  # of every figure's title
WHITE: Final = "#ffffff"
DARK: Final[Mapping[str, str]] = MappingProxyType(
    {
        INK: "#e6edf3",
        "#52606d": "#aab7c4",
        "#e3e8ee": "#30363d",
        "#d5dce4": "#45505c",
        WHITE: "var(--jp-layout-color0)",
    }
)
_KEPT: Final = ":not(.bartext-inside, .heatmap-label *, .hoverlayer *, .modebar *)"


def style_sheet() -> str:
    """Rules for plotly's figures, by the colours that it writes into their elements."""
    figure = f'body[data-jp-theme-light="false"] .js-plotly-plot:has(.gtitle[style*="fill: {_rgb(INK)}"])'
    rules = []
    for light, dark in DARK.items():
        for name in ("fill", "stroke"):
            # plotly's own elements, and the coloured squares of labels, which it takes over as they were written
            written = (f'[style*="{name}: {_rgb(light)}"]', f'[style*="{name}:{light}"]')
            rules.append(f"{figure} :is({', '.join(written)}){_KEPT} {{ {name}: {dark} !important; }}")
    rules.append(f"{figure} .main-svg {{ background: transparent !important; }}")
    return "".join(f"{rule}\n" for rule in rules)


def _rgb(colour: str) -> str:
    red, green, blue = (int(part, 16) for part in re.findall("..", colour.removeprefix("#")))
    return f"rgb({red}, {green}, {blue})"
