"""The console's panel of applications: everybody with how they move, who was left behind first, and nothing made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hostile_text import HOSTILE, elements

from drlib.drill.inventory.rules import Application, Inventory, Kind, Way
from drlib.ui.console.picture import html_of, text_of
from drlib.ui.console.show.applications import application_html, application_lines
from drlib.ui.console.show.style import ROWS, more
from drlib.ui.console.state import Applications, ConsoleState

ROW = Application("A", Kind.GROUP, "billing", "stable", 2, ("b-1",), ("10.0.0.1",), (), None, Way.EITHER, "how")
STREAMS = replace(ROW, name="sums", kind=Kind.STREAMS, way=Way.BY_HAND, how="reset it there", members=None)
SEEN = Applications(
    Inventory((ROW, STREAMS), {"A": ("producers: not authorized",)}, {"B": "refused"}),
    ("LEFT BEHIND on A", "  billing"),
)


def test_panel_has_who_is_left_and_how_each_moves() -> None:
    text = "\n".join(application_lines(SEEN))
    assert text.startswith("LEFT BEHIND on A\n  billing\n")
    assert "application billing (A, consumer group): 2 members, pointer or address" in text
    assert "applications of A: producers: not authorized" in text
    assert "applications of B: it does not answer (refused)" in text
    page = "".join(application_html(SEEN))
    for words in (
        "Applications, and how they move",
        "b-1, 10.0.0.1",
        "by hand: reset it there",
        "left behind",
        "not known",
    ):
        assert words in page


def test_panel_before_the_first_inventory_is_empty_and_one_of_nobody_says_so() -> None:
    assert application_lines(Applications()) == []
    assert "".join(application_html(Applications())) == ""
    assert "no application uses the topics" in "".join(application_html(Applications(Inventory(()))))


def test_panel_is_cut_with_the_number_that_it_leaves_out() -> None:
    many = tuple(replace(ROW, name=f"g{number}") for number in range(ROWS + 2))
    assert application_lines(Applications(Inventory(many)))[-1] == more(ROWS + 2, "application")[0]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_panel_is_part_of_the_picture_and_foreign_text_is_no_markup(text: str) -> None:
    def page(said: str) -> str:
        row = replace(ROW, name=said, clients=(said,), how=said, way=Way.BY_HAND)
        return html_of(ConsoleState(1, applications=Applications(Inventory((row,)), (f"left: {said}",))))

    assert elements(page(text)) == elements(page("x"))
    assert "billing" in text_of(ConsoleState(1, applications=SEEN))
