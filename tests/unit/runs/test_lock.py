"""Locks, journals and requests of a run: what another program left in their place is neither followed nor waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drlib.drill.run import approvals
from drlib.errors import UsageError
from drlib.runs.abort import Abort
from drlib.runs.journal import DrillJournal
from drlib.runs.lock import alone, held

SPECIAL: dict[str, Callable[[Path], object]] = {
    "link": lambda p: p.symlink_to("../theirs"),
    "dangling link": lambda p: p.symlink_to("../nowhere"),
    "loop": lambda p: p.symlink_to(p.name),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
}


@pytest.fixture(params=SPECIAL)
def leave(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Path]:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "run").mkdir(mode=0o700)

    def leave(name: str) -> Path:
        SPECIAL[request.param](tmp_path / "run" / name)
        return tmp_path / "run"

    return leave


@pytest.fixture(autouse=True)
def untouched(tmp_path: Path, leave: object) -> object:
    yield
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not (tmp_path / "nowhere").exists()


def test_lock_that_is_no_file_is_a_message_and_held_by_no_process(leave: Callable[[str], Path]) -> None:
    folder = leave(".lock")
    assert not held(folder, ".lock")
    with pytest.raises(UsageError, match=r"its lock \.lock is no file of drlib"), alone(folder, ".lock", "", ""):
        pass


def test_journal_that_is_no_file_is_neither_read_nor_written(leave: Callable[[str], Path]) -> None:
    folder = leave("journal.jsonl")
    with pytest.raises((OSError, ValueError)):
        DrillJournal(folder / "journal.jsonl").write("run-started")


def test_approvals_file_that_is_no_file_is_not_written(leave: Callable[[str], Path]) -> None:
    folder = leave("approved")
    with pytest.raises(UsageError, match="approved cannot be written"):
        approvals.write(folder, "move", "a1" * 32, "Ada")


def test_abort_whatever_it_is_stops_the_run(leave: Callable[[str], Path]) -> None:
    abort = Abort(leave("abort"))
    assert abort.requested
    assert abort.by() == "unknown user"
