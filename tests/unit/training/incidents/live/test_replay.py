"""The replay in a notebook: widgets where a front end takes input, else plotly's animation."""

from __future__ import annotations

from debriefed_incidents import played_by_a_team

from drlib.runs.table import PLOTLY
from drlib.training.incidents.live.replay import ReplayShown


def shown() -> ReplayShown:
    played = played_by_a_team()
    return ReplayShown(played.reveal, played.started_ms, 10.0, attended=lambda: True)


def test_replay_without_widgets_is_every_event_in_words_with_an_animated_figure() -> None:
    bundle = shown()._repr_mimebundle_()
    text, figure = bundle["text/plain"], bundle[PLOTLY]
    assert isinstance(text, str)
    assert text.index("acknowledge") < text.index("restart-broker LEFT") < text.index("finished")
    assert isinstance(figure, dict)
    assert len(figure["frames"]) > 10
    assert figure["layout"]["updatemenus"]
    assert repr(shown()) == text


def test_replay_widgets_draw_the_event_of_the_slider_without_plotlys_controls() -> None:
    replay = shown()
    box = replay.controls()
    (play, slider), said, figure = box.children[0].children, box.children[1], box.children[2]
    assert slider.value == slider.max == play.max
    assert "finished" in said.value

    def drawn() -> dict[str, object]:
        data = figure.outputs[0]["data"][PLOTLY]
        assert isinstance(data, dict)
        return data

    whole = drawn()
    slider.value = 3
    assert "fault: The only broker of LEFT was killed" in said.value
    assert drawn()["data"] != whole["data"]
    layout = drawn()["layout"]
    assert isinstance(layout, dict)
    assert not {"updatemenus", "sliders"} & layout.keys()
    assert 0 < layout["margin"]["b"] < 120
