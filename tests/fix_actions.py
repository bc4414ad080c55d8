"""The actions of `testbed_actions`, known while a test runs."""

import pytest
from testbed_actions import ACTIONS

from drlib.drill.run import registry


@pytest.fixture
def topic_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, action in ACTIONS.items():
        monkeypatch.setitem(registry.ACTIONS, name, action)
