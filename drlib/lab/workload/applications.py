"""A drill's applications by name: started as processes of the lab, watched by their status, found again by name.

Rules: starting one that runs changes nothing, so that a drill taken up after a kill starts what is missing and no more;
they outlive whoever started them, and `drlib lab down` stops them, as they are in the lab's register. A history is
continued by the next process of that name. The application's settings never change while it runs.
Not for: what they do (`producer`, `consumer`), the pointer they follow, and judging their histories.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from drlib.errors import UsageError
from drlib.lab.apps import specs
from drlib.lab.apps.process import AppStatus, read_status
from drlib.lab.checker.history import CONSUMED, History
from drlib.lab.checker.history_files import read_history
from drlib.lab.lab import Lab


@dataclass(frozen=True, slots=True)
class LabApplications:
    """The applications of `lab`; their histories are in `histories`."""

    lab: Lab
    histories: Path

    def history_path(self, name: str) -> Path:
        return self.histories / f"{name}.jsonl"

    def status_path(self, name: str) -> Path:
        return self.lab.root / f"{name}.status.json"

    def history(self, *names: str) -> History:
        """What the applications wrote down so far."""
        return read_history(*(self.history_path(name) for name in names))

    def status(self, name: str) -> AppStatus | None:
        """What it last said; None when it has not said anything yet."""
        try:
            return read_status(self.status_path(name))
        except UsageError:
            return None

    def done(self, name: str) -> int:
        """Records it has had acknowledged or has processed since it was started."""
        found = self.status(name)
        return found.done if found is not None else 0

    def processed(self, name: str) -> int:
        """Records its history says it has processed, counted and not read: for waiting, where judging would take long."""
        try:
            return self.history_path(name).read_bytes().count(CONSUMED)
        except FileNotFoundError:
            return 0

    def runs(self, name: str) -> bool:
        return self.lab.registry.alive(name)

    def start(self, name: str, spec: specs.ProducerSpec | specs.ConsumerSpec) -> bool:
        """Start it; False when it runs already."""
        if self.runs(name):
            return False
        self.histories.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.status_path(name).unlink(missing_ok=True)
        path = self.lab.root / f"{name}.spec.json"
        if isinstance(spec, specs.ProducerSpec):
            spec = replace(spec, clocks=str(self.lab.root))
        specs.write(path, spec)
        module = "producer" if isinstance(spec, specs.ProducerSpec) else "consumer"
        self.start_module(name, f"drlib.lab.apps.{module}", str(path))
        return True

    def start_module(self, name: str, module: str, *arguments: str) -> None:
        """A process of the lab that outlives this one, with its log in the lab's folder."""
        argv = [sys.executable, "-m", module, *arguments]
        self.lab.registry.start(name, argv, log=self.lab.root / f"{name}.log", die_with_parent=False)

    def pause(self, name: str) -> None:
        """SIGSTOP: it stands still in the middle of whatever it does."""
        self.lab.registry.signal(name, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        self.lab.registry.signal(name, signal.SIGCONT)

    def kill(self, name: str) -> None:
        self.lab.registry.kill(name)

    def stop(self, *names: str) -> None:
        """SIGTERM, so that histories end whole."""
        for name in names:
            self.lab.registry.signal(name, signal.SIGTERM)
        for name in names:
            self.lab.registry.stop(name)
