"""What a step took back of what drills had made on a cluster, recorded so that its undo makes it again.

Rules: it is recorded before anything is taken back, and forgotten once it is made again. A step that is resumed finds less of
it there: what is recorded stays.
Not for: what is taken back, and how (`deny_writes`, `limits`, `throttled`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from drlib.drill.step import step_output as details
from drlib.drill.step.step_output import Row


class TakenBack:
    """Rows of the run in `run_dir` under `name`."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self._run_dir, self._name = run_dir, name

    def rows(self) -> Sequence[Row]:
        """What is not made again yet."""
        return details.read_rows(self._run_dir, self._name)

    def note(self, rows: Sequence[Row]) -> None:
        """Record `rows`, beside what is recorded already."""
        before = self.rows()
        if more := [row for row in rows if row not in before]:
            details.write_rows(self._run_dir, self._name, [*before, *more])

    def make_again(self, make: Callable[[Sequence[Row]], None]) -> None:
        """Call `make` with what was taken back, if anything was, and forget it. Safe to repeat."""
        if rows := self.rows():
            make(rows)
            details.write_rows(self._run_dir, self._name, [])
