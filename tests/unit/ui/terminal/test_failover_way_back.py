"""The screen of the way back: what is known, what is not and why, what becomes of unreplicated records."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from rich.console import Console
from sample_return import MADE

from drlib.drill.assessment.assessment import Next
from drlib.drill.assessment.observe_return import Mirrored
from drlib.drill.assessment.returning import ReturnAssessment, TopicTail
from drlib.mirror.offsets.unreplicated.crossed import TopicCrossed
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.runs.journal import Scalar
from drlib.ui.terminal import failover
from drlib.ui.terminal.failover import SHOWN


def text(made: ReturnAssessment, chosen: Settle | None = None) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(failover.render_return(made, chosen))
    return out.getvalue()


def test_return_says_state_what_came_back_what_only_the_source_has_and_what_is_done() -> None:
    said = text(MADE, Settle.RECOVER)
    for words in (
        "failed-over since 2026-11-25",
        "by run r1",
        "the cluster that failed, with its data: cluster ID id-1",
        "42 records that only paris has",
        "orders: 40 records, 4,000 B, of 2026-11-25",
        "carts: 2 records, 10 B",
        "such as orders-0 at 401: key 'k9', 120 B, of 2026-11-25",
        "group audit had read 12 records of them on paris",
        "recover: written to the target's own topics",
        "lyon->paris",
        "1 workers, 1,234 offsets behind",
        "reprotect, then fail-back",
    ):
        assert words in said, words
    assert said.splitlines()[-1].strip().startswith("FAIL BACK")


def test_return_that_does_not_know_says_unknown_and_why() -> None:
    made = replace(MADE, tail=None, tail_why="open transactions", back_missing=None, back_why="lyon is slow")
    said = text(replace(made, next=Next.REFUSE, why="not known", remedy="Do this."))
    assert "unknown: open transactions" in said
    assert "lag unknown: lyon is slow" in said
    assert "DO NOT FAIL BACK" in said
    assert said.rstrip().endswith("Do this.")


def test_return_of_topics_that_both_directions_copy_says_what_crossed_late() -> None:
    crossed = (TopicCrossed("orders", 40, 2), TopicCrossed("carts", 1, 0))
    made = replace(MADE, both_ways=True, tail=None, tail_why="it was not asked", crossed=crossed)
    said = text(made)
    assert "orders: 40 records crossed to lyon after the move, 2 records still to cross" in said
    assert "carts: 1 record crossed to lyon after the move" in said
    assert "group audit had read 12 records of them on paris, and reads them again" in said
    bound = text(replace(made, read_there_at_most=True))
    assert "group audit had read at most 12 records of them on paris, and read those again" in bound
    assert "unreplicated" not in said
    assert "no record of paris crossed after the move" in text(replace(made, crossed=()))
    partly = text(replace(made, crossed=(), crossed_why="of invoices it is not known"))
    assert "of invoices it is not known" in partly
    assert "no record of paris crossed" not in partly
    unknown = text(replace(made, crossed=None, crossed_why="no pointer names lyon"))
    assert "how many records of paris crossed after the move is unknown: no pointer names lyon" in unknown


def test_return_json_has_every_topic_though_the_screen_is_cut() -> None:
    many = tuple(TopicTail(f"t{n:03}", 1, 1, None, None) for n in range(100))
    made = replace(MADE, tail=many)
    assert f"and {100 - SHOWN} more topics" in text(made)
    document = json.loads(failover.return_json(made))
    assert (document["event"], len(document["tail"]), document["tail_records"]) == ("assessment", 100, 100)


def test_text_from_outside_is_one_line_and_no_markup() -> None:
    said = text(replace(MADE, found_why="[red]x[/red]\x1b[31m\nnext", tail=(TopicTail("[b]t", 1, 1, None, None),)))
    assert "[red]x[/red]" in said
    assert "\x1b" not in said
    assert "[b]t" in said


def test_catching_up_says_what_is_missing_and_how_long_it_takes() -> None:
    row: dict[str, Scalar] = {"flow": "lyon->paris", "missing": 70, "caught up in": "3.5 s"}
    assert failover.catching_up_line(row) == "lyon->paris: 70 offsets missing, caught up in 3.5 s"
    assert json.loads(failover.catching_up_json(row))["caught_up_in"] == "3.5 s"


def test_choices_and_home_lines_name_every_choice_and_the_next_commands() -> None:
    assert [line.split(":")[0].strip() for line in failover.choices()] == [how.value for how in Settle]
    again = Mirrored("paris->lyon", 2, 17, "")
    said = "\n".join(failover.home_lines(again, "paris", "lyon", "my file"))
    assert "mirrored to lyon again: 2 workers, 17 offsets behind" in said
    assert "-p 'flow=paris->lyon'" in said
    assert json.loads(failover.mirrored_json(again))["missing"] == 17
    (said,) = failover.home_lines(replace(again, workers=0), "paris", "lyon", "my file")
    assert "nothing protects it" in said
    assert said.endswith("drlib mirror 'my file'")


def test_return_with_mirror_maker_says_what_is_in_doubt_what_runs_and_what_groups_read_again() -> None:
    made = replace(
        MADE,
        in_doubt=12,
        back_workers=0,
        back_mirror_maker="mirrored by MirrorMaker 2: its last heartbeat is 1 s old",
        read_again={"billing": 99, "search": 0},
    )
    said = text(made)
    for words in (
        "of 12 it is unknown whether lyon has them, too",
        "mirrored by MirrorMaker 2: its last heartbeat is 1 s old, 1,234 offsets behind",
        "group billing reads at most 99 records again, were it moved now",
        "group search reads at most 0 records again, were it moved now",
    ):
        assert words in said, words
    said = text(replace(made, read_again=None, read_again_why="lyon is slow"))
    assert "how many records groups read again is unknown: lyon is slow" in said


def test_return_that_nothing_mirrors_back_says_what_to_start() -> None:
    assert "nothing mirrors it: start drlib mirror, or MirrorMaker 2" in text(replace(MADE, back_workers=0))


def test_home_lines_of_a_flow_of_mirror_maker_say_how_it_is_mirrored_again() -> None:
    again = Mirrored("paris->lyon", 0, 17, "", "mirrored by MirrorMaker 2: its last heartbeat is 300 s old")
    (said,) = failover.home_lines(again, "paris", "lyon", "my file")
    assert "its last heartbeat is 300 s old" in said
    assert "restart MirrorMaker 2 with 'my file'" in said
    assert said.endswith("drlib mirror 'my file'")
