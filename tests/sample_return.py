"""The assessment before a way back, as a sample: paris failed, lyon serves, and paris is back."""

from __future__ import annotations

from drlib.drill.actions.failback.returned_rules import Found, Procedure
from drlib.drill.assessment.assessment import Next
from drlib.drill.assessment.returning import ReturnAssessment, Stage, TailRecord, TopicTail

NOW = 1_795_600_000_000
MADE = ReturnAssessment(
    flow="paris->lyon",
    at_ms=NOW,
    source="paris",
    target="lyon",
    state="failed-over",
    since_ms=NOW - 60_000,
    by_run="r1",
    pointer="lyon",
    source_state="answers: 1 broker, controller 1",
    found=Found.SAME.value,
    procedure=Procedure.SETTLE.value,
    found_why="cluster ID id-1",
    target_state="answers: 1 broker, controller 1",
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
