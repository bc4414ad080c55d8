"""The live console in a notebook: the picture, the drill's abort button, and on a lab the buttons for faults and repairs.

Rules: a callback only queues the request; the console's own thread carries it out, so a click is answered while a cell runs
or a broker starts. Drawn at most four times a second, and only when something changed. A dangerous button first shows what
it will change and asks for the cluster's name; Enter confirms it, Escape leaves it
(`show.front_end`). Errors are shown in the widget: what, why, remedy. Every control has a name for screen readers and is
reached by Tab; the focus moves to a plan when it is shown, and back when it is dismissed. `close` ends the console's threads,
and no drill, mirror or broker.
Not for: the state (`watcher`), what a fault does (`faults`).
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import ipywidgets

from drlib.drill.session import find_running as running
from drlib.errors import UsageError
from drlib.formats import html_text
from drlib.lab.lab import Lab
from drlib.runs.abort import user_name
from drlib.ui.console import faults
from drlib.ui.console.picture import html_of
from drlib.ui.console.show import front_end
from drlib.ui.console.show.browser import Browser
from drlib.ui.console.show.remedies import MIRROR, Remedy, remedies
from drlib.ui.console.show.style import note, wrong
from drlib.ui.console.state import ConsoleState
from drlib.ui.console.subshells import answer_while_busy
from drlib.ui.console.watcher import Watching

DRAW_S: Final = 0.25


class ConsoleWidget:
    """Draws what `watching` finds, on threads of its own, from `start` to `close`."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._lab = watching.subject.lab
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="drlib-console-work")
        self._thread: threading.Thread | None = None
        self._pending = ""
        self._shown = ""
        self.picture = ipywidgets.HTML()
        self.said = ipywidgets.HTML()
        self.abort = front_end.button("Abort the drill", "Stop the drill, and roll back as its strategy says")
        self.drill_row = ipywidgets.HBox([self.abort])
        self.cluster = ipywidgets.Dropdown(
            options=list(self._lab.clusters) if self._lab else [], description="Cluster", layout={"width": "220px"}
        )
        self.buttons = {fault.name: _fault_button(fault) for fault in faults.FAULTS}
        self.plan = ipywidgets.HTML()
        self.typed = ipywidgets.Text(
            continuous_update=False,  # one message: a click must not overtake the letters
            description="Its name",
            placeholder="type it to confirm",
            layout={"width": "260px"},
        )
        self.confirm = front_end.button("Do it", "Carry out what the plan says")
        self.leave = front_end.button("Leave it", "Change nothing")
        self.confirm_row = ipywidgets.HBox(
            [self.plan, self.typed, self.confirm, self.leave], layout={"flex_flow": "row wrap"}
        )
        self.lab_row = ipywidgets.HBox([self.cluster, *self.buttons.values()], layout={"flex_flow": "row wrap"})
        self.remedy_row = ipywidgets.HBox([], layout={"flex_flow": "row wrap", "display": "none"})
        self._offered: tuple[Remedy, ...] = ()
        self._remedies: dict[Remedy, Any] = {}
        self.browser = Browser(watching.settings, watching.state, self._read)
        parts = [
            self.drill_row,
            self.picture,
            self.remedy_row,
            self.lab_row,
            self.confirm_row,
            self.said,
            self.browser.box,
        ]
        self.box = ipywidgets.VBox(parts)
        for part, name in ((self.box, "drlib-console-widget"), (self.said, "drlib-console-said")):
            part.add_class(name)
        for part, name in (
            (self.confirm_row, front_end.CONFIRM),
            (self.confirm, front_end.DO),
            (self.leave, front_end.LEAVE),
        ):
            part.add_class(name)
        self.confirm_row.layout.display = "none"
        self.drill_row.layout.display = "none"
        if self._lab is None:
            self.lab_row.layout.display = "none"
        self.abort.on_click(self._answered(self._abort))
        self.confirm.on_click(self._answered(self._confirmed))
        self.leave.on_click(self._answered(self._leave))
        for name, button in self.buttons.items():
            button.on_click(self._answered(partial(self._pressed, name)))
        self.cluster.observe(lambda _: self._left(), names="value")  # a plan is about the cluster it was shown for
        for button, callback in self.browser.callbacks():
            button.on_click(self._answered(callback))
        named = (self.abort, self.cluster, self.typed, self.confirm, self.leave)
        for control in (*named, *self.buttons.values(), *self.browser.controls):
            answer_while_busy(control)

    def start(self) -> None:
        """Start observing and drawing. Safe to repeat."""
        if self._thread is None:
            self.draw(self._watching.state())
            self._watching.start()
            self._thread = threading.Thread(target=self._run, name="drlib-console-draw", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the console's threads; the last picture stays, and says so. What was begun is ended first."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._watching.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5)
        self._pool.shutdown(wait=True)
        self.browser.close()
        self._offer(())
        for control in (self.abort, self.cluster, self.confirm, *self.buttons.values()):
            control.disabled = True
        self.said.value = note("This console is closed; run its cell again for a live one.")

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    # -- drawing -------------------------------------------------------------------------------------------------------

    def draw(self, state: ConsoleState) -> None:
        """Show `state`; unchanged parts are not sent again."""
        page = html_of(state)
        if page != self._shown:
            self._shown = page
            self.picture.value = page
        drill = state.drill
        self.drill_row.layout.display = "flex" if drill is not None and drill.alive else "none"
        disabled = drill is None or not drill.abortable
        if self.abort.disabled != disabled:
            self.abort.disabled = disabled
        self.browser.draw(state)
        self._offer(remedies(state, lab=self._lab is not None))

    def _offer(self, offered: tuple[Remedy, ...]) -> None:
        """Buttons for the remedies of open alerts. A remedy's button is made once, so that the focus stays, and is not closed
        while it is out of sight: a page that is loaded at that moment would look for a child that is gone, and report it."""
        if offered == self._offered:
            return
        for remedy in offered:
            if remedy not in self._remedies:
                self._remedies[remedy] = button = front_end.button(
                    remedy.label, "Remedy of an open alert; takes nothing away"
                )
                button.on_click(self._answered(partial(self._remedy, remedy)))
                answer_while_busy(button)
        self._offered = offered
        buttons = [self._remedies[remedy] for remedy in offered]
        self.remedy_row.children = buttons
        self.remedy_row.layout.display = "flex" if buttons else "none"

    def _run(self) -> None:
        while not self._closed.wait(DRAW_S):
            if self._watching.resting:
                continue
            try:
                self.draw(self._watching.state())
            except (
                Exception
            ) as error:  # the thread continues: a console that stands still would show an old state as new
                self.said.value = wrong(error)

    # -- what may be pressed -------------------------------------------------------------------------------------------

    def _answered(self, ask: Callable[[], None]) -> Callable[[object], None]:
        """A callback whose errors are shown where the button is."""

        def call(_: object) -> None:
            try:
                if self._closed.is_set():
                    raise UsageError("nothing was done", "this console is closed", "Run its cell again.")
                ask()
            except Exception as error:
                self.said.value = wrong(error)

        return call

    def _abort(self) -> None:
        run = self._watching.run()
        if run is None:
            raise UsageError("nothing was aborted", "no drill runs here", "See the picture above.")
        running.abort(run, f"{user_name()}, by the console")
        self.abort.disabled = True
        self.said.value = note(f"{run.plan.drill.name} was asked to stop; it rolls back by its strategy.")

    def _pressed(self, name: str) -> None:
        chosen, alias = faults.fault(name), str(self.cluster.value)
        if not chosen.dangerous:
            self._left()
            return self._do(name, alias, "")
        self._pending = name
        self.plan.value = (
            f'<div role="alert"><b>{html_text(chosen.label)} of {html_text(alias)}.</b> '
            f"{html_text(chosen.plan(alias))} <b>Type {html_text(alias)} to confirm.</b></div>"
        )
        self.typed.value = ""
        self.confirm.description = f"{chosen.label} of {alias}"
        self.confirm_row.layout.display = "flex"
        self.said.value = ""
        self.typed.focus()  # without a mouse every button would come before it
        return None

    def _remedy(self, remedy: Remedy) -> None:
        self._left()
        if remedy.act != MIRROR:
            return self._do(remedy.act, remedy.of, "")
        self.said.value = note(f"{remedy.label}: under way.")
        self._pool.submit(faults.start_mirror, self._lab_now(), remedy.of).add_done_callback(self._told)
        return None

    def _confirmed(self) -> None:
        name, alias, typed = self._pending, str(self.cluster.value), str(self.typed.value)
        if not name:
            raise UsageError("nothing was done", "no button waits to be confirmed", "Press one first.")
        if typed.strip() != alias:  # said at once, and the plan stays
            faults.carry_out(self._lab_now(), name, alias, typed)
        self._leave()
        self._do(name, alias, typed)

    def _leave(self) -> None:
        """Hide the plan and return the focus to its button: on a hidden control it would be lost."""
        asked = self.buttons.get(self._pending)
        self._left()
        if asked is not None:
            asked.focus()

    def _left(self) -> None:
        self._pending = ""
        self.confirm_row.layout.display = "none"
        self.said.value = ""

    def _do(self, name: str, alias: str, typed: str) -> None:
        """On the console's own thread, one after the other."""
        lab = self._lab_now()
        self.said.value = note(f"{faults.fault(name).label} of {alias}: under way.")
        self._pool.submit(faults.carry_out, lab, name, alias, typed).add_done_callback(self._told)

    def _told(self, done: Future[str]) -> None:
        error = done.exception()
        self.said.value = note(done.result()) if error is None else wrong(error)

    def _read(self, error: BaseException | None) -> None:
        """How a read of the browser went; None: it begins."""
        self.said.value = note("") if error is None else wrong(error)

    def _lab_now(self) -> Lab:
        """The lab, read from its folder. Raises `UsageError` where there is none."""
        lab = self._watching.lab()
        if lab is None:
            raise UsageError("nothing was done", "these clusters are no lab", "Faults are for a lab alone.")
        return lab


def _fault_button(fault: faults.Fault) -> Any:
    return front_end.button(
        f"{fault.label}\u2026" if fault.dangerous else fault.label, fault.changes.format(alias="the cluster chosen")
    )
