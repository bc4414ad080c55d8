"""Records that a group has passed without processing them, by its application's history on LEFT.

Rules: a record counts as processed as soon as the history says so, in whichever order; what the group has not passed yet is
not skipped. Offsets of control records and of aborted transactions look like skipped records and count as such.
The file is read on from where the last count ended. Not thread-safe.
Not for: records read again, or what is missing on a cluster (`measure`).
"""

from pathlib import Path
from typing import Final

from drlib.files import open_stored
from drlib.lab.checker.history import CONSUMED, decode

_SITE: Final = "LEFT"


class SkippedRecords:
    """Counts them for the application that writes the history at `path` and reads `topic`."""

    def __init__(self, path: Path, topic: str) -> None:
        self._path = path
        self._topic = topic
        self._at = 0
        self._next: dict[int, int] = {}  # by partition
        self._gaps: dict[int, list[range]] = {}  # by partition: offsets that were passed without being processed
        self.processed = 0  # records, on any site, up to the last count

    def count(self) -> int | None:
        """None while there is no history."""
        try:
            with open_stored(self._path) as file:
                file.seek(self._at)
                content = file.read()
        except FileNotFoundError:
            return None
        whole = content[: content.rfind(b"\n") + 1]  # the last line may still be written
        self._at += len(whole)
        history = decode(line for line in whole.splitlines(keepends=True) if line.startswith(CONSUMED))
        self.processed += len(history.consumed)
        for row in history.consumed:
            if row.cluster == _SITE and row.topic == self._topic:
                self._pass(row.partition, row.offset)
        return sum(gap.stop - gap.start for gaps in self._gaps.values() for gap in gaps)

    def _pass(self, partition: int, offset: int) -> None:
        expected = self._next.get(partition, 0)
        gaps = self._gaps.setdefault(partition, [])
        if offset >= expected:
            gaps += [range(expected, offset)] if offset > expected else []
            self._next[partition] = offset + 1
        elif (hit := next((gap for gap in gaps if offset in gap), None)) is not None:
            parts = (range(hit.start, offset), range(offset + 1, hit.stop))
            gaps.remove(hit)
            gaps += [part for part in parts if part]
