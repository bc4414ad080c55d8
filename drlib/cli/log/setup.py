"""Write the lines of a worker to standard error, and those of every library in the same form.

Rules:
- Everything goes through Python's logging: ours with its fields (`LogLine`); messages of libraries, warnings, and exceptions of
  threads and callbacks as lines under the name of their logger. librdkafka is quiet below debug level: its errors are ours.
- Lines are written by a thread of their own: a reader that is slow, stopped or gone holds up no mirroring. Beyond
  `MOST_WAITING` lines the newest are dropped, and the next line says how many.
- Colours and line breaks only on a terminal, and never with JSON.
- An error that ends the worker is a line like all others. An unexpected one has its traceback, once.
Not for: the form of a line (`lines`); which events and states are lines (`worker_lines`).
"""

from __future__ import annotations

import contextlib
import io
import logging
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, TextIO

import typer

from drlib import clock
from drlib.cli.log.lines import LogLine, as_json, as_text, styled
from drlib.errors import DrlibError, UsageError
from drlib.mirror.status.event_kinds import Level
from drlib.ui.terminal.plain_console import plain_console

MOST_WAITING: Final = 10_000  # lines
CLOSE_S: Final = 2.0  # for lines that are not written when the worker ends
_WORKER: Final = logging.getLogger("drlib.mirror")
_LIBRDKAFKA: Final = logging.getLogger("drlib.librdkafka")


class LogFormat(StrEnum):
    """`text`: for people and logfmt parsers; `json`: one object a line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least level that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def level(self) -> Level:
        return Level[self.name]


def write_line(line: LogLine) -> None:
    """Write one line, if its level is written."""
    _WORKER.log(line.level, line.name, extra={"line": line})


@contextlib.contextmanager
def worker_log(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> Iterator[None]:
    """Write lines to `stream`, standard error by default, and what ends the worker as one of them.

    Raises `typer.Exit` with the code of an error; in text an error of usage itself, as all commands do: nothing was started.
    """
    handler = LineHandler(stream or sys.stderr, log_format)
    with _installed(handler, level.level):
        try:
            yield
        except (typer.Exit, typer.Abort, ImportError):
            raise
        except DrlibError as error:
            if error.exit_code == UsageError.exit_code and log_format is LogFormat.TEXT:
                raise
            detail = f"{error.what}: {error.why}"
            write_line(
                LogLine(clock.now_ms(), Level.ERROR, type(error).__name__, "ended", detail=detail, remedy=error.remedy)
            )
            raise typer.Exit(error.exit_code) from None
        except Exception:
            _WORKER.exception("an unexpected error ended the worker")
            raise typer.Exit(1) from None


@contextlib.contextmanager
def _installed(handler: LineHandler, level: Level) -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("drlib")
    before = (root.handlers[:], root.level, own.level, _LIBRDKAFKA.propagate, threading.excepthook, sys.unraisablehook)
    root.handlers[:] = [handler]
    root.setLevel(max(level, Level.INFO) if level is Level.DEBUG else max(level, Level.WARNING))  # libraries
    own.setLevel(level)
    _LIBRDKAFKA.propagate = level is Level.DEBUG
    logging.captureWarnings(True)
    threading.excepthook = lambda args: _unexpected(f"thread {getattr(args.thread, 'name', '?')}", args.exc_value)
    sys.unraisablehook = _unraisable(sys.unraisablehook)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers[:], root_level, own_level, _LIBRDKAFKA.propagate, threading.excepthook, sys.unraisablehook = (
            before
        )
        root.setLevel(root_level)
        own.setLevel(own_level)
        handler.close()


def _unraisable(interrupted: Callable[[sys.UnraisableHookArgs], object]) -> Callable[[sys.UnraisableHookArgs], object]:
    """A hook that writes a line, and hands an interrupt to the hook before it."""

    def hook(args: sys.UnraisableHookArgs) -> None:
        if isinstance(args.exc_value, KeyboardInterrupt):
            interrupted(args)
        else:
            _unexpected(str(args.err_msg or "a finalizer"), args.exc_value)

    return hook


def _unexpected(where: str, error: BaseException | None) -> None:
    if not isinstance(error, SystemExit):
        _WORKER.error("unexpected error in %s", where, exc_info=error)


class LineHandler(logging.Handler):
    """Formats records of logging as lines; a thread writes them to `stream` until `close`."""

    def __init__(self, stream: TextIO, log_format: LogFormat) -> None:
        super().__init__()
        self._write = _writer(stream, log_format)
        self._given_up = False
        self._waiting: queue.Queue[LogLine | None] = queue.Queue(MOST_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held."""
        line = getattr(record, "line", None)
        try:
            self._waiting.put_nowait(line if isinstance(line, LogLine) else line_of(record))
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        try:
            self._waiting.put(None, timeout=CLOSE_S)
        except queue.Full:
            self._given_up = True
        self._thread.join(CLOSE_S)
        super().close()

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            try:
                if dropped:
                    what = f"{dropped} lines were not written, because what reads them is too slow"
                    self._write(LogLine(clock.now_ms(), Level.WARNING, "LogDropped", count=dropped, detail=what))
                self._write(line)
            except (OSError, ValueError):  # the reader is gone, a full disk: the next line may be written again
                pass
            if self._given_up:
                return


def line_of(record: logging.LogRecord) -> LogLine:
    """A record without fields of ours, such as a library's, under the name of its logger."""
    level = Level(min(Level.ERROR, max(Level.DEBUG, record.levelno // 10 * 10)))
    error = record.exc_info[1] if record.exc_info else None
    detail = record.getMessage() + (f": {type(error).__name__}: {error}" if error is not None else "")
    trace = "" if error is None else "".join(traceback.format_exception(error))
    return LogLine(int(record.created * 1000), level, record.name, detail=detail, traceback=trace)


def _writer(stream: TextIO, log_format: LogFormat) -> Callable[[LogLine], None]:
    out = _unbuffered(stream)
    if log_format is LogFormat.TEXT and out.isatty():
        console = plain_console(file=out)
        return lambda line: console.print(*styled(line), sep="\n")
    form = as_json if log_format is LogFormat.JSON else as_text

    def write(line: LogLine) -> None:
        out.write(f"{form(line)}\n")

    return write


def _unbuffered(stream: TextIO) -> TextIO:
    """The same file without a buffer, whose lock a thread that cannot write would keep until the interpreter ends."""
    try:
        raw = io.FileIO(stream.fileno(), "wb", closefd=False)
    except OSError:  # it is in memory
        return stream
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors="backslashreplace", write_through=True)
