"""Causes chosen by a game master."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.training.incidents.incident import choose_cause, require_cause
from drlib.training.incidents.rules.causes import InjectedCause


def test_choose_cause_unknown_name_or_place_is_refused() -> None:
    assert choose_cause("full-disk", "LEFT") == InjectedCause("full-disk", "LEFT")
    with pytest.raises(UsageError, match="Use RIGHT, LEFT"):
        choose_cause("full-disk", "UP")
    with pytest.raises(UsageError, match="no cause of that name"):
        choose_cause("gremlins")


@pytest.mark.parametrize(
    ("cause", "why"),
    [("broker-kiled", r"of that name\. Did you mean broker-killed\?$"), ("xyz", "Use one of broker-killed, link-cut")],
)
def test_unknown_cause_names_the_nearest_one_else_all(cause: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        require_cause(cause)
