"""A plan that was made for other shared topics than there are now."""

from __future__ import annotations

import pytest

from drlib.analysis.continuous.compare import AuditPlan, refuse_other_shares
from drlib.errors import StalePlan

PLAN = AuditPlan(60_000, (), (), shared=("orders", "payments"))


def test_the_same_shared_topics_are_no_other_ones() -> None:
    refuse_other_shares(PLAN, ["payments", "orders"])
    refuse_other_shares(AuditPlan(60_000, (), ()), [])


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        (["orders"], "topic payments is no longer copied in both directions"),
        (["orders", "payments", "refunds"], "topic refunds is now copied in both directions"),
    ],
)
def test_other_shared_topics_make_the_plan_stale(now: list[str], changed: str) -> None:
    with pytest.raises(StalePlan) as refused:
        refuse_other_shares(PLAN, now)
    assert refused.value.what == changed
