"""History files: appended fast, with at worst a torn last line after SIGKILL, and read back with their gaps.

Rules: every write appends complete lines; rows wait at most 100 ms in the buffer while `tick` is called; a file is closed with
its end line. A torn line of an earlier run is separated from the following ones by a newline.
Not for: durability against power loss (a killed process loses nothing that the kernel has).
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from drlib.files import open_stored, stored_descriptor
from drlib.lab.checker.history import History, Row, decode, encode, encode_end

FLUSH_AFTER_S = 0.05


class HistoryWriter:
    """Appends rows to one file. A context manager; leaving it in order writes the end line, an exception does not."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and path.stat().st_size > 0 and not _ends_whole(path)
        self._fd = stored_descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lines: list[bytes] = [b"\n"] if torn else []
        self._flushed = time.monotonic()

    def append(self, row: Row) -> None:
        self._lines.append(encode(row))
        self.tick()

    def append_all(self, rows: Iterable[Row]) -> None:
        """Append and write at once: rows that belong together are in the file together."""
        self._lines.extend(encode(row) for row in rows)
        self.flush()

    def tick(self) -> None:
        """Write rows that have waited long enough; call it at least every 50 ms."""
        if self._lines and time.monotonic() - self._flushed >= FLUSH_AFTER_S:
            self.flush()

    def flush(self) -> None:
        content = memoryview(b"".join(self._lines))
        self._lines.clear()
        self._flushed = time.monotonic()
        while content:
            content = content[os.write(self._fd, content) :]

    def close(self, *, whole: bool = True) -> None:
        """Close the file; `whole` writes the end line, for an application that completed its work."""
        if self._fd < 0:
            return
        if whole:
            self._lines.append(encode_end())
        self.flush()
        os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(whole=kind is None)


def read_history(*paths: Path) -> History:
    """The rows of all files, file by file. A file that is not there is listed in `missing`, never an error."""
    whole = History()
    for path in paths:
        try:
            with path.open("rb") as file:
                whole += decode(file, path.name)
        except FileNotFoundError:
            whole += History(missing=(path.name,))
    return whole


def _ends_whole(path: Path) -> bool:
    with open_stored(path) as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
