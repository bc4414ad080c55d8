"""`drlib status`: ask the clusters, ask the workers that can be heard, draw; once, or until somebody presses q.

Rules: exit code 0 when every flow mirrors and nothing is open, 3 when something is open, a lane has no owner or no worker
runs, 11 when neither cluster of a flow answers and no worker is heard. Workers are looked for at the addresses given, in
the file, and in the journal's claims (a loopback address only on the machine it belongs to).
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console
from rich.live import Live

from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, ReadinessError, Unreachable, UsageError
from drlib.mirror.monitor import worker_client as hearing
from drlib.mirror.monitor.flow_view import MIRRORING, FlowView
from drlib.mirror.monitor.survey import Survey, Surveyor
from drlib.mirror.status import worker_status as status
from drlib.ui.terminal.status import status_of

SURVEY_S = 2.0  # between two rounds of questions to the clusters, and as long as one took
LONGEST_S = 10.0
DRAW_S = 0.25
_VIEWS = TypeAdapter(FlowView)


class Watch:
    """Looks at the flows of one file as often as it is asked to."""

    def __init__(
        self, settings: MirrorSettings, *, addresses: Sequence[str], files: Sequence[Path], groups: bool
    ) -> None:
        flows = [flow for flow in settings.flows if flow.enabled]
        if not flows:
            raise UsageError(
                f"nothing to look at in {settings.path}", "no flow is enabled", "Set 'A->B.enabled = true' for a flow."
            )
        self._flows = flows
        self._surveyors = [Surveyor(settings, flow) for flow in flows]
        self._addresses = tuple(addresses)
        self._files = tuple(files)
        self._groups = groups
        self.surveys: tuple[Survey, ...] = ()

    def survey(self) -> None:
        """Ask the clusters."""

        async def ask() -> list[Survey]:
            return list(await asyncio.gather(*(s.look(groups=self._groups) for s in self._surveyors)))

        self.surveys = tuple(asyncio.run(ask()))

    def views(self) -> tuple[FlowView, ...]:
        """Ask the workers, and put it together with the newest survey."""
        return hearing.views(self.surveys, self._flows, self._addresses, [status.read(file) for file in self._files])

    def code(self, views: Sequence[FlowView]) -> int:
        """The exit code for what is seen."""
        errors = {survey.flow: survey.source_error and survey.target_error for survey in self.surveys}
        if any(errors[view.flow] and not view.workers for view in views):
            return Unreachable.exit_code
        fine = all(view.state == MIRRORING and not view.open_events for view in views)
        return 0 if fine else ReadinessError.exit_code


def as_json(views: Sequence[FlowView]) -> str:
    """Every field and the totals; null is unknown."""
    rows = []
    for view in views:
        totals = {name: getattr(view, name) for name in ("lag", "as_of_ms", "lag_bytes", "lag_s", "eta_s", "left_s")}
        rows.append({**_VIEWS.dump_python(view, mode="json"), **totals})
    return json.dumps(rows, indent=2)


def once(watch: Watch, *, as_json_text: bool, rows: int) -> int:
    """Look, print, and return the exit code."""
    watch.survey()
    views = watch.views()
    if as_json_text:
        print(as_json(views))
    else:
        Console(highlight=False).print(status_of(views, rows=rows))
    return watch.code(views)


def until_quit(watch: Watch, *, rows: int) -> int:
    """Redraw until q or Ctrl-C; returns the exit code for what was seen last."""
    console = Console(highlight=False)
    stop = threading.Event()
    failed: list[DrlibError] = []

    def survey() -> None:
        while not stop.is_set():
            began = time.monotonic()
            try:
                watch.survey()
            except DrlibError as error:
                failed.append(error)
                stop.set()
            stop.wait(max(SURVEY_S, min(LONGEST_S, time.monotonic() - began)))

    threading.Thread(target=survey, name="survey", daemon=True).start()
    views: tuple[FlowView, ...] = ()
    with _keys() as pressed, Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        try:
            while not stop.is_set():
                if watch.surveys:
                    views = watch.views()
                    live.update(status_of(views, rows=rows, footer="q quits"), refresh=True)
                if pressed(DRAW_S) in ("q", "Q", "\x03"):
                    break
        except KeyboardInterrupt:
            pass
        finally:
            stop.set()
    if failed:
        raise failed[0]
    return watch.code(views) if views else ReadinessError.exit_code


@contextmanager
def _keys() -> Iterator[KeyReader]:
    """Keys one by one where there is a keyboard; anywhere else only time passes."""
    if not sys.stdin.isatty():
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
    """Call it with seconds: the next key within them, or an empty string."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __call__(self, wait_s: float) -> str:
        if self._descriptor is None:
            time.sleep(wait_s)
            return ""
        ready, _, _ = select.select([self._descriptor], [], [], wait_s)
        return sys.stdin.read(1) if ready else ""
