"""The clocks of the lab's simulated application machines: correct, or set back or ahead while the applications run.

Rules: a machine belongs to an application (by its name) or to all applications that work with a cluster (by its alias). Its
offset in ms is a small file of the lab; no file means a correct clock. The lab's applications read it several times a second
and use it for record timestamps, so nothing is restarted; timestamps already written stay. Brokers, workers, histories and
waits use this machine's clock: without root a process cannot have another CLOCK_REALTIME (time_namespaces(7) excludes it).
Not for: judging a clock (`drlib.kafka.net.authorized_operations`).
"""

import time
from pathlib import Path
from typing import Final

from drlib import decoding
from drlib.clock import now_ms
from drlib.decoding import Undecodable
from drlib.errors import UsageError
from drlib.files import read_stored, write_whole

_FRESH_S: Final = 0.1
_MARK: Final = ".clock"
_MOST_BYTES: Final = 64


def set_back(lab_dir: Path, machine: str, behind_ms: int) -> None:
    """Set the clock of `machine` back by `behind_ms`, ahead where that is negative; 0 corrects it. Raises `OSError`."""
    if behind_ms:
        write_whole(_file(lab_dir, machine), f"{behind_ms}\n")
    else:
        _file(lab_dir, machine).unlink(missing_ok=True)


def behind_ms(lab_dir: Path, machine: str) -> int:
    """How far the clock of `machine` is behind, in ms; 0 where it is correct, negative where it is ahead.

    Raises `UsageError` for an invalid file.
    """
    try:
        content = read_stored(_file(lab_dir, machine), _MOST_BYTES).strip()
        return -decoding.integer(content[1:]) if content.startswith(b"-") else decoding.integer(content)
    except FileNotFoundError:
        return 0
    except (OSError, Undecodable) as error:
        raise UsageError(
            f"the clock of {machine} cannot be read", str(error), f"Delete {_file(lab_dir, machine)}."
        ) from None


def set_all_right(lab_dir: Path) -> None:
    """Correct every clock of the lab."""
    for path in lab_dir.glob(f".*{_MARK}"):
        path.unlink(missing_ok=True)


class MachineClock:
    """The clock of an application; `name` where it has a machine of its own. Without `lab_dir` it is correct."""

    def __init__(self, lab_dir: Path | None, name: str = "") -> None:
        self._lab_dir = lab_dir
        self._name = name
        self._read: dict[str, tuple[float, int]] = {}

    def now_ms(self, alias: str) -> int:
        """Its time in ms while the application works with cluster `alias`. Raises `UsageError` as `behind_ms` does."""
        return self.at(alias, now_ms())

    def at(self, alias: str, true_ms: int) -> int:
        """Its time in ms when this machine's clock shows `true_ms`."""
        if self._lab_dir is None:
            return true_ms
        return true_ms - sum(self._behind(self._lab_dir, machine) for machine in (self._name, alias) if machine)

    def _behind(self, lab_dir: Path, machine: str) -> int:
        now = time.monotonic()
        read_at, offset_ms = self._read.get(machine, (float("-inf"), 0))
        if now - read_at >= _FRESH_S:
            offset_ms = behind_ms(lab_dir, machine)
            self._read[machine] = (now, offset_ms)
        return offset_ms


def _file(lab_dir: Path, machine: str) -> Path:
    return lab_dir / f".{machine}{_MARK}"
