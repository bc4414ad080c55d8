"""A drill's board in a notebook: one display, redrawn while cells run and left unchanged when they ended.

Rules: redrawn at most four times a second; text and HTML, so that a notebook executed by papermill keeps the last picture and
a terminal has one too; a step's state is a word, never a colour alone; everything is escaped; times are UTC. Outside a
notebook nothing is drawn. While a step waits for approval the board has buttons where the notebook takes input (not under
papermill), and says what follows a click: the waiting cell continues, or has to be run again.
"""

import getpass
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from drlib.drill.run import approvals
from drlib.drill.run.approvals import APPROVED_FILE
from drlib.drill.session.board import BoardState, Stand, StepStand, Waits
from drlib.drill.session.session import DrillSession
from drlib.errors import DrlibError
from drlib.formats import html_text
from drlib.kafka.protocol.error_codes import UNAUTHORIZED
from drlib.kafka.security.errors import CANNOT_USE
from drlib.mirror.monitor.survey import Survey
from drlib.ui.console.show.front_end import display_controls
from drlib.ui.console.show.style import FOCUS
from drlib.ui.console.subshells import answer_while_busy, clicks_are_answered

LEAST_S: Final = 0.25
SUBSHELL_S: Final = 15.0  # after the buttons were displayed: a front end asks for a subshell once it has received them
MARKS: Final = {
    Stand.WAITING: "\u00b7",
    Stand.RUNNING: "\u25b6",
    Stand.DONE: "\u2713",
    Stand.FAILED: "\u2717",
    Stand.UNDOING: "\u21ba",
    Stand.UNDONE: "\u21ba",
    Stand.STOPPED: "\u25a0",
}
_STYLE: Final = (
    "border:1px solid var(--jp-border-color2,#ccc);border-radius:4px;padding:8px 12px;margin:4px 0;"
    "font-family:var(--jp-ui-font-family,sans-serif);font-size:13px;overflow-wrap:anywhere"
)


def attended_kernel() -> bool:
    """Does the front end take input? JupyterLab says so with each cell; papermill and nbconvert do not (`allow_stdin`)."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))


class ApprovalButtons:
    """A name field, a button that approves the waiting step, and one that aborts; hidden while no step waits."""

    def __init__(self, session: DrillSession) -> None:
        import ipywidgets

        self._session = session
        self._step = ""
        whole = {"description_width": "initial"}  # else the label is cut off
        self.name = ipywidgets.Text(
            value=_login(),
            description="Approved by",
            continuous_update=False,  # one message: a click must not overtake the letters
            style=whole,
            layout={"width": "280px"},
        )
        # Without icons: a glyph would be read as a part of a button's name.
        self.approve = ipywidgets.Button(button_style="success", layout={"width": "auto"})
        self.abort = ipywidgets.Button(
            description="Abort the drill",
            tooltip="Stop here, and roll back as the drill's strategy says",
            layout={"width": "auto"},
        )
        self.said = ipywidgets.Label()
        self.box = ipywidgets.HBox([self.name, self.approve, self.abort, self.said], layout={"flex_flow": "row wrap"})
        self.box.add_class("drlib-console-widget")
        self.said.add_class("drlib-board-said")
        self.approve.on_click(self._approved)
        self.abort.on_click(self._aborted)
        for widget in (self.name, self.approve, self.abort):
            answer_while_busy(widget)

    def show(self, waits: Waits | None) -> None:
        self.box.layout.display = "none" if waits is None else "flex"
        self._step = "" if waits is None else waits.step
        if waits is not None:
            self.approve.description = f"Approve {waits.step}"
            self.approve.disabled = self.name.disabled = bool(waits.approved_by)
            self.said.value = _next(waits)

    def _approved(self, _: object) -> None:
        try:
            self._session.approve(self._step, self.name.value)
        except DrlibError as error:
            self.said.value = str(error)

    def _aborted(self, _: object) -> None:
        self.approve.disabled = self.abort.disabled = True
        self.said.value = "aborting"
        self._session.abort_paused(f"{' '.join(self.name.value.split()) or 'unknown user'}, by the board's button")


def _next(waits: Waits) -> str:
    """What happens next, shown beside the buttons."""
    if not waits.approved_by:
        return "the cell is waiting and continues once you approve" if waits.attended else "then run the cell again"
    return f"approved by {waits.approved_by}: {'the cell continues' if waits.attended else 'run the cell again'}"


def _login() -> str:
    """The login name of the kernel's user; empty where the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


