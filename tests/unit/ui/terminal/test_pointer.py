"""The pointer's copies, as `drlib pointer show` prints them."""

from __future__ import annotations

from io import StringIO

import pytest

from drlib.client.pointer_copies import PointerCopies
from drlib.ui.terminal.plain_console import plain_console
from drlib.ui.terminal.pointer import render_copies


def shown(copies: PointerCopies) -> str:
    out = StringIO()
    plain_console(file=out, width=100).print(render_copies(copies, "*", 0))
    return out.getvalue()


@pytest.mark.parametrize("silent", [{}, {"lyon": "no answer"}])
def test_copies_that_are_nowhere_do_not_disagree_unless_a_place_is_silent(silent: dict[str, str]) -> None:
    text = shown(PointerCopies({"paris": {}} | ({} if silent else {"lyon": {}}), silent, ("paris", "lyon")))
    assert text.startswith(f"No pointer for all applications{' could be read' if silent else ''}. The first one: ")
    assert ("or not all of them could be read" in text) is bool(silent)
