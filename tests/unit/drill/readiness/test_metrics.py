"""Readiness as metrics: what is unknown or has expired has no sample."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from sample_observation import FLOW, NOW

from drlib import clock
from drlib.drill.readiness.metrics import ReadinessCollector, textfile
from drlib.drill.readiness.score import CHECKS, Finding, Readiness, Severity
from drlib.model import Flow

LABELS = {"source": Flow.parse(FLOW).source, "target": Flow.parse(FLOW).target}


def readiness(lag: Severity = Severity.OK, expires_ms: int = NOW + 1000) -> Readiness:
    def finding(check: str) -> Finding:
        return Finding(check, "", lag if check == "lag" else Severity.OK, "seen", "", expires_ms)

    return Readiness(FLOW, NOW, tuple(finding(check.id) for check in CHECKS))


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> ReadinessCollector:
    monkeypatch.setattr(clock, "now_ms", lambda: NOW)
    return ReadinessCollector(minimum=80)


def value(collector: ReadinessCollector, name: str, **more: str) -> float | None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry.get_sample_value(name, {**LABELS, **more})


def test_readiness_of_a_flow_is_exported_with_the_severity_of_each_check(collector: ReadinessCollector) -> None:
    collector.update([readiness(Severity.CRITICAL)])
    assert value(collector, "drlib_readiness_score") == readiness(Severity.CRITICAL).score
    assert value(collector, "drlib_readiness_ready") == 0
    assert value(collector, "drlib_readiness_check", check="lag", severity="critical") == 1
    assert value(collector, "drlib_readiness_check", check="lag", severity="ok") is None
    assert value(collector, "drlib_readiness_timestamp_seconds") == NOW / 1000


def test_readiness_whose_evidence_expired_since_it_was_checked_is_not_ready(
    collector: ReadinessCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.update([readiness()])
    assert value(collector, "drlib_readiness_ready") == 1
    monkeypatch.setattr(clock, "now_ms", lambda: NOW + 2000)
    assert value(collector, "drlib_readiness_ready") == 0
    assert value(collector, "drlib_readiness_check", check="lag", severity="ok") is None
    assert value(collector, "drlib_readiness_timestamp_seconds") == NOW / 1000


def test_readiness_that_could_not_be_checked_has_no_score(collector: ReadinessCollector) -> None:
    def succeeded() -> float | None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(collector)
        return registry.get_sample_value("drlib_readiness_check_succeeded")

    assert succeeded() is None
    collector.update([readiness()])
    assert succeeded() == 1
    collector.update(None)
    assert succeeded() == 0
    assert value(collector, "drlib_readiness_score") is None


def test_textfile_is_prometheus_text(collector: ReadinessCollector) -> None:
    lines = textfile([readiness()], 80).decode().splitlines()
    assert f'drlib_readiness_score{{source="{LABELS["source"]}",target="{LABELS["target"]}"}} 100.0' in lines
    assert "drlib_readiness_check_succeeded 1.0" in lines
