"""What a console shows: unknown stays unknown, what is wrong is named, and every form says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_text import HOSTILE, elements

from drlib.drill.plan.rollback_preview import RollbackPreview, UndoneStep
from drlib.drill.session.board import Stand, StepStand
from drlib.lab.environment import Environment
from drlib.lab.link.link import LinkState
from drlib.lab.link.toxics import Toxics
from drlib.lab.processes import ProcessStatus
from drlib.mirror.monitor.flow_view import MIRRORING, NO_WORKER, FlowView, LaneView
from drlib.mirror.monitor.survey import GroupStatus, Survey
from drlib.mirror.status.forecast import Outlook
from drlib.mirror.status.worker_status import Event, PartitionStatus
from drlib.runs.table import PLOTLY
from drlib.ui.console.picture import ConsolePicture, html_of, text_of
from drlib.ui.console.show.style import ROWS
from drlib.ui.console.state import (
    MOVED,
    NOT_STARTED,
    ClusterSeen,
    ConsoleState,
    DrillSeen,
    banner_of,
    clusters_of_lab,
    clusters_of_surveys,
    drill_of,
    link_words,
    standing,
    topics_of,
    with_expected_workers,
)

NOW = 1_700_000_000_000


def partition(topic: str, number: int, mirrored: int, end: int, lag_s: float | None = None) -> PartitionStatus:
    return PartitionStatus(
        topic, number, f"A.{topic}", 0, mirrored, mirrored, end, mirrored, outlook=Outlook(lag_s=lag_s), as_of_ms=NOW
    )


def view(*partitions: PartitionStatus, state: str = MIRRORING, **more: object) -> FlowView:
    plain = {
        "flow": "A->B",
        "state": state,
        "at_ms": NOW,
        "members": 1,
        "workers": ("w",),
        "lanes": (),
        "partitions": partitions,
        "events": (),
        "groups": (),
        "records_per_s": 5.0,
        "bytes_per_s": None,
    }
    return FlowView(**{**plain, **more})  # type: ignore[arg-type]


def drill(word: str = "running", **more: object) -> DrillSeen:
    steps = (
        StepStand("one", "First <step>", Stand.DONE, 1.5),
        StepStand("two", "Second", Stand.RUNNING, 0.5),
        StepStand("three", "Third", Stand.WAITING),
    )
    plain = {
        "name": "failover-drill",
        "folder": Path("runs/x"),
        "flow": "A->B",
        "mode": "practice",
        "word": word,
        "steps": steps,
        "alive": True,
    }
    return DrillSeen(**{**plain, **more})  # type: ignore[arg-type]


def test_topic_lag_with_an_unknown_partition_is_unknown() -> None:
    rows = topics_of(view(partition("t", 0, 5, 9, 2.0), partition("t", 1, 0, -1), partition("u", 0, 3, 3)))
    assert [(r.topic, r.records, r.seconds) for r in rows] == [("t", None, None), ("u", 0, 0.0)]


def test_topic_lag_is_the_sum_and_its_age_the_oldest() -> None:
    (row,) = topics_of(view(partition("t", 0, 5, 9, 2.0), partition("t", 1, 1, 4, 7.5), partition("t", 2, 4, 4)))
    assert (row.records, row.seconds, row.partitions) == (7, 7.5, 3)


def test_topic_lag_age_with_an_unknown_part_is_unknown() -> None:
    (row,) = topics_of(view(partition("t", 0, 5, 9, 2.0), partition("t", 1, 1, 4, None)))
    assert (row.records, row.seconds) == (7, None)


def test_group_standing_is_exact_only_for_all_partitions() -> None:
    assert standing(GroupStatus("g", 3, 0, 3, 0, 0, 0)) == "exact"
    assert standing(GroupStatus("g", 3, 9, 2, 1, 0, 1200)) == "2 of 3 exact, 1 behind by 1,200 in all"
    assert "unknown" in standing(GroupStatus("g", 3, None, 2, 0, 1, 0))


def test_group_standing_says_what_is_read_again_in_topics_that_both_directions_copy() -> None:
    group = GroupStatus("g", 4, 9, 1, 1, 2, 1215, bounded=1, bounded_records=15)
    assert standing(group) == (
        "1 of 4 exact, 1 behind by 1,200 in all, 1 reads at most 15 records again, 1 not translatable: unknown"
    )
    assert standing(GroupStatus("g", 1, 9, 0, 0, 1, 15, bounded=1, bounded_records=15)) == (
        "1 reads at most 15 records again"
    )


def process(name: str, state: str) -> ProcessStatus:
    return ProcessStatus(name, 1, bool(state), state, Path("log"))


def test_cluster_state_is_that_of_its_worst_broker() -> None:
    links = [LinkState("A-1", 1, 2, False, Toxics(), Toxics(), 0, 0, 0)]
    found = clusters_of_lab(
        {"A": ["A-1", "A-2"], "B": ["B-1"], "C": ["C-1"], "D": ["D-1"]},
        [process("A-1", "S"), process("A-2", ""), process("B-1", "T"), process("C-1", "S")],
        links,
    )
    assert [(c.alias, c.word, c.well) for c in found] == [
        ("A", "not running", False),
        ("B", "paused", False),
        ("C", "runs", True),
        ("D", "unknown", None),
    ]
    assert found[0].detail == "A-2 not running"
    assert (found[0].link, found[1].link) == ("healthy", "link unknown")


def test_console_skewed_clock_is_shown_in_every_form() -> None:
    seen = clusters_of_lab(
        {"A": ["A-1"], "B": ["B-1"]}, [process("A-1", "S"), process("B-1", "S")], [], {"A": 1_200_000}
    )
    assert [(c.alias, c.clock) for c in seen] == [("A", "clocks 20 min 00 s behind"), ("B", "")]
    now = ConsoleState(NOW, seen)
    assert "cluster A: runs, link unknown, clocks 20 min 00 s behind" in text_of(now)
    assert "clocks 20 min 00 s behind" in html_of(now)


def test_link_words_name_the_direction() -> None:
    slow = Toxics(delay_ms=200, bandwidth=1e6)
    assert link_words(LinkState("A-1", 1, 2, True, slow, slow, 0, 0, 0)) == "cut"
    assert link_words(LinkState("A-1", 1, 2, False, slow, slow, 0, 0, 0)) == "200 ms late, 1 MB/s at most, both ways"
    assert (
        link_words(LinkState("A-1", 1, 2, False, Toxics(), Toxics(blackhole=True), 0, 0, 0)) == "silent from the broker"
    )


def test_cluster_silent_for_one_flow_is_silent_and_one_that_refuses_a_right_answers() -> None:
    refused = Survey("C->D", NOW, 1, target_error="reading A.journal failed: TOPIC_AUTHORIZATION_FAILED")
    assert [each.word for each in clusters_of_surveys([refused])] == ["answers", "answers"]
    found = clusters_of_surveys([Survey("A->B", NOW, 1), Survey("B->A", NOW, 1, source_error="no answer")])
    assert [(c.alias, c.word) for c in found] == [("A", "answers"), ("B", "does not answer")]


def test_cluster_that_refuses_this_host_is_unknown_and_not_silent() -> None:
    why = "this host cannot use it: broker h:1 can't be used: it refused the login"
    (a, b) = clusters_of_surveys([Survey("A->B", NOW, 1, source_error=why)])
    assert [(a.word, a.well, a.detail), (b.word, b.well, b.detail)] == [("unknown", None, why), ("answers", True, "")]


def test_drill_of_no_run_is_none() -> None:
    assert drill_of(None) is None


def test_drill_current_step_runs_and_a_stopped_drill_is_not_abortable() -> None:
    current = drill().current
    assert current is not None
    assert current.name == "two"
    assert drill().abortable
    assert not drill(alive=False).abortable
    assert not drill("aborting").abortable


def state() -> ConsoleState:
    lost = Event("Parked", "t-0", "it <b>cannot</b> be read", NOW, None, "Look at the record.")
    past = Event("LaneFault", "0", "over", NOW, NOW + 1, "")
    return ConsoleState(
        NOW,
        (ClusterSeen("A", "runs", link="healthy"), ClusterSeen("B", "not running", "B-1 not running", "cut")),
        (
            view(
                partition("t", 0, 5, 9, 2.0),
                events=(lost, past),
                groups=(GroupStatus("readers", 1, None, 0, 0, 1, 0),),
            ),
        ),
        drill(),
        ("B was asked in vain",),
    )


def test_console_picture_forms_agree_and_escape_input() -> None:
    text, page = text_of(state()), html_of(state())
    for word in (
        "A",
        "B-1 not running",
        "cut",
        "mirroring",
        "readers",
        "Parked",
        "Look at the record.",
        "failover-drill",
    ):
        assert word in text, word
        assert word in page, word
    for said in (text, page):
        assert "unknown" in said, "a group that cannot be translated"
        assert "4 records" in said or ">4<" in said
        assert "B was asked in vain" in said
    assert "<b>cannot</b>" not in page
    assert "First <step>" not in page
    assert "<script" not in page


def test_console_picture_bundle_has_text_html_and_figure() -> None:
    bundle = ConsolePicture(state())._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", PLOTLY}
    assert "A-&gt;B mirroring" in json.dumps(bundle[PLOTLY])
    assert set(ConsolePicture(state())._repr_mimebundle_(include=["text/plain"])) == {"text/plain"}


def test_console_picture_of_nothing_says_so_in_every_form() -> None:
    bundle = ConsolePicture(
        ConsoleState(NOW, unseen=("waiting for the first answer of the clusters",))
    )._repr_mimebundle_()
    assert all("waiting for the first answer" in (v if isinstance(v, str) else json.dumps(v)) for v in bundle.values())


def test_console_flow_without_a_worker_is_not_caught_up() -> None:
    said = text_of(ConsoleState(NOW, flows=(view(state=NO_WORKER),)))
    assert "no worker" in said
    assert "nothing behind" not in said


def test_console_long_list_says_how_many_are_left_out() -> None:
    many = view(*(partition(f"t{n}", 0, 0, n + 1, 1.0) for n in range(ROWS + 3)))
    assert "and 3 topics more" in text_of(ConsoleState(NOW, flows=(many,)))
    assert "and 3 rows more" in html_of(ConsoleState(NOW, flows=(many,)))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_console_of_any_text_has_the_same_elements(text: str) -> None:
    def page(word: str) -> str:
        at = partition(f"t{word}", 0, 5, 9, 2.0)
        event = Event(f"Parked{word}", f"t{word}", f"d{word}", NOW - 5000, remedy=f"r{word}", flow="A->B")
        group = GroupStatus(f"g{word}", 1, None, 0, 0, 1, 0)
        flow = view(at, events=(event, replace(event, resolved_ms=NOW)), groups=(group,), workers=(f"w{word}",))
        seen = ClusterSeen("A", f"s{word}", link=f"l{word}", detail=f"d{word}", clock=f"c{word}")
        now = ConsoleState(NOW, (seen,), (flow,), drill(f"x{word}", note=f"n{word}", name=f"d{word}"), (f"why{word}",))
        return html_of(now)

    assert elements(page(text)) == elements(page("plain"))


def test_console_banner_is_of_the_run_that_has_not_ended() -> None:
    idle = banner_of(Environment.PRODUCTION, None, ["paris->lyon"])
    assert str(idle) == "PRODUCTION  flow paris->lyon, clusters paris and lyon: no run changes anything now."
    assert str(banner_of(Environment.LAB, None, ["a->b", "b->a"])) == "LAB  no run changes anything now."
    now = ConsoleState(NOW, banner=idle)
    assert text_of(now).startswith(str(idle))
    assert idle.html() in html_of(now)


def lane(claimed_ms: int = 0, owner: str = "") -> LaneView:
    return LaneView(0, owner, "not owned", -1, -1, claimed_ms, 0, None)


def test_figures_that_are_not_polled_any_more_say_their_age() -> None:
    polled = view(partition("t", 0, 5, 9, 2.0))
    for later_ms, age in ((1_000, ""), (15_000, ""), (16_000, "as of 22:13:20, 16 s ago")):
        now = ConsoleState(NOW + later_ms, flows=(polled,))
        assert ("as of" in text_of(now)) is bool(age)
        assert age in text_of(now)
        assert age in html_of(now)


def test_figures_of_a_source_that_is_silent_say_how_old_they_are() -> None:
    asked = replace(view(partition("t", 0, 5, 9, 2.0)), at_ms=NOW + 120_000)
    now = ConsoleState(NOW + 121_000, flows=(asked,))
    assert "flow A->B: mirroring, 4 records behind, the oldest 2.0 s old, as of 22:13:20, 2 min 01 s ago" in text_of(
        now
    )
    unknown = replace(view(partition("t", 0, 5, -1)), at_ms=NOW + 120_000)
    assert "as of" not in text_of(ConsoleState(NOW + 121_000, flows=(unknown,))), "what is unknown has no age"


ABSENT = Event("NoWorker", "A->B", "its worker group has no member", 0, flow="A->B")


@pytest.mark.parametrize(
    ("lanes", "lab", "moved", "state"),
    [
        ((lane(),), True, (), NOT_STARTED),
        ((lane(NOW, "was host-7"),), True, (), NO_WORKER),  # it ran, and died
        ((lane(),), False, (), NO_WORKER),  # nothing protects a cluster of one's own
        ((lane(NOW, "was host-7"),), True, ("A->B",), MOVED),
        ((lane(NOW, "was host-7"),), False, ("A->B",), MOVED),
        ((lane(NOW, "was host-7"),), False, ("B->A",), NO_WORKER),
    ],
)
def test_missing_worker_is_an_alert_where_one_is_expected(
    lanes: tuple[LaneView, ...], lab: bool, moved: tuple[str, ...], state: str
) -> None:
    found = with_expected_workers(view(state=NO_WORKER, lanes=lanes, events=(ABSENT,)), lab=lab, moved=moved)
    now = ConsoleState(NOW, flows=(found,))
    assert found.state == state
    expected = state == NO_WORKER
    assert [event.name for event in now.open_events] == (["NoWorker"] if expected else [])
    assert ("chip bad" in html_of(now)) is expected


def test_flow_that_mirrors_is_left_as_it_is() -> None:
    mirrors = view(partition("t", 0, 5, 9, 2.0), events=(ABSENT,))
    assert with_expected_workers(mirrors, lab=True, moved=("A->B",)) == mirrors


def test_drill_says_what_an_abort_would_undo_in_every_form() -> None:
    would = RollbackPreview(
        (UndoneStep("two", "Second", ("pointer <x>: B -> A",), partly=True),), (("one", "its action cannot be undone"),)
    )
    running = ConsoleState(NOW, drill=drill(rollback=would))
    assert "would undo two: pointer <x>: B -> A" in text_of(running)
    assert "would leave one: its action cannot be undone" in text_of(running)
    page = html_of(running)
    assert "If you abort it now, this is undone" in page
    assert "pointer &lt;x&gt;: B -&gt; A (as far as it came: its probe decides then)" in page
    assert "one: its action cannot be undone" in page
    left = html_of(ConsoleState(NOW, drill=drill("not running", alive=False, rollback=would)))
    assert "If you roll it back, this is undone" in left
    many = RollbackPreview(tuple(UndoneStep(f"s{n}", "", (f"e{n}: b -> a",)) for n in range(ROWS + 5)))
    assert f"e{ROWS + 4}: b" in html_of(ConsoleState(NOW, drill=drill(rollback=many))), "none is left out"
    assert "nothing: no step has changed anything yet" in html_of(
        ConsoleState(NOW, drill=drill(rollback=RollbackPreview()))
    )
