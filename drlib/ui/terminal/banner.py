"""The banner of a run on a terminal: LAB or PRODUCTION, the flow, its clusters, and what changes.

Rules: the word is text and comes first; its colour only repeats it, and without colours nothing is missing.
"""

from rich.text import Text

from drlib import formats
from drlib.lab.environment import COLOURS, Banner


def banner_line(banner: Banner) -> Text:
    """One line, as wide as its text."""
    style = f"bold #ffffff on {COLOURS[banner.environment]}"
    return Text.assemble((f" {banner.word} ", style), f" {formats.one_line(banner.text)}")
