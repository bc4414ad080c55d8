"""The clocks of the machines that a lab's applications run on: right, or set back, while they run.

Rules: a machine is an application's, by its name, or every one that works with a cluster, by its alias; how far its clock is
behind is a small file of the lab, and none means right. Applications of the lab stamp records by it and read it anew a few
times a second, so nothing is restarted. A stamp that was written stays as it is: setting a clock right mends only what
comes. Brokers, workers, histories and waits keep this machine's clock: a process cannot have another CLOCK_REALTIME without
root (time_namespaces(7) leaves it alone). Not for: judging a clock (`drlib.kafka.net.authorized_operations`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from drlib.clock import now_ms
from drlib.errors import UsageError
from drlib.files import write_whole

_FRESH_S: Final = 0.1
_MARK: Final = ".clock"


def set_back(lab_dir: Path, machine: str, behind_ms: int) -> None:
    """From now on the clock of `machine` is `behind_ms` behind; 0 sets it right. Raises `OSError`."""
    if behind_ms:
        write_whole(_file(lab_dir, machine), f"{behind_ms}\n")
    else:
        _file(lab_dir, machine).unlink(missing_ok=True)


def behind_ms(lab_dir: Path, machine: str) -> int:
    """How far it is behind; 0 where it is right. Raises `UsageError` for a file that says nothing."""
    try:
        told = _file(lab_dir, machine).read_text(encoding="ascii")
    except FileNotFoundError:
        return 0
    try:
        return int(told)
    except ValueError:
        raise UsageError(
            f"the clock of {machine}", f"{told!r} is no number", f"Delete {_file(lab_dir, machine)}."
        ) from None


def set_all_right(lab_dir: Path) -> None:
    """Every clock of the lab."""
    for path in lab_dir.glob(f".*{_MARK}"):
        path.unlink(missing_ok=True)


class MachineClock:
    """The clock of application `name`, where that has a machine of its own; without `lab_dir` it is right."""

    def __init__(self, lab_dir: Path | None, name: str = "") -> None:
        self._lab_dir = lab_dir
        self._name = name
        self._read: dict[str, tuple[float, int]] = {}

    def now_ms(self, alias: str) -> int:
        """What it says while the application works with cluster `alias`. Raises `UsageError` as `behind_ms` does."""
        return self.at(alias, now_ms())

    def at(self, alias: str, true_ms: int) -> int:
        """What it says when this machine's clock says `true_ms`."""
        if self._lab_dir is None:
            return true_ms
        return true_ms - sum(self._behind(self._lab_dir, machine) for machine in (self._name, alias) if machine)

    def _behind(self, lab_dir: Path, machine: str) -> int:
        now = time.monotonic()
        read_at, found = self._read.get(machine, (float("-inf"), 0))
        if now - read_at >= _FRESH_S:
            found = behind_ms(lab_dir, machine)
            self._read[machine] = (now, found)
        return found


def _file(lab_dir: Path, machine: str) -> Path:
    return lab_dir / f".{machine}{_MARK}"
