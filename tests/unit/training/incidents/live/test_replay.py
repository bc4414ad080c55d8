"""The replay in a notebook: widgets where a front end takes input, else plotly's animation."""

from __future__ import annotations

from debriefed_incidents import played_by_a_team

from drlib.lab.processes import wait_until
from drlib.runs.table import PLOTLY
from drlib.training.incidents.live.replay import PLAY, STOP, ReplayShown, ReplayWidget


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


def drawn(widget: ReplayWidget) -> dict[str, object]:
    data = widget.figure.outputs[0]["data"][PLOTLY]
    assert isinstance(data, dict)
    return data


def test_replay_widgets_draw_the_chosen_moment_without_plotlys_controls() -> None:
    widget = shown().controls()
    assert widget.moments.value == widget.last
    assert "finished" in widget.said.value
    whole = drawn(widget)
    widget.moments.value = 3
    assert "fault: The only broker of LEFT was killed" in widget.said.value
    assert drawn(widget)["data"] != whole["data"]
    layout = drawn(widget)["layout"]
    assert isinstance(layout, dict)
    assert not {"updatemenus", "sliders"} & layout.keys()
    assert 0 < layout["margin"]["b"] < 120


def test_replay_steps_by_one_event_and_begins_again_after_the_last() -> None:
    widget = shown().controls()
    widget.next.click()
    assert widget.moments.value == 0
    widget.next.click()
    assert widget.moments.value == 1
    assert widget.play.description == PLAY, "nothing moves by itself"


def test_replay_plays_to_the_last_event_and_stops_when_it_is_asked_to() -> None:
    played = played_by_a_team()
    widget = ReplayShown(played.reveal, played.started_ms, 1_000.0).controls()
    widget.moments.value = widget.last - 2
    widget.play.click()
    assert wait_until(lambda: widget.moments.value == widget.last and widget.play.description == PLAY, 20)
    slow = ReplayShown(played.reveal, played.started_ms, 0.001).controls()
    slow.play.click()
    assert wait_until(lambda: slow.moments.value == 0, 20)
    assert slow.play.description == STOP
    slow.play.click()
    assert slow.play.description == PLAY
    assert slow.moments.value == 0
