"""A drill's applications by name: started as processes of the lab, watched by their status files, found by name.

Rules: starting one that runs changes nothing, so a drill that is resumed after a kill starts only what is missing. They
live as long as the lab's brokers: `drlib lab down` stops them, as they are registered. The next process of a name appends
to its history. An application's settings do not change while it runs.
Not for: what they do (`lab.apps`), the pointer that they follow, and judging their histories (`lab.checker`).
"""

import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from drlib.client.pointer_file import own_file
from drlib.errors import UsageError
from drlib.lab.apps import specs
from drlib.lab.apps.process import AppStatus, read_status
from drlib.lab.checker.history import CONSUMED, History
from drlib.lab.checker.history_files import read_history
from drlib.lab.lab import Lab

_SPEC: Final = ".spec.json"


@dataclass(frozen=True, slots=True)
class LabApplications:
    """The applications of `lab`; their histories are written to the folder `histories`."""

    lab: Lab
    histories: Path

    def history_path(self, name: str) -> Path:
        return self.histories / f"{name}.jsonl"

    def status_path(self, name: str) -> Path:
        return self.lab.root / f"{name}.status.json"

    def spec_path(self, name: str) -> Path:
        return self.lab.root / f"{name}{_SPEC}"

    def still_sending(self, pointer: Path, version: int) -> str:
        """What a producer that follows `pointer` has still to do before it holds at `version`, in words; empty when nothing.

        A log that does not grow proves nothing of a slow producer: a record may be in its queue, or it has not seen the hold.
        """
        for path in sorted(self.lab.root.glob(f"*{_SPEC}")):
            name = path.name.removesuffix(_SPEC)
            try:
                spec = specs.load(path, specs.ProducerSpec)
                follows = pointer in (Path(spec.pointer), own_file(Path(spec.pointer), spec.application))
            except UsageError:
                continue  # a consumer, whose group says it
            status = self.status(name)
            if not follows or status is None or status.phase == "stopped" or not self.runs(name):
                continue
            if status.phase != "holding" or status.pointer_version < version:
                return f"{name} has not seen the hold yet"
            if status.in_flight:
                return f"{name} waits for the answer to {status.in_flight} records"
        return ""

    def history(self, *names: str) -> History:
        """The histories of the applications so far, as one."""
        return read_history(*(self.history_path(name) for name in names))

    def status(self, name: str) -> AppStatus | None:
        """The application's last status; None before its first one."""
        try:
            return read_status(self.status_path(name))
        except UsageError:
            return None

    def done(self, name: str) -> int:
        """Records acknowledged (a producer) or processed (a consumer) since the process was started."""
        status = self.status(name)
        return status.done if status is not None else 0

    def processed(self, name: str) -> int:
        """Processed records in the application's history, counted without decoding them: cheap enough to poll."""
        try:
            return self.history_path(name).read_bytes().count(CONSUMED)
        except FileNotFoundError:
            return 0

    def runs(self, name: str) -> bool:
        return self.lab.registry.alive(name)

    def start(self, name: str, spec: specs.ProducerSpec | specs.ConsumerSpec) -> bool:
        """Start the application; False when it runs already."""
        if self.runs(name):
            return False
        self.histories.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.status_path(name).unlink(missing_ok=True)
        spec = replace(spec, application=name)
        if isinstance(spec, specs.ProducerSpec):
            spec = replace(spec, clocks=str(self.lab.root))
        if (client := self.lab.client_file()) is not None:
            spec = replace(spec, client=str(client))
        spec = replace(spec, addresses={alias: cluster.apps_bootstrap for alias, cluster in self.lab.clusters.items()})
        specs.write(self.spec_path(name), spec)
        module = "producer" if isinstance(spec, specs.ProducerSpec) else "consumer"
        self.lab.start_module(name, f"drlib.lab.apps.{module}", str(self.spec_path(name)))
        return True

    def pause(self, name: str) -> None:
        """SIGSTOP: the process stops in the middle of whatever it does; its connections stay open."""
        self.lab.registry.signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self.lab.registry.signal(name, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.lab.registry.kill(name)

    def stop(self, *names: str) -> None:
        """SIGTERM to all of them, then wait: histories end with complete lines."""
        for name in names:
            self.lab.registry.signal(name, signal.SIGTERM)
        for name in names:
            self.lab.registry.stop(name)
