"""The drill's journal: a chain that shows every change, and that a killed writer does not break."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.runs.journal import FIRST, DrillJournal, JournalTampered, Line, read


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@pytest.fixture
def written(path: Path) -> Path:
    journal = DrillJournal(path)
    for number in range(5):
        journal.write("step-succeeded", step=f"step {number}", seconds=number / 3, records=number, note=None, ok=True)
    journal.close()
    return path


def test_journal_lines_are_read_in_order_and_chained(written: Path) -> None:
    lines = read(written)
    assert [line.seq for line in lines] == [0, 1, 2, 3, 4]
    assert [line.previous for line in lines] == [FIRST, *(line.hash for line in lines[:-1])]
    assert lines[2].event == "step-succeeded"
    assert lines[2].data == {"step": "step 2", "seconds": 2 / 3, "records": 2, "note": None, "ok": True}
    assert datetime.fromisoformat(lines[0].at).utcoffset() == UTC.utcoffset(None)
    assert [line.at for line in lines] == sorted(line.at for line in lines)


def test_journal_is_readable_by_its_owner_only(written: Path) -> None:
    assert written.stat().st_mode & 0o777 == 0o600


def test_journal_name_is_on_disk_before_its_first_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: on_disk.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
    )
    journal = DrillJournal(path)
    journal.write("run-started")
    journal.close()
    assert on_disk == [path.parent, path]


def test_read_empty_journal_is_intact(path: Path) -> None:
    DrillJournal(path).close()
    assert read(path) == ()


def test_journal_reopened_continues_the_chain(written: Path) -> None:
    journal = DrillJournal(written)
    journal.write("resumed")
    journal.close()
    assert [line.event for line in read(written)][-2:] == ["step-succeeded", "resumed"]
    assert len(read(written)) == 6


@pytest.mark.parametrize("line", range(5))
def test_read_changed_value_is_found_at_its_line(written: Path, line: int) -> None:
    lines = written.read_text().splitlines(keepends=True)
    body = json.loads(lines[line])
    body["data"]["records"] += 1
    lines[line] = json.dumps(body) + "\n"
    written.write_text("".join(lines))
    with pytest.raises(JournalTampered, match=f"line {line + 1} breaks the chain"):
        read(written)


def test_read_changed_line_with_recomputed_hash_is_found_at_the_next(written: Path, path: Path) -> None:
    lines = written.read_text().splitlines(keepends=True)
    other = path.with_name("other.jsonl")
    journal = DrillJournal(other)
    journal.write("forged")
    journal.close()
    written.write_text(other.read_text() + "".join(lines[1:]))
    with pytest.raises(JournalTampered, match="line 2 breaks the chain"):
        read(written)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: lines[1:], 1),
        (lambda lines: lines[:2] + lines[3:], 3),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
        (lambda lines: [*lines[:2], "{}\n", *lines[2:]], 3),
        (lambda lines: [*lines[:2], "[]\n", *lines[2:]], 3),
        (lambda lines: [*lines[:2], "\n", *lines[2:]], 3),
    ],
    ids=["first gone", "one gone", "two swapped", "one twice", "one put in", "no object", "empty line"],
)
def test_read_removed_moved_or_inserted_lines_are_found(written: Path, change, line: int) -> None:  # type: ignore[no-untyped-def]
    written.write_text("".join(change(written.read_text().splitlines(keepends=True))))
    with pytest.raises(JournalTampered, match=f"line {line} breaks"):
        read(written)
    with pytest.raises(JournalTampered):
        DrillJournal(written)


@pytest.mark.parametrize("cut", [1, 2, 40, -1])
def test_journal_torn_last_line_is_dropped_and_overwritten(written: Path, cut: int) -> None:
    whole = written.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    written.write_bytes(whole[: -len(last)] + last[:cut])
    assert len(read(written)) == 4
    journal = DrillJournal(written)
    journal.write("resumed")
    journal.close()
    assert (len(read(written)), written.read_bytes()[-1:]) == (5, b"\n")
    assert read(written)[-1].event == "resumed"


INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.lists(st.dictionaries(st.text(min_size=1).filter(lambda key: key not in {"self", "event"}), SCALARS)))
def test_journal_values_round_trip(tmp_path_factory: pytest.TempPathFactory, found: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = DrillJournal(path)
    for data in found:
        journal.write("event", **data)
    journal.close()
    assert [line.data for line in read(path)] == found


def test_journal_values_beyond_json_are_kept_as_text(path: Path) -> None:
    journal = DrillJournal(path)
    journal.write("event", large=1 << 64, endless=float("inf"), name="orders\udc80")
    journal.close()
    assert read(path)[0].data == {"large": "18446744073709551616", "endless": "inf", "name": "orders\\udc80"}


@pytest.mark.parametrize(
    "text", ["[1e400]", "[" * 200_000, "1" * 5000, '{"seq": 0, "seq": 0}', '"\\ud800"', "NaN", "[]"]
)
def test_journal_line_of_another_writer_is_reported_as_tampering(path: Path, text: str) -> None:
    path.write_text(text + "\n")
    with pytest.raises(JournalTampered):
        read(path)


def test_journal_line_without_a_moment_is_reported_as_tampering(path: Path) -> None:
    body: dict[str, object] = {"seq": 0, "at": "yesterday", "event": "e", "data": {}, "previous": FIRST}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**body, "hash": digest}) + "\n")
    with pytest.raises(JournalTampered):
        read(path)


def test_journal_unsupported_value_leaves_the_chain_unchanged(path: Path) -> None:
    journal = DrillJournal(path)
    journal.write("first")
    with pytest.raises(TypeError):
        journal.write("broken", at=object())  # type: ignore[arg-type]
    journal.write("second")
    journal.close()
    assert [line.event for line in read(path)] == ["first", "second"]


def test_journal_lines_survive_sigkill(path: Path) -> None:
    source = (
        "import sys, pathlib\nfrom drlib.runs.journal import DrillJournal\n"
        "journal = DrillJournal(pathlib.Path(sys.argv[1]))\nnumber = 0\n"
        "while True:\n    journal.write('tick', number=number)\n    print(number, flush=True)\n    number += 1\n"
    )
    with subprocess.Popen([sys.executable, "-c", source, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reported = [int(process.stdout.readline()) for _ in range(50)]
        os.kill(process.pid, signal.SIGKILL)
    lines = read(path)
    assert [line.data["number"] for line in lines] == list(range(len(lines)))
    assert len(lines) >= len(reported)
    assert isinstance(lines[0], Line)
