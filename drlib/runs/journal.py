"""What happened in a drill, as it happened: `journal.jsonl`, append-only, each line chained to the one before.

Rules: a line is on disk before the next step begins; `hash` is SHA-256 over the line without it, which holds the hash
of the line before, so a line changed or taken out afterwards shows. A torn last line (the process was killed) is
dropped, and `verify` says so. Lines cut off at the end do not break the chain: the manifest's digest shows those.
Words are Chaos Toolkit's where it has one.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.errors import Deviated, DrlibError
from drlib.files import read_stored, stored_descriptor, sync_folder

Scalar = str | int | float | bool | None
JOURNAL: Final = "journal.jsonl"  # its name in a run folder
FIRST = "0" * 64


class JournalTampered(DrlibError):
    """A line of a drill's journal is not what was written."""

    def __init__(self, path: Path, line: int) -> None:
        super().__init__(
            f"{path.name} was changed after the fact",
            f"line {line} breaks the chain",
            "Do not rely on this run. Where it has not ended it cannot be resumed, and a new run gives it up: "
            f"--supersede {path.parent.name}.",
        )


class JournalFull(Deviated):
    """What happens next could not be written down, so it does not happen; nothing is rolled back over it."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"the run in {path.parent.name} stopped where it was",
            f"its journal cannot be written: {error.strerror or error}",
            "Make room first.",
        )


@dataclass(frozen=True, slots=True)
class Line:
    seq: int
    at: str  # UTC, ISO 8601
    event: str
    data: Mapping[str, Scalar]
    previous: str
    hash: str


class DrillJournal:
    """Opens or continues the journal at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines, whole = _read(path) if path.exists() else ((), 0)
        self._seq = len(lines)
        self._previous = lines[-1].hash if lines else FIRST
        self._file = stored_descriptor(path, os.O_WRONLY | os.O_CREAT)
        sync_folder(path.parent)
        os.ftruncate(self._file, whole)
        os.lseek(self._file, 0, os.SEEK_END)

    def write(self, event: str, **data: Scalar) -> None:
        """Append one event and wait until it is on disk. Raises `JournalFull` when it cannot be; then write no more."""
        body: dict[str, object] = {
            "seq": self._seq,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": event,
            "data": {name: _storable(value) for name, value in data.items()},
            "previous": self._previous,
        }
        digest = _digest(body)
        line = (json.dumps({**body, "hash": digest}) + "\n").encode()
        try:
            while line:
                line = line[os.write(self._file, line) :]
            os.fsync(self._file)
        except OSError as error:  # half a line may be there: the next to open the journal removes it
            raise JournalFull(self.path, error) from error
        self._previous = digest
        self._seq += 1

    def close(self) -> None:
        os.close(self._file)


_LINE: Final = TypeAdapter(Line)


def read(path: Path) -> tuple[Line, ...]:
    """The lines of a journal, checked. Raises `JournalTampered`; a torn last line is left out."""
    return _read(path)[0]


def parse(raw: bytes, path: Path) -> tuple[Line, ...]:
    """The lines of the journal whose content is `raw`. Raises `JournalTampered`; a torn last line is left out."""
    return _parse(raw, path)[0]


def _read(path: Path) -> tuple[tuple[Line, ...], int]:
    """The lines, and how many bytes of the file they are: a torn one may follow."""
    return _parse(read_stored(path), path)


def _parse(raw: bytes, path: Path) -> tuple[tuple[Line, ...], int]:
    lines: list[Line] = []
    previous, whole = FIRST, 0
    for number, text in enumerate(raw.splitlines(keepends=True), 1):
        if not text.endswith(b"\n"):
            break
        try:
            body = decoding.json_value(text)
            line = _LINE.validate_python(body)
            if not isinstance(body, dict) or datetime.fromisoformat(line.at).tzinfo is None:
                raise ValueError("no moment in a time zone")
            digest = body.pop("hash")
        except ValueError:
            raise JournalTampered(path, number) from None
        if line.previous != previous or digest != _digest(body) or line.seq != len(lines):
            raise JournalTampered(path, number)
        previous = digest
        whole += len(text)
        lines.append(line)
    return tuple(lines), whole


def _storable(value: Scalar) -> Scalar:
    """As text what `drlib.decoding` would refuse to read again."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not decoding.LEAST_INTEGER <= value <= decoding.MOST_INTEGER:
        return str(value)
    return value


def _digest(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
