"""The screen of a failover as text and as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from rich.console import Console
from sample_assessment import MADE, NOW

from drlib.drill.assessment.assessment import Assessment, Continues, GroupOutlook, Loss, Next
from drlib.drill.assessment.moved_applications import GroupChange, ProducerChange
from drlib.ui.terminal import failover


def text(made: Assessment) -> str:
    out = io.StringIO()
    Console(file=out, width=200, highlight=False).print(failover.render_assessment(made))
    return out.getvalue()


def test_assessment_names_loss_groups_and_topics_and_ends_with_the_advice() -> None:
    said = text(MADE)
    for words in (
        "unreachable since",
        "1,234 records, and what paris accepted",
        "1 continue exactly, 1 reads again, 1 unknown",
        "billing: reads at most 7 records again",
        "carts: unknown; 2 positions",
        "the run creates them): orders",
    ):
        assert words in said
    assert said.splitlines()[-1].strip().startswith("FAIL OVER")


def test_assessment_that_does_not_know_says_unknown_and_why() -> None:
    made = replace(
        MADE, loss=Loss(None, None, "no worker"), groups=(), groups_unknown="lyon is slow", missing_topics=()
    )
    made = replace(made, missing_topics_unknown="lyon is slow", next=Next.REFUSE, why="closed", remedy="Open it.")
    said = text(made)
    assert "loses at most  unknown: no worker" in said
    assert "groups         unknown: lyon is slow" in said
    assert "is unknown: lyon is slow" in said
    assert "DO NOT FAIL OVER" in said
    assert said.rstrip().endswith("Open it.")


def test_groups_beyond_the_screen_are_counted_and_complete_in_json() -> None:
    many = tuple(GroupOutlook(f"g{n:03}", Continues.EXACTLY, 0, NOW) for n in range(200))
    made = replace(MADE, groups=(*many, GroupOutlook("last", Continues.READS_AGAIN, 9, NOW)))
    said = text(made)
    assert "last: reads at most 9 records again" in said
    assert f"and {201 - failover.SHOWN} more" in said
    line = failover.assessment_json(made)
    assert "\n" not in line
    assert len(json.loads(line)["groups"]) == 201


def test_text_from_outside_is_one_line_and_no_markup() -> None:
    said = text(replace(MADE, source_state="[red]x[/red]\x1b[31m\nnext", pointer="[b]p"))
    assert "[red]x[/red]" in said
    assert "\x1b" not in said
    assert "[b]p" in said


def test_changes_are_in_the_words_of_a_configuration() -> None:
    groups = (GroupChange("billing", "l:1", ("paris.orders", "orders"), 3, 1),)
    producers = (ProducerChange("orders", "l:1"),)
    said = "\n".join(failover.change_lines(groups, producers, "lyon"))
    assert "bootstrap.servers = l:1" in said
    assert "group.id = billing: subscribe to paris.orders, then orders; at most 3 records again; 1 positions" in said
    assert "producers of orders: topic orders" in said
    assert json.loads(failover.changes_json(groups, producers, "lyon"))["event"] == "applications"


def test_seen_line_and_next_lines_name_the_application_and_the_commands() -> None:
    row = {"kind": "group", "name": "billing", "seen": "served", "detail": "3 offsets read on"}
    assert failover.seen_line(row) == "group billing: served, 3 offsets read on"
    assert json.loads(failover.seen_json(row))["name"] == "billing"
    said = "\n".join(failover.next_lines("paris", "lyon", "my file.properties"))
    assert "drlib failback 'my file.properties' 'paris->lyon'" in said
    assert "enable lyon->paris" in said
    said = "\n".join(failover.next_lines("paris", "lyon", "my file.properties", both_ways=True))
    assert "lyon gets late" in said
    assert "enable" not in said
    assert "drlib failback 'my file.properties' 'paris->lyon'" in said
