"""The replay of a finished incident: an animated figure, in a notebook with buttons and a list that work by keyboard.

Rules: without widgets it is a table of the events with plotly's animation, whose own controls need a pointer. With widgets the
figure is drawn for the event that the list names; nothing moves before *Play* is pressed, and *Next event* moves by one.
Not for: the figure (`drlib.training.incidents.reveal_figure`).
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from drlib.formats import html_text
from drlib.runs.table import PLOTLY, Table
from drlib.training.incidents.reveal_figure import replay_figure
from drlib.training.incidents.rules.reveal import Reveal
from drlib.ui.console.board import attended_kernel
from drlib.ui.console.subshells import answer_while_busy

PLAY, STOP, NEXT = "Play", "Stop", "Next event"
_SHORTEST_S: Final = 0.3  # a picture crosses from the kernel to the page
_LONGEST_S: Final = 2.0


class ReplayShown:
    """The events of `reveal`, played `speed` times as fast. Raises `UsageError` for a speed that is not positive."""

    def __init__(
        self, reveal: Reveal, started_ms: int, speed: float, *, attended: Callable[[], bool] = attended_kernel
    ) -> None:
        self._figure = replay_figure(reveal, started_ms, speed)
        self._speed = speed
        self._attended = attended
        rows = [
            {"second": round(entry.at_s, 1), "part": entry.track.value, "what": entry.text, "state": entry.state}
            for entry in reveal.entries
        ]
        self.table = Table(f"Replay: {reveal.title}", rows, figure=self._figure)
        self.widget: ReplayWidget | None = None

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> dict[str, object]:
        return self.table._repr_mimebundle_(include, exclude)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        if not self._attended() or not self._figure.frames:
            display(self.table)  # type: ignore[no-untyped-call]
            return
        display(Table(self.table.title, self.table.rows))  # type: ignore[no-untyped-call]
        display(self.controls().box)  # type: ignore[no-untyped-call]

    def controls(self) -> "ReplayWidget":
        whole = self.table._repr_mimebundle_()[PLOTLY]
        assert isinstance(whole, dict)
        self.widget = ReplayWidget(whole, self._speed)
        return self.widget


class ReplayWidget:
    """Buttons, the list of moments, what happened then, and the figure up to there. `figure`: plotly's JSON, with frames."""

    def __init__(self, figure: dict[str, Any], speed: float) -> None:
        import ipywidgets

        self._frames, self._moments = figure["frames"], figure["layout"]["meta"]["replay"]
        self._layout = _without_controls(figure["layout"])
        self._speed = speed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        words = [f"after {one['after_s']:.1f} s" for one in self._moments]
        self.play = ipywidgets.Button(description=PLAY, tooltip="Show the events one after the other")
        self.next = ipywidgets.Button(description=NEXT, tooltip="Show one event more; from the last one the first")
        self.moments = ipywidgets.Dropdown(
            options=[(text, number) for number, text in enumerate(words)], value=len(words) - 1, description="Moment"
        )
        self.said = ipywidgets.HTML()
        self.figure = ipywidgets.Output(layout={"min_height": f"{self._layout['height'] + 8}px"})
        row = ipywidgets.HBox([self.play, self.next, self.moments], layout={"flex_flow": "row wrap"})
        self.box = ipywidgets.VBox([row, self.said, self.figure])
        self.play.on_click(lambda _: self.pressed())
        self.next.on_click(lambda _: self.step())
        self.moments.observe(lambda change: self._draw(int(change["new"])), names="value")
        for control in (self.play, self.next, self.moments):
            answer_while_busy(control)
        self._draw(self.last)

    @property
    def last(self) -> int:
        """The number of the last moment."""
        return len(self._moments) - 1

    def step(self) -> None:
        """Show one event more, and stop playing."""
        self.stop()
        self._forward()

    def pressed(self) -> None:
        """Play from the next event on, or stop."""
        if self._thread is not None and self._thread.is_alive():
            self.stop()
            return
        self._stop.clear()
        self.play.description = STOP
        self._thread = threading.Thread(target=self._run, name="drlib-incident-replay", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End playing; the picture stays. Safe to repeat."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5)
        self.play.description = PLAY

    def _run(self) -> None:
        try:
            at = self._forward()
            while at < self.last:
                apart_s = (self._moments[at + 1]["after_s"] - self._moments[at]["after_s"]) / self._speed
                if self._stop.wait(min(max(apart_s, _SHORTEST_S), _LONGEST_S)):
                    return
                at = self._forward()
        finally:
            self.play.description = PLAY

    def _forward(self) -> int:
        at = int(self.moments.value)
        self.moments.value = 0 if at == self.last else at + 1
        return int(self.moments.value)

    def _draw(self, at: int) -> None:
        moment = self._moments[at]
        happened = f"after {moment['after_s']:.1f} s: {moment['text']}"
        self.said.value = f"<p>{html_text(happened)}</p>"
        drawn = {"data": self._frames[at]["data"], "layout": self._layout}
        data = {"text/plain": moment["text"], PLOTLY: drawn}
        self.figure.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)


def _without_controls(layout: dict[str, Any]) -> dict[str, Any]:
    """The layout without plotly's button and slider, and without their place."""
    kept = {name: value for name, value in layout.items() if name not in ("updatemenus", "sliders", "meta")}
    taken = layout["meta"]["controls"]
    return {**kept, "height": layout["height"] - taken, "margin": {**kept["margin"], "b": kept["margin"]["b"] - taken}}
