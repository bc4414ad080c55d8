"""Where a worker's lines go: every library's messages in the same form, and a reader that is gone or slow holds up nothing."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import pty
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import typer
from deadline import Deadline

from drlib.cli.log import setup
from drlib.cli.log.lines import LogLine
from drlib.cli.log.setup import LogFormat, LogLevel, worker_log, write_line
from drlib.errors import Unreachable, UsageError
from drlib.mirror.errors import log_traceback
from drlib.mirror.status.event_kinds import Level

LINE = LogLine(1_700_000_000_000, Level.WARNING, "Parked", "open", detail="word " * 60)


def written(level: LogLevel = LogLevel.INFO) -> tuple[io.StringIO, LogFormat, LogLevel]:
    return io.StringIO(), LogFormat.JSON, level


def objects(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(row) for row in out.getvalue().splitlines()]


def test_libraries_warnings_and_threads_are_lines_of_the_same_form() -> None:
    out = io.StringIO()

    def fails() -> None:
        raise KeyError("in a thread")

    async def never_awaited() -> None:
        async def fail() -> None:
            raise ValueError("in a task")

        task = asyncio.ensure_future(fail())
        await asyncio.wait([task])
        del task

    with worker_log(LogFormat.JSON, LogLevel.INFO, out):
        logging.getLogger("kafka.conn").warning("broker said\nno")
        logging.getLogger("aiokafka").error("gave up on %s", "orders[/red]")
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # an error in tests
            warnings.warn("old", ResourceWarning, stacklevel=1)
        thread = threading.Thread(target=fails, name="side")
        thread.start()
        thread.join()
        asyncio.run(never_awaited())
    found = objects(out)
    assert [row["name"] for row in found] == ["kafka.conn", "aiokafka", "py.warnings", "drlib.mirror", "asyncio"]
    assert found[0]["detail"] == "broker said\nno"
    assert found[1]["detail"] == "gave up on orders[/red]"
    assert "KeyError: 'in a thread'" in str(found[3]["traceback"])
    assert "ValueError: in a task" in str(found[4]["traceback"])


def test_level_is_the_least_that_is_written_and_libraries_begin_at_warning() -> None:
    counts = {}
    for level in LogLevel:
        out = io.StringIO()
        with worker_log(LogFormat.JSON, level, out):
            for each in Level:
                write_line(LogLine(0, each, "Parked"))
                logging.getLogger("aiokafka").log(each, "x")
        names = [row["name"] for row in objects(out)]
        counts[level.value] = (names.count("Parked"), names.count("aiokafka"))
    assert counts == {"debug": (4, 3), "info": (3, 2), "warning": (2, 2), "error": (1, 1)}


def test_logging_is_as_before_afterwards() -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, threading.excepthook)
    with worker_log(*written()[1:], stream=io.StringIO()):
        assert root.handlers != before[0]
    assert (root.handlers[:], root.level, threading.excepthook) == before


def test_error_that_ends_the_worker_is_a_line_and_its_exit_code() -> None:
    out = io.StringIO()
    with pytest.raises(typer.Exit) as ended, worker_log(LogFormat.JSON, LogLevel.INFO, out):
        raise Unreachable("A does not answer", "refused", "Start it.")
    assert ended.value.exit_code == Unreachable.exit_code
    (row,) = objects(out)
    assert (row["name"], row["detail"], row["remedy"]) == ("Unreachable", "A does not answer: refused", "Start it.")
    assert row["traceback"] is None


def test_usage_error_in_text_is_left_to_the_command_line_and_a_line_in_json() -> None:
    out = io.StringIO()
    with pytest.raises(UsageError), worker_log(LogFormat.TEXT, LogLevel.INFO, out):
        raise UsageError("x", "y", "z.")
    assert out.getvalue() == ""
    with pytest.raises(typer.Exit) as ended, worker_log(LogFormat.JSON, LogLevel.INFO, out):
        raise UsageError("x", "y", "z.")
    assert ended.value.exit_code == UsageError.exit_code
    assert [row["name"] for row in objects(out)] == ["UsageError"]


def test_unexpected_error_is_a_line_with_its_traceback_once() -> None:
    out = io.StringIO()
    with pytest.raises(typer.Exit), worker_log(LogFormat.TEXT, LogLevel.INFO, out):
        raise KeyError("defect")
    rows = out.getvalue().splitlines()
    assert sum("KeyError: 'defect'" in row for row in rows) == 2  # the line, and the end of the traceback
    assert sum("Traceback" in row for row in rows) == 1
    assert all(" ERROR " in row for row in rows)


@pytest.mark.parametrize("error", [Unreachable("x", "y", "z."), TimeoutError(), ConnectionResetError()])
def test_errors_that_are_expected_have_no_traceback(error: Exception) -> None:
    out = io.StringIO()
    with worker_log(LogFormat.JSON, LogLevel.DEBUG, out):
        log_traceback(error)
        assert out.getvalue() == ""
        log_traceback(KeyError("x"))
    assert len(objects(out)) == 1


def test_pipe_gets_no_colour_and_no_wrapping_whatever_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variables in ({"COLUMNS": "80"}, {"COLUMNS": "80", "FORCE_COLOR": "1"}, {"TERM": "xterm-256color"}):
        for name in ("COLUMNS", "FORCE_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        reader, writer = os.pipe()
        with os.fdopen(writer, "w") as stream, worker_log(LogFormat.TEXT, LogLevel.INFO, stream):
            write_line(LINE)
        with os.fdopen(reader) as out:
            (row,) = out.read().splitlines()
        assert "\x1b" not in row
        assert len(row) > 300


def test_terminal_gets_colours_and_lines_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.delenv("NO_COLOR", raising=False)
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as stream, worker_log(LogFormat.TEXT, LogLevel.INFO, stream):
        write_line(LINE)
    shown = os.read(master, 10_000).decode()
    os.close(master)
    assert "\x1b[" in shown
    assert len(shown.splitlines()) > 3


def test_reader_that_does_not_read_holds_up_nothing_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "CLOSE_S", 0.1)
    monkeypatch.setattr(setup, "MOST_WAITING", 50)
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w")
    with worker_log(LogFormat.JSON, LogLevel.INFO, stream):
        for _ in range(2000):  # more than a pipe holds; returns although nothing reads
            write_line(LINE)
        found = b""
        deadline = Deadline(30)
        while b"lines were not written" not in found:
            assert not deadline.passed
            found += os.read(reader, 65536)
    os.close(reader)
    deadline = Deadline(30)
    while any(thread.name == "log" for thread in threading.enumerate()):
        assert not deadline.passed
    stream.close()
    assert b"lines were not written" in found


def test_reader_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    with worker_log(LogFormat.TEXT, LogLevel.INFO, stream):
        write_line(LINE)
        write_line(LINE)
    stream.close()  # flushes what could not be written


def test_process_whose_output_is_not_read_ends_in_order() -> None:
    """A thread that is held up in a write must not make the interpreter abort at its end."""
    program = (
        "from drlib.cli.log import setup\n"
        "from drlib.cli.log.lines import LogLine\n"
        "from drlib.mirror.status.event_kinds import Level\n"
        "setup.CLOSE_S = 0.2\n"
        "with setup.worker_log(setup.LogFormat.TEXT, setup.LogLevel.INFO):\n"
        "    for _ in range(5000):\n"
        "        setup.write_line(LogLine(0, Level.INFO, 'Parked', detail='x' * 200))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert b"Fatal" not in process.stderr.read()
