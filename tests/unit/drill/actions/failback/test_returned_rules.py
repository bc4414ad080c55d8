"""What came back, by each row of the table, and what may be settled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.drill.actions.failback.returned_rules import TABLE, Found, Procedure, SeenSource, SeenTopic, judge
from drlib.drill.actions.failover.triage_rules import Side
from drlib.model import Flow

FLOW = Flow("paris", "lyon")
SIDE = Side("paris", brokers=3, controller=1)
SAME = SeenSource(FLOW, SIDE, "id-1", "id-1", (SeenTopic("orders", True, 400), SeenTopic("carts", True, 5)))


@pytest.mark.parametrize(
    ("seen", "found", "procedure", "words"),
    [
        (SAME, Found.SAME, Procedure.SETTLE, "cluster ID id-1, with 2 topics"),
        (replace(SAME, side=Side("paris", silence="refused")), Found.SILENT, Procedure.WAIT, "refused"),
        (
            replace(SAME, side=replace(SIDE, leaderless=4, silent_brokers=2)),
            Found.PARTIAL,
            Procedure.WAIT,
            "4 partitions without a leader",
        ),
        (replace(SAME, cluster_id="id-2"), Found.OTHER_CLUSTER, Procedure.NEW_CLUSTER, "what failed was id-1"),
        (replace(SAME, cluster_id=""), Found.OTHER_CLUSTER, Procedure.NEW_CLUSTER, "not known"),
        (
            replace(SAME, topics=(SeenTopic("orders", None), SeenTopic("carts", None))),
            Found.EMPTY,
            Procedure.NEW_CLUSTER,
            "none of the 2 topics that were mirrored: orders, carts",
        ),
        (
            replace(SAME, topics=(SeenTopic("orders", False, 7), SeenTopic("carts", True))),
            Found.OTHER_TOPICS,
            Procedure.NEW_CLUSTER,
            "not those that were mirrored: orders",
        ),
        (
            replace(SAME, topics=(SeenTopic("orders", True, 300, lost=100), SeenTopic("carts", True))),
            Found.OLDER,
            Procedure.NEW_CLUSTER,
            "orders (100)",
        ),
        (
            replace(SAME, topics=(SeenTopic("orders", True, 500, replaced=True), SeenTopic("carts", True))),
            Found.OLDER,
            Procedure.NEW_CLUSTER,
            "orders (others in their place)); what was written to it since is there alone",
        ),
    ],
)
def test_judge_what_came_back_says_what_it_is_and_what_is_done(
    seen: SeenSource, found: Found, procedure: Procedure, words: str
) -> None:
    verdict = judge(seen, "mm2.properties")
    assert (verdict.found, verdict.procedure) == (found, procedure)
    assert words in verdict.why
    assert verdict.go is (procedure is Procedure.SETTLE)
    assert bool(verdict.remedy) is not verdict.go


def test_judge_topics_that_are_gone_alone_or_brokers_that_are_not_needed_are_no_reason_to_refuse() -> None:
    deleted = replace(SAME, topics=(SeenTopic("orders", True, 400), SeenTopic("old", None)))
    assert judge(deleted, "f").go
    assert judge(
        replace(SAME, side=replace(SIDE, silent_brokers=1)), "f"
    ).go  # every partition is led and can be written
    assert judge(replace(SAME, topics=()), "f").go  # nothing was ever mirrored


def test_judge_a_new_cluster_names_the_commands_of_its_procedure() -> None:
    remedy = judge(replace(SAME, cluster_id="id-2"), "mm2.properties").remedy
    assert "lyon->paris2" in remedy
    assert "drlib run planned-switchover mm2.properties -p 'flow=lyon->paris2'" in remedy
    silent = judge(replace(SAME, side=Side("paris", silence="x")), "mm2.properties")
    assert "drlib failback mm2.properties 'paris->lyon'" in silent.remedy


def test_table_every_kind_of_return_has_one_row() -> None:
    assert [row.found for row in TABLE] == list(Found)
