"""The live view as widgets: the clock, the figure, a form for the next move, and the moves that were made.

Rules: drawn once a second by a thread of its own, from `start` until the incident is finished or `close`; the figure only when
something happened, or after ten seconds. A move that a button makes is carried out by another thread, one after the other, so
that a click is answered while a cell runs. Errors are shown in the view: what, why, remedy. Every control has a name for screen
readers and is reached by Tab. A move is chosen from lists and never typed: what the buttons call is written beside them.
Not for: what is shown (`picture`), what is offered (`form`).
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import ipywidgets

from drlib.formats import html_text
from drlib.training.incidents.live import form
from drlib.training.incidents.live.picture import LivePicture, clock_html, figure_of, moves_html
from drlib.training.incidents.live.state import LiveState
from drlib.ui.console.show.style import note, wrong
from drlib.ui.console.subshells import answer_while_busy

DRAW_S: Final = 1.0
FIGURE_S: Final = 10.0
_FIGURE_MIME: Final = ("text/plain", "application/vnd.plotly.v1+json")
_WRAP: Final = {"flex_flow": "row wrap", "align_items": "center"}


class LiveWidget:
    """`look`: the state now. `known`: names for the form. `make`: carries out a move, such as ("restart-broker", ("LEFT",),
    None), and returns its outcome. `variable`: what the notebook calls the incident, for cells. `estimates`: as in a team."""

    def __init__(
        self,
        look: Callable[[], LiveState],
        known: Callable[[], form.Known],
        make: form.Make,
        variable: str,
        *,
        estimates: bool = False,
    ) -> None:
        self._look, self._known, self._make = look, known, make
        self._variable, self._estimates = variable, estimates
        self._closed = threading.Event()
        self._drawing = threading.Lock()
        self._offering = threading.RLock()  # names come with the drawing, choices with the page
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="drlib-incident-move")
        self._thread: threading.Thread | None = None
        self._drawn: tuple[object, ...] = ()
        self._drawn_at = float("-inf")
        self._names = form.Known()
        self.clock = ipywidgets.HTML()
        self.figure = ipywidgets.Output()
        self.moves = ipywidgets.HTML()
        self.said = ipywidgets.HTML()
        self.move = _dropdown("Move", form.OFFERED)
        self.lists = tuple(_dropdown("") for _ in range(form.MOST_PARAMETERS))
        self.estimate = _dropdown("Estimate", tuple((f"{seconds} s", seconds) for seconds in form.ESTIMATES))
        self.make_it = ipywidgets.Button(
            description="Make this move", tooltip="Carry it out now; it counts", layout={"width": "auto"}
        )
        self.call = ipywidgets.HTML()
        self.cell = ipywidgets.HTML()
        self.form = ipywidgets.HBox(
            [self.move, *self.lists, self.estimate, self.make_it, self.cell, self.call], layout=_WRAP
        )
        self.box = ipywidgets.VBox([self.clock, self.figure, self.form, self.said, self.moves])
        for part, name in ((self.box, "drlib-console-widget"), (self.said, "drlib-console-said")):
            part.add_class(name)
        self.move.observe(self._offer, names="value")
        for argument in (*self.lists, self.estimate):
            argument.observe(self._written, names="value")
        self.make_it.on_click(self._pressed)
        for control in (self.move, *self.lists, self.estimate, self.make_it):
            answer_while_busy(control)
        self._offer()

    def start(self) -> None:
        """Start drawing. Safe to repeat."""
        if self._thread is None:
            self.draw()
            self._thread = threading.Thread(target=self._run, name="drlib-incident-draw", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the threads; the last picture stays, and says so. A move that was begun is ended first. Safe to repeat."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5)
        self._pool.shutdown(wait=True)
        self._disable()
        self.said.value = note("This view is closed; run its cell again for a live one.")

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    # -- drawing -------------------------------------------------------------------------------------------------------

    def draw(self) -> LiveState:
        """Show the state now; unchanged parts are not sent again."""
        with self._drawing:
            state = self._look()
            self.clock.value = clock_html(state)
            self.moves.value = moves_html(state)
            drawn = (state.periods, state.made, state.known, state.finished)
            if drawn != self._drawn or time.monotonic() - self._drawn_at >= FIGURE_S:
                self._drawn, self._drawn_at = drawn, time.monotonic()
                # the height is kept while the figure is replaced, else what is below would jump
                self.figure.layout.min_height = f"{figure_of(state).layout.height + 8}px"
                data = LivePicture(state)._repr_mimebundle_(include=_FIGURE_MIME)
                self.figure.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
            names = self._known()
            if names != self._names:
                self._names = names
                self._offer()
            return state

    def _run(self) -> None:
        while not self._closed.wait(DRAW_S):
            try:
                if self.draw().finished:
                    self._disable()
                    self._pool.shutdown(wait=False)
                    return
            except Exception as error:  # the thread continues: a view that stands still would show an old state as new
                self.said.value = wrong(error)

    # -- the form ------------------------------------------------------------------------------------------------------

    def _offer(self, _: object = None) -> None:
        """The lists of arguments for the chosen move; a list that stays the same keeps its choice."""
        with self._offering:
            self._offer_lists()
            self._written()

    def _offer_lists(self) -> None:
        name = str(self.move.value)
        parameters = form.parameters_of(name)
        for number, argument in enumerate(self.lists):
            used = number < len(parameters)
            argument.layout.display = "flex" if used else "none"
            options = form.options_of(name, parameters[number], self._names) if used else ()
            if argument.options != options:
                chosen = argument.value
                argument.options = options
                argument.value = chosen if chosen in options else next(iter(options), None)
            argument.description = parameters[number].capitalize() if used else ""
        self.estimate.layout.display = "flex" if self._estimates and form.is_estimated(name) else "none"

    def _written(self, _: object = None) -> None:
        """What the buttons do, in words."""
        name, arguments, estimate_s = self._chosen()
        text = form.call_text(self._variable, name, arguments, estimate_s)
        self.call.value = f"<span><code>{html_text(text)}</code> {html_text(form.meaning(name))}</span>"
        self.cell.value = form.cell_button(text)

    def _chosen(self) -> tuple[str, tuple[str, ...], int | None]:
        name = str(self.move.value)
        arguments = tuple(str(a.value or "") for a, _ in zip(self.lists, form.parameters_of(name), strict=False))
        return name, arguments, int(self.estimate.value) if self._estimates and form.is_estimated(name) else None

    def _pressed(self, _: object) -> None:
        name, arguments, estimate_s = self._chosen()
        self.said.value = note(f"{' '.join((name, *arguments))}: under way.")
        try:
            self._pool.submit(self._make, name, arguments, estimate_s).add_done_callback(self._told)
        except RuntimeError:  # the view was closed
            self.said.value = note("Nothing was done: this view is closed. Run its cell again.")

    def _told(self, done: Future[str]) -> None:
        error = done.exception()
        self.said.value = note(done.result()) if error is None else wrong(error)

    def _disable(self) -> None:
        for control in (self.move, *self.lists, self.estimate, self.make_it):
            control.disabled = True
        self.cell.value = ""


def _dropdown(description: str, options: tuple[object, ...] = ()) -> Any:
    return ipywidgets.Dropdown(
        options=options, description=description, layout={"width": "240px"}, style={"description_width": "76px"}
    )
