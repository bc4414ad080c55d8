"""Print a worker's status line by line on a terminal: changes of its state, and each event once."""

from rich.console import Console

from drlib.mirror.status.worker_status import WorkerStatus


class StatePrinter:
    """Called with every status, prints what is new to stderr. `prefix` names the worker where there are several."""

    def __init__(self, console: Console | None = None, prefix: str = "") -> None:
        self._prefix = f"{prefix} " if prefix else ""
        self._console = console or Console(stderr=True)
        self._shown: set[tuple[str, str]] = set()
        self._last = ""

    def __call__(self, state: WorkerStatus) -> None:
        if state.state not in ("starting", "failed", self._last):  # a failure is reported by the command's error
            self._last = state.state
            flows = ", ".join(f"{f.flow} ({len(f.partitions)} partitions)" for f in state.flows)
            where = f", /status and /metrics at http://{state.address}" if state.address else ""
            self._print(f"{state.state}: {flows}{where}")
        for event in state.events:
            key = (event.name, f"{event.entity}{event.opened_ms}{event.resolved_ms}")
            if key not in self._shown:
                self._shown.add(key)
                label, remedy = ("resolved", "") if event.resolved_ms else ("open", f" {event.remedy}")
                self._print(f"{label}: {event.name} {event.entity}: {event.detail}.{remedy}")

    def _print(self, line: str) -> None:
        self._console.print(f"{self._prefix}{line}", highlight=False, markup=False, soft_wrap=True)
