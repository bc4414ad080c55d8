"""The replay of a finished incident: an animated figure, in a notebook with a button and a slider that work by keyboard.

Rules: without widgets it is a table of the events with plotly's animation, whose own controls need a pointer. With widgets the
figure is drawn for the event that the slider names; nothing moves before the button is pressed.
Not for: the figure (`drlib.training.incidents.reveal_figure`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from drlib.runs.table import PLOTLY, Table
from drlib.training.incidents.reveal_figure import replay_figure
from drlib.training.incidents.rules.reveal import Reveal
from drlib.ui.console.board import attended_kernel


class ReplayShown:
    """The events of `reveal`, played `speed` times as fast. Raises `UsageError` for a speed that is not positive."""

    def __init__(
        self, reveal: Reveal, started_ms: int, speed: float, *, attended: Callable[[], bool] = attended_kernel
    ) -> None:
        self._figure = replay_figure(reveal, started_ms, speed)
        self._attended = attended
        rows = [
            {"second": round(e.at_s, 1), "part": e.track.value, "what": e.text, "state": e.state}
            for e in reveal.entries
        ]
        self.table = Table(f"Replay: {reveal.title}", rows, figure=self._figure)
        self.box: Any = None

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
        display(self.controls())  # type: ignore[no-untyped-call]

    def controls(self) -> Any:
        """The widgets: a button that plays, a slider, what happened, and the figure up to there."""
        import ipywidgets

        frames, moments = self._figure.frames, self._figure.layout.meta["replay"]
        last = len(frames) - 1
        wait_ms = int(self._figure.layout.updatemenus[0].buttons[0].args[1]["frame"]["duration"])
        play = ipywidgets.Play(min=0, max=last, value=last, interval=wait_ms, show_repeat=False)
        slider = ipywidgets.IntSlider(min=0, max=last, value=last, description="Event", continuous_update=True)
        figure = ipywidgets.Output(layout={"min_height": f"{self._figure.layout.height + 8}px"})
        said = ipywidgets.HTML()
        ipywidgets.jslink((play, "value"), (slider, "value"))

        def draw(change: dict[str, Any]) -> None:
            from drlib.formats import html_text

            at = int(change["new"])
            said.value = f"<p>after {moments[at]['after_s']:.1f} s: {html_text(moments[at]['text'])}</p>"
            data = {"text/plain": moments[at]["text"], PLOTLY: self.picture(at)}
            figure.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

        slider.observe(draw, names="value")
        draw({"new": last})
        self.box = ipywidgets.VBox([ipywidgets.HBox([play, slider], layout={"flex_flow": "row wrap"}), said, figure])
        return self.box

    def picture(self, at: int) -> object:
        """The figure at frame `at`, without plotly's controls, as its JSON."""
        whole = Table("", [], figure=self._figure)._repr_mimebundle_()[PLOTLY]
        assert isinstance(whole, dict)
        layout = {
            name: value for name, value in whole["layout"].items() if name not in ("updatemenus", "sliders", "meta")
        }
        controls = self._figure.layout.meta["controls"]
        layout["height"] -= controls
        layout["margin"] = {**layout["margin"], "b": layout["margin"]["b"] - controls}
        return {"data": whole["frames"][at]["data"], "layout": layout}
