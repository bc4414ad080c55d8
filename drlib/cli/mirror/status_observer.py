"""`drlib status`: survey the clusters, ask the workers, print; once, or until q is pressed.

Rules: exit code 0 when every flow mirrors and no event is open; 3 when an event is open, a lane has no owner or no worker
runs; 11 when neither cluster of a flow answers and no worker does. Workers are asked at the addresses given, at the one in
the file, and at those in the journal's claims (a loopback address only on the machine that it belongs to). While a side does
not answer, the gate of an emergency failover is checked beside the survey, so that both end within ten seconds.
"""

import json
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from pydantic import TypeAdapter
from rich.live import Live

from drlib import clock
from drlib.config.settings import MirrorSettings
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import Readiness
from drlib.drill.run.request import ClusterTarget
from drlib.drill.session import left_behind, unfinished_runs
from drlib.drill.session.left_behind import LeftBehind
from drlib.drill.session.unfinished_runs import UnfinishedRuns
from drlib.drill.step.known_silence import AGAIN_S
from drlib.errors import ReadinessError, Unreachable, UsageError
from drlib.kafka.admin.reachability import ClusterService, examine
from drlib.mirror.monitor.flow_view import MIRROR_MAKER, MIRRORING, FlowView
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.polling_thread import PollingThread
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status import worker_status
from drlib.outgoing.terminal import can_ask, show
from drlib.ui.terminal.plain_console import plain_console
from drlib.ui.terminal.status import gate_of, loss, render_status

SURVEY_INTERVAL_S = 2.0  # pause between two surveys, or as long as one took
LONGEST_PAUSE_S = 10.0
REDRAW_S = 0.25
UNFINISHED_INTERVAL_S = 10.0  # between two looks at the state of drills, with --watch
RUNS = Path("runs")
_VIEWS = TypeAdapter(FlowView)


