"""Nothing from outside leaves its code span."""

from __future__ import annotations

import mistune
import pytest
from hostile_text import HOSTILE

from drlib.outgoing.markdown import code, table


@pytest.mark.parametrize(
    "text", [*HOSTILE.values(), "`a``b`", "| x |", "<script>alert(1)</script>", "[a](javascript:x)", "a\n# b"]
)
def test_code_text_in_a_cell_stays_one_cell_without_markup(text: str) -> None:
    render = mistune.create_markdown(escape=False, plugins=["table"])
    page = str(render("\n".join(table(("a", "b"), [(code(text, cell=True), "1")]))))
    assert page.count("<td") == 2
    assert page.count("<code>") == bool(text.strip())
    assert not {"<script", "<a ", "<h1"} & {tag for tag in ("<script", "<a ", "<h1") if tag in page}


def test_code_of_nothing_is_nothing() -> None:
    assert (code(""), code("  \n"), code("a")) == ("", "", "`a`")
