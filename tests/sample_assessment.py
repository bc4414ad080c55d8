"""The assessment before a failover, as a sample: paris does not answer, and lyon serves."""

from __future__ import annotations

from drlib.drill.actions.failover.triage_rules import Advice
from drlib.drill.assessment.assessment import Assessment, Continues, Gate, GroupOutlook, Loss, Next, Sighting

NOW = 1_795_255_200_000
MADE = Assessment(
    flow="paris->lyon",
    at_ms=NOW,
    source="paris",
    target="lyon",
    source_state="no answer: refused",
    source_serves=False,
    unreachable=(Sighting("the mirror's workers", NOW - 60_000, "fetching from it fails"),),
    target_state="answers: 3 brokers, controller 1",
    target_answers=True,
    target_serves=True,
    gate=Gate.OPEN,
    gate_why=(),
    loss=Loss(1234, NOW, "and what paris accepted after that, which is not known"),
    groups=(
        GroupOutlook("audit", Continues.EXACTLY, 0, NOW),
        GroupOutlook("billing", Continues.READS_AGAIN, 7, NOW),
        GroupOutlook("carts", Continues.UNKNOWN, None, NOW, "2 positions cannot be translated"),
    ),
    groups_unknown="",
    missing_topics=("orders",),
    missing_topics_unknown="",
    creates_topics=True,
    pointer="paris",
    unfinished=None,
    unfinished_unknown="",
    supersede_means="",
    advice=Advice(True, "lyon serves", ""),
    next=Next.BEGIN,
    why="paris: no answer; lyon serves",
    remedy="",
)