class StatusObserver:
    """Observes the enabled flows of one file. `files`: status files of workers; `runs_dir`: where run folders are.

    Raises `UsageError` when there is no flow.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        *,
        addresses: Sequence[str],
        files: Sequence[Path],
        groups: bool,
        runs_dir: Path = RUNS,
    ) -> None:
        flows = [flow for flow in settings.flows if flow.enabled]
        if not flows:
            raise UsageError(
                f"{settings.path} has no flow to show", "no flow is enabled", "Set 'A->B.enabled = true' for a flow."
            )
        self._flows = [(settings, flow) for flow in flows]
        self._observer = FlowObserver(addresses=addresses, groups=groups)
        self._files = tuple(files)
        self._settings, self._runs_dir = settings, runs_dir
        self._unfinished_at = -UNFINISHED_INTERVAL_S
        self._left_at = -UNFINISHED_INTERVAL_S
        self.unfinished = unfinished_runs.NONE
        self.left: tuple[LeftBehind, ...] = ()
        self.readiness: Mapping[str, Readiness] = {}  # of flows that lost a side, as of the newest survey

    @property
    def surveys(self) -> tuple[Survey, ...]:
        """The newest survey of each flow; empty before the first."""
        return self._observer.surveys

    def survey(self) -> None:
        """Ask the clusters, first whether all their brokers answer. Blocks; unfinished runs are asked for at the same time."""
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(self._find_unfinished)
            self._ask()
            asked.result()

    def _find_unfinished(self) -> None:
        if time.monotonic() - self._unfinished_at < UNFINISHED_INTERVAL_S:
            return
        flows = [(each.flow, self._settings.clusters[each.flow.target]) for _, each in self._flows]
        place = ClusterTarget(properties=self._settings.path.absolute())
        self.unfinished = unfinished_runs.find(flows, self._runs_dir, place)
        self._unfinished_at = time.monotonic()

    def _find_left(self, silent: Mapping[str, str]) -> None:
        """Who was left behind by the newest moves. Blocks for a few seconds at most."""
        place = ClusterTarget(properties=self._settings.path.absolute())
        moves = left_behind.newest_moves(self._runs_dir, [each.flow for _, each in self._flows], place)
        self.left = tuple(left_behind.look(self._settings, move, silent=silent) for move in moves)

    def _ask(self) -> None:
        settings = self._settings
        aliases = {alias for _, flow in self._flows for alias in (flow.flow.source, flow.flow.target)}
        services = examine([settings.clusters[alias] for alias in sorted(aliases)], {})
        silent = {alias: each.why for alias, each in services.items() if isinstance(each, Unreachable)}
        with ThreadPoolExecutor(1, "left-behind") as beside:
            left = beside.submit(self._find_left, silent) if self._left_due() else None
            self._survey(services, silent)
            if left is not None:
                left.result()

    def _left_due(self) -> bool:
        if time.monotonic() - self._left_at < UNFINISHED_INTERVAL_S:
            return False
        self._left_at = time.monotonic()
        return True

    def _survey(self, services: Mapping[str, ClusterService | Unreachable], silent: Mapping[str, str]) -> None:
        settings = self._settings
        lost = {*silent, *(alias for alias, each in services.items() if alias not in silent and _in_part(each))}
        if not lost:
            self.readiness = {}
            self._observer.survey_blocking(self._flows)
            return
        affected = [each.flow for _, each in self._flows if {each.flow.source, each.flow.target} & lost]
        with ThreadPoolExecutor(1 + len(affected), "status") as pool:
            errors = {alias: each for alias, each in services.items() if isinstance(each, Unreachable)}
            checks = [pool.submit(doctor, settings, flow=each, silent=errors, answer_s=AGAIN_S) for each in affected]
            self._observer.survey_blocking(self._flows, silent, AGAIN_S)
            self.readiness = {one.flow: one for check in checks for one in check.result()}

    def views(self) -> tuple[FlowView, ...]:
        """Ask the workers, and combine their answers with the newest surveys."""
        return self._observer.views([worker_status.read(file) for file in self._files])

    def exit_code(self, views: Sequence[FlowView]) -> int:
        """The exit code for what `views` show."""
        errors = {survey.flow: survey.source_error and survey.target_error for survey in self.surveys}
        if any(errors[view.flow] and not view.workers for view in views):
            return Unreachable.exit_code
        healthy = all(view.state in (MIRRORING, MIRROR_MAKER) and not view.open_events for view in views)
        return 0 if healthy else ReadinessError.exit_code


def _in_part(service: ClusterService | Unreachable) -> bool:
    return isinstance(service, ClusterService) and bool(service.silent)


def _failover(view: FlowView, readiness: Mapping[str, Readiness]) -> dict[str, str]:
    """What a failover would lose, and whether its gate is open; nothing while both sides answer."""
    if not (view.source_error or view.target_error):
        return {}
    gate, why = gate_of(view, readiness.get(view.flow))
    return {"loses_at_most": loss(view), "emergency_gate": gate, "emergency_gate_why": why}


def as_json(
    views: Sequence[FlowView],
    unfinished: UnfinishedRuns = unfinished_runs.NONE,
    readiness: Mapping[str, Readiness] = MappingProxyType({}),
    left: Sequence[LeftBehind] = (),
) -> str:
    """A JSON list of every field of every flow, its totals, its unfinished run, and who was left behind by the newest move
    along it; null is unknown, and no such run or move."""
    rows = []
    for view in views:
        numbers = ("lag", "lag_at_least", "as_of_ms", "lag_bytes", "lag_s", "eta_s", "left_s")
        totals = {name: getattr(view, name) for name in numbers}
        run = unfinished.of(view.flow)
        more = {
            "unfinished_run": None if run is None else asdict(run),
            "left_behind": _left_json(view.flow, left),
            "unfinished_unknown": dict(unfinished.unknown).get(view.flow, ""),
        }
        rows.append({**_VIEWS.dump_python(view, mode="json"), **totals, **more, **_failover(view, readiness)})
    return json.dumps(rows, indent=2)


def _left_json(flow: str, left: Sequence[LeftBehind]) -> dict[str, object] | None:
    """The move along `flow`, and who is left; None where the newest move did not go that way."""
    found = next((each for each in left if str(each.move.kept.flow) == flow), None)
    if found is None:
        return None
    rows = [{"name": one.application.name, "stand": one.stand.value, "why": one.why} for one in found.left]
    kept = found.move.kept
    return {"run": kept.run, "moved_ms": found.move.moved_ms, "unknown": list(found.unknown), "applications": rows}


def first_lines(observer: StatusObserver) -> Sequence[str]:
    """What comes before the flows: their unfinished runs, and who was left behind by the newest moves."""
    return (*unfinished_runs.lines(observer.unfinished, clock.now_ms()), *left_behind.lines(observer.left))


def print_once(observer: StatusObserver, *, as_json_text: bool, rows: int) -> int:
    """Observe once, print, and return the exit code."""
    observer.survey()
    views = observer.views()
    if as_json_text:
        show(as_json(views, observer.unfinished, observer.readiness, observer.left))
    else:
        first = first_lines(observer)
        plain_console().print(render_status(views, rows=rows, first=first, readiness=observer.readiness))
    return observer.exit_code(views)


def watch(observer: StatusObserver, *, rows: int) -> int:
    """Redraw until q or Ctrl-C; returns the exit code for the last state drawn."""
    console = plain_console()
    thread = PollingThread(
        observer.survey, name="survey", interval_s=SURVEY_INTERVAL_S, longest_pause_s=LONGEST_PAUSE_S
    )
    thread.start()
    views: tuple[FlowView, ...] = ()
    with _keyboard() as read_key, Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        try:
            while not thread.closed:
                if observer.surveys:
                    views = observer.views()
                    live.update(
                        render_status(
                            views,
                            rows=rows,
                            footer="q quits",
                            first=first_lines(observer),
                            readiness=observer.readiness,
                        ),
                        refresh=True,
                    )
                if read_key(REDRAW_S) in ("q", "Q", "\x03"):
                    break
        except KeyboardInterrupt:
            pass
        finally:
            thread.close()
    if thread.error is not None:
        raise thread.error
    return observer.exit_code(views) if views else ReadinessError.exit_code


@contextmanager
def _keyboard() -> "Iterator[KeyReader]":
    """Read single keys where standard input is a terminal; elsewhere the reader only waits."""
    if not can_ask():
        yield KeyReader(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield KeyReader(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class KeyReader:
    """Called with seconds, returns the next key pressed within them, or an empty string."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __call__(self, wait_s: float) -> str:
        if self._descriptor is None:
            time.sleep(wait_s)
            return ""
        ready, _, _ = select.select([self._descriptor], [], [], wait_s)
        return sys.stdin.read(1) if ready else ""
