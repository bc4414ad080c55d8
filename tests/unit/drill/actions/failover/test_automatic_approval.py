"""When the decision approves the steps of its run by itself."""

from __future__ import annotations

import pytest

from drlib.drill.actions.failover.automatic_approval import LEAST_S, Approve, check_automatic
from drlib.errors import UsageError


def test_automatic_needs_a_witness_and_time() -> None:
    check_automatic(Approve.PERSON, (), 0.0)
    check_automatic(Approve.AUTOMATIC, ("w:1",), LEAST_S)
    with pytest.raises(UsageError, match="no witness"):
        check_automatic(Approve.AUTOMATIC, (), LEAST_S)
    with pytest.raises(UsageError, match="confirm_s"):
        check_automatic(Approve.AUTOMATIC, ("w:1",), LEAST_S - 1)
