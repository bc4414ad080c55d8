"""Which flows the mirrors of several clusters have."""

from __future__ import annotations

from drlib.lab.workload.mirrors import flows_among, flows_with


def test_flows_among_has_every_direction_and_flows_with_only_the_newcomers() -> None:
    assert len(set(flows_among(["A", "B", "C"]))) == 6
    assert set(flows_with("C", ["A", "B"])) == set(flows_among(["A", "B", "C"])) - set(flows_among(["A", "B"]))
