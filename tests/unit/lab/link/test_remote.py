"""The state file of the link proxy, as any process that can write to the lab's folder may leave it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.lab.link.remote import LinkProxy

STATE = {"control_port": 1, "token": "t", "links": {"LEFT-1": 5}}


def proxy(folder: Path, content: object) -> LinkProxy:
    (folder / "link.json").write_text(json.dumps(content))
    return LinkProxy(folder / "link.json")


def test_proxy_ports_are_those_of_the_state(tmp_path: Path) -> None:
    assert proxy(tmp_path, STATE).ports == {"LEFT-1": 5}


@pytest.mark.parametrize(
    "content", [[], {}, [[]], {**STATE, "links": 5}, {**STATE, "links": {"a": "b"}}, {**STATE, "control_port": None}]
)
def test_proxy_state_that_is_none_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        proxy(tmp_path, content).ports  # noqa: B018