class LiveBoard:
    """Draws with IPython's display, under one display ID.

    `attended`: does the notebook take input? `answered`: also while a cell runs? `present`: is its page connected?
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        attended: Callable[[], bool] = attended_kernel,
        answered: Callable[[], bool] = clicks_are_answered,
        present: Callable[[], bool] = lambda: True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._attended = attended
        self._answered = answered
        self._present = present
        self._handle: Any = None
        self._drawn = self._opened = float("-inf")
        self.buttons: ApprovalButtons | None = None

    def open(self, state: BoardState, session: DrillSession) -> None:
        from IPython.display import display

        self._handle = display(Picture(state), display_id=True)  # type: ignore[no-untyped-call]
        self._drawn = self._opened = self._clock()
        self.buttons = ApprovalButtons(session) if self._attended() else None
        if self.buttons is not None:
            display_controls(self.buttons.box)
            self.buttons.show(state.waits)

    def update(self, state: Callable[[], BoardState]) -> None:
        if self._clock() - self._drawn >= LEAST_S:
            self.redraw(state())

    def redraw(self, state: BoardState) -> None:
        if self._handle is not None:
            self._handle.update(Picture(state))
            self._drawn = self._clock()
        if self.buttons is not None:
            self.buttons.show(state.waits)

    def answers(self) -> bool:
        """Is a click on the buttons answered while a cell runs? Waits for a front end that has just received them."""
        if self.buttons is None or not self._attended() or not self._present():
            return False
        while not self._answered():
            if self._clock() - self._opened >= SUBSHELL_S:
                return False
            self._sleep(LEAST_S)
        return True


class Picture:
    """One state, as text and as HTML."""

    def __init__(self, state: BoardState) -> None:
        self.state = state
        self.at = datetime.now(UTC)

    def __repr__(self) -> str:
        steps = [f"{MARKS[s.stand]} {s.name}: {_stand(s)}" for s in self.state.steps]
        lines = (": ".join(pair) for pair in _seen(self.state))
        banner = [] if self.state.banner is None else [str(self.state.banner)]
        return "\n".join([*banner, self._title(), *steps, *lines, *_waits(self.state.waits), *self._note()])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        steps = "".join(
            f"<tr><td>{MARKS[s.stand]}</td><td>{html_text(s.title)}</td><td>{html_text(_stand(s))}</td></tr>"
            for s in self.state.steps
        )
        rows = "".join(
            f"<tr><th scope='row'>{html_text(a)}</th><td>{html_text(b)}</td></tr>" for a, b in _seen(self.state)
        )
        waits = "".join(f"<p>{html_text(text)}</p>" for text in _waits(self.state.waits))
        note = "".join(f"<p>{html_text(text)}</p>" for text in self._note())
        page = (
            f'{FOCUS}<div style="{_STYLE}" role="region" aria-label="Board of the drill">'
            f"{'' if self.state.banner is None else self.state.banner.html()}<b>{html_text(self._title())}</b>"
            '<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start">'
            f"<table><caption>Steps</caption>{steps}</table>"
            f"<table><caption>Flow and groups</caption>{rows}</table></div>{waits}{note}</div>"
        )
        return {"text/plain": repr(self), "text/html": page}

    def _title(self) -> str:
        drill = self.state.drill
        done = sum(step.stand in {Stand.DONE, Stand.UNDONE} for step in self.state.steps)  # undone: it was done before
        return f"{drill.name}: {done} of {len(self.state.steps)} steps, {drill.flow}, {self.at:%H:%M:%S} UTC"

    def _note(self) -> Iterator[str]:
        if self.state.note and self.state.waits is None:
            yield self.state.note
        if self.state.unseen:
            yield f"The clusters could not be read: {self.state.unseen}"


def _waits(waits: Waits | None) -> Iterator[str]:
    if waits is None:
        return
    if waits.approved_by:
        then = "the run continues" if waits.attended else "the run is paused and continues when its cell is run again"
        yield f"{waits.step} was approved by {waits.approved_by}; {then}."
    else:
        yield (
            f"{waits.step} ({waits.title}) waits for approval: press the button, or put a line "
            f"'{approvals.line(waits.step, waits.plan)}' into {APPROVED_FILE} in the run's folder."
        )
        if waits.refused:
            yield f"Not approved by what is there: {'; '.join(waits.refused)}."
        yield (
            "Its cell is waiting and continues by itself; interrupt the kernel to leave the run paused."
            if waits.attended
            else "The run is paused: once it is approved, run its cell again."
        )
    yield f"It changes {'; '.join(waits.changes) or 'nothing that was planned'}."
    if waits.later:
        yield f"Later steps that need approval: {', '.join(waits.later)}."


def _stand(step: StepStand) -> str:
    return step.stand.value if step.seconds is None else f"{step.stand.value}, {step.seconds:.1f} s"


def _seen(state: BoardState) -> Iterator[tuple[str, str]]:
    if state.survey is None:
        return
    survey = state.survey
    yield f"flow {survey.flow}", _lag(survey)
    for error, side in ((survey.source_error, "source"), (survey.target_error, "target")):
        if error:
            yield side, error if UNAUTHORIZED in error or CANNOT_USE in error else f"does not answer: {error}"
    for event in survey.events:
        if event.resolved_ms is None and not event.name.endswith("Unreachable"):
            yield event.name, f"{event.entity}: {event.detail}"
    for group in survey.groups or ():
        lag = "unknown" if group.lag is None else f"{group.lag:,} records"
        yield (
            f"group {group.group}",
            f"lag {lag}; positions {group.exact} exact, {group.behind} behind, "
            + (f"{group.bounded} with records read again, " if group.bounded else "")
            + f"{group.other - group.bounded} not translatable",
        )


def _lag(survey: Survey) -> str:
    known = [p for p in survey.partitions if p.known]
    if not known:
        return "lag unknown"
    seconds = [p.outlook.lag_s for p in known if p.outlook.lag_s is not None]
    behind = f", {max(seconds):.1f} s" if seconds else ""
    return f"lag {sum(p.lag for p in known):,} records{behind}, {len(known)} partitions"
