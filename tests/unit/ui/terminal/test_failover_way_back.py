"""The screen of the way back: what is known, what is not and why, what becomes of unreplicated records."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from rich.console import Console

from drlib.drill.actions.failback.returned_rules import Found, Procedure
from drlib.drill.assessment.assessment import Next
from drlib.drill.assessment.observe_return import Mirrored
from drlib.drill.assessment.returning import Return, Stage, TailRecord, TopicTail
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.runs.journal import Scalar
from drlib.ui.terminal import failover
from drlib.ui.terminal.failover import SHOWN

NOW = 1_795_600_000_000
MADE = Return(
    flow="paris->lyon",
    at_ms=NOW,
    source="paris",
    target="lyon",
    state="failed-over",
    since_ms=NOW - 60_000,
    by_run="r1",
    pointer="lyon",
    source_state="answers: 1 brokers, controller 1",
    found=Found.SAME.value,
    procedure=Procedure.SETTLE.value,
    found_why="cluster ID id-1",
    target_state="answers: 1 brokers, controller 1",
    tail=(TopicTail("orders", 40, 4000, NOW - 90_000, NOW - 80_000), TopicTail("carts", 2, 10, None, None)),
    tail_why="",
    read_there={"billing": 10, "audit": 12},
    examples=(TailRecord("orders", 0, 401, NOW - 90_000, "k9", 120),),
    back_enabled=True,
    back_workers=1,
    back_missing=1234,
    back_why="",
    unfinished=None,
    supersede_means="",
    stages=(Stage.REPROTECT, Stage.FAIL_BACK),
    next=Next.BEGIN,
    why="paris is back; reprotect and fail-back follow",
    remedy="",
    unreachable=False,
)


def text(made: Return, chosen: Settle | None = None) -> str:
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
