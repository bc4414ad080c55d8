"""CPU seconds, peak memory and load of processes and of the machine, as the kernel reports them.

Rules: `/proc` only; a process that has ended counts with its last values, so a sum never decreases. Not for:
starting or stopping anything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Meter:
    """CPU and memory of a few processes, all their threads, children not included."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.pids = tuple(pids)
        self._cpu: dict[int, float] = dict.fromkeys(self.pids, 0.0)

    def cpu(self) -> float:
        """User and system seconds used so far, of all of them together."""
        for pid in self.pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            self._cpu[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
        return sum(self._cpu.values())

    def peak_rss(self) -> int:
        """Bytes: the sum of each one's peak resident set (VmHWM). 0 for those that are gone."""
        return sum(_peak(pid) for pid in self.pids)


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


class Surroundings:
    """What the rest of the machine does while something is measured. `known`: pids that belong to the benchmark."""

    def __init__(self, known: Iterable[int]) -> None:
        self.load_before = os.getloadavg()[0]
        self._known = Meter([*known, os.getpid()])
        self._at = time.perf_counter()
        self._known_before = self._known.cpu()
        self._machine_before = machine_cpu()

    def other_load(self, measured_cpu: float) -> float:
        """Cores kept busy, on average, by neither the known processes nor what used `measured_cpu` seconds meanwhile."""
        known = self._known.cpu() - self._known_before + measured_cpu
        return max(0.0, (machine_cpu() - self._machine_before - known) / (time.perf_counter() - self._at))


def machine_cpu() -> float:
    """CPU seconds that anything on this machine has used since it booted."""
    with open("/proc/stat", encoding="ascii") as stat:
        fields = [int(field) for field in stat.readline().split()[1:]]
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / _TICKS
