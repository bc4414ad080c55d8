"""What is said of limits of connections that could not be put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.drill.actions.clients.limits import former, not_put_back
from drlib.errors import Deviated, DrlibError, Unreachable
from drlib.kafka.admin.errors import ClusterRefused

SILENT = Unreachable("describing", "it does not answer.", "Start it.")
REFUSED = ClusterRefused("altering", "not allowed", "Grant it.", code="CLUSTER_AUTHORIZATION_FAILED")
FILE = Path("runs/1/details/client-limits.LEFT.rows.json")


@pytest.mark.parametrize(
    ("failed", "changed", "kind"),
    [
        ({1: SILENT}, (), Unreachable),
        ({1: SILENT, 3: SILENT}, (), Unreachable),
        ({1: SILENT, 3: REFUSED}, (), Deviated),
        ({1: SILENT}, ("max.connections.per.ip of broker 2",), Deviated),
    ],
)
def test_limits_not_put_back_are_named_by_broker_with_the_reason_of_each(
    failed: dict[int, DrlibError], changed: tuple[str, ...], kind: type[DrlibError]
) -> None:
    error = not_put_back("LEFT", failed, changed, [FILE])
    assert type(error) is kind
    assert error.what == f"limits of connections of brokers {', '.join(map(str, failed))} on LEFT were not put back"
    for node, each in failed.items():
        assert f"broker {node}: {each.why.rstrip('.')}" in error.why
    assert all(each in error.why for each in changed)
    assert str(FILE) in error.remedy


def test_limits_that_another_client_changed_alone_name_no_broker_to_start() -> None:
    error = not_put_back("LEFT", {}, ["max.connections.per.ip of broker 2"], [])
    assert isinstance(error, Deviated)
    assert error.why == "another client changed them since: max.connections.per.ip of broker 2"
    assert "Start" not in error.remedy


def test_former_value_is_that_before_the_first_of_the_runs_that_wrote_one_over_the_other() -> None:
    def row(before: str | None, after: str) -> dict[str, str | None]:
        return {"before": before, "after": after}

    chain = [row("a", "b"), row(None, "a")]  # the newest first
    assert [former(now, chain) for now in ("b", "a", None, "other")] == [None, None, None, "other"]
    assert former("b", [row("other", "b"), row(None, "a")]) == "other", "another client's, between both"
