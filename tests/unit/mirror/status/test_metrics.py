"""What a lane keeps in memory is a metric of its own."""

from __future__ import annotations

from sample_flow import worker

from drlib.mirror.status.metrics import families


def test_families_have_the_memory_of_each_lane() -> None:
    kept = next(family for family in families(worker(kept_bytes=7_000_000)) if family.name == "drlib_memory_bytes")
    assert {sample.labels["lane"]: sample.value for sample in kept.samples} == {"0": 7_000_000, "1": 0}
