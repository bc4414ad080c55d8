"""What a worker says of itself, line by line on a terminal: states as they change, events once each."""

from __future__ import annotations

from rich.console import Console

from drlib.mirror.status.worker_status import WorkerStatus


class StatePrinter:
    """Give it every state; it prints what is new on stderr. Nothing has started before both clusters answered."""

    def __init__(self, console: Console | None = None, who: str = "") -> None:
        self._who = f"{who} " if who else ""
        self._console = console or Console(stderr=True)
        self._shown: set[tuple[str, str]] = set()
        self._last = ""

    def __call__(self, state: WorkerStatus) -> None:
        if state.state not in ("starting", "failed", self._last):  # the error that ends it says why it failed
            self._last = state.state
            flows = ", ".join(f"{f.flow} ({len(f.partitions)} partitions)" for f in state.flows)
            where = f", /status and /metrics at http://{state.address}" if state.address else ""
            self._print(f"{state.state}: {flows}{where}")
        for event in state.events:
            key = (event.name, f"{event.entity}{event.opened_ms}{event.resolved_ms}")
            if key not in self._shown:
                self._shown.add(key)
                word, then = ("resolved", "") if event.resolved_ms else ("open", f" {event.remedy}")
                self._print(f"{word}: {event.name} {event.entity}: {event.detail}.{then}")

    def _print(self, line: str) -> None:
        self._console.print(f"{self._who}{line}", highlight=False, markup=False, soft_wrap=True)
