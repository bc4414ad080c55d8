"""Whatever text quotes: a terminal gets nothing that it obeys, and a pipe gets documents as they are."""

from __future__ import annotations

import io
import sys

import pytest
from hostile_text import HOSTILE

from drlib.outgoing.terminal import show, write_document


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("error", [False, True])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_show_of_any_text_writes_printable_lines(text: str, error: bool, capsys: pytest.CaptureFixture[str]) -> None:
    show(f"topic {text}\nremedy", error=error)
    written = capsys.readouterr()
    shown, other = (written.err, written.out) if error else (written.out, written.err)
    assert (other, shown.endswith("\nremedy\n")) == ("", True)
    assert all(line.isprintable() for line in shown.split("\n"))


def test_show_of_nothing_writes_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    show()
    assert capsys.readouterr().out == "\n"


def test_document_is_written_as_it_is_to_a_pipe_and_escaped_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    document = "a\tb = \x1b[2J\nc = d\n"
    for stream, expected in ((io.StringIO(), document), (Terminal(), "a b = \\x1b[2J\nc = d\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        write_document(document)
        assert stream.getvalue() == expected
