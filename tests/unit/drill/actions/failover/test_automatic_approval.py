"""When the decision approves the steps of its run by itself."""

from __future__ import annotations

import pytest

from drlib.drill.actions.failover.automatic_approval import LEAST_S, Approve, check_automatic
from drlib.errors import UsageError


def test_automatic_needs_a_witness_and_time() -> None:
    check_automatic(Approve.PERSON, (), 0.0, token=False)
    check_automatic(Approve.AUTOMATIC, ("w:1",), LEAST_S, token=True)
    with pytest.raises(UsageError, match="no witness"):
        check_automatic(Approve.AUTOMATIC, (), LEAST_S, token=True)
    with pytest.raises(UsageError, match="confirm_s"):
        check_automatic(Approve.AUTOMATIC, ("w:1",), LEAST_S - 1, token=True)


def test_automatic_with_a_witness_of_another_machine_needs_a_token() -> None:
    check_automatic(Approve.AUTOMATIC, ("127.0.0.1:1", "localhost:2"), LEAST_S, token=False)
    for far in ("w.example:1", "https://w.example:1", "192.0.2.1:1", "nonsense"):
        with pytest.raises(UsageError, match="without a token") as refused:
            check_automatic(Approve.AUTOMATIC, ("127.0.0.1:1", far), LEAST_S, token=False)
        assert "drlib.witness.token" in refused.value.remedy
