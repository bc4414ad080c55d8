"""Export the readiness of flows as Prometheus metrics: for a scrape, or a file of node_exporter's textfile collector.

Rules: what is exported is the last check's result, as of now: evidence that has expired since is unknown. An unknown value has
no sample, never 0; the time of the check says how old the others are. Names begin with `drlib_readiness_`.
Source: Prometheus's text format; node_exporter's textfile collector (a file is replaced whole).
"""

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drlib import clock
from drlib.drill.readiness.score import CHECKS, Readiness, Severity
from drlib.mirror.status.endpoint import metrics_page
from drlib.model import Flow

_FLOW = ("source", "target")


class ReadinessCollector(Collector):
    """Exports what `update` was given last. `minimum`: the score that the gate requires."""

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum
        self._flows: tuple[Readiness, ...] = ()
        self._checked: bool | None = None

    def update(self, flows: Sequence[Readiness] | None) -> None:
        """The result of a check; None where it could not be made: then there is no score."""
        self._flows, self._checked = tuple(flows or ()), flows is not None

    def collect(self) -> Iterator[Metric]:
        now_ms = clock.now_ms()
        yield from families([readiness.as_of(now_ms) for readiness in self._flows], self._minimum, self._flows)
        last = GaugeMetricFamily(
            "drlib_readiness_check_succeeded", "1 where the last check could be made, 0 where not."
        )
        if self._checked is not None:
            last.add_metric((), self._checked)
        yield last


def families(flows: Sequence[Readiness], minimum: int, checked: Sequence[Readiness]) -> list[Metric]:
    """The metrics of `flows` as they are now, and of the time at which they were `checked`."""
    score = GaugeMetricFamily("drlib_readiness_score", "Readiness for a failover, 0 to 100.", labels=_FLOW)
    text = "1 where the score is enough and nothing is critical, else 0."
    ready = GaugeMetricFamily("drlib_readiness_ready", text, labels=_FLOW)
    text = "1 for the severity of the check's worst finding."
    severity = GaugeMetricFamily("drlib_readiness_check", text, labels=(*_FLOW, "check", "severity"))
    at = GaugeMetricFamily("drlib_readiness_timestamp_seconds", "When the flow was checked.", labels=_FLOW)
    for readiness in flows:
        labels = _labels(readiness)
        score.add_metric(labels, readiness.score)
        ready.add_metric(labels, readiness.ready(minimum))
        for check in CHECKS:
            found = readiness.severity(check.id)
            if found is not Severity.UNKNOWN:
                severity.add_metric((*labels, check.id, found.value), 1)
    for readiness in checked:
        at.add_metric(_labels(readiness), readiness.at_ms / 1000)
    return [score, ready, severity, at]


def textfile(flows: Sequence[Readiness], minimum: int) -> bytes:
    """The page for the textfile collector."""
    collector = ReadinessCollector(minimum)
    collector.update(flows)
    return metrics_page(collector)


def _labels(readiness: Readiness) -> tuple[str, str]:
    flow = Flow.parse(readiness.flow)
    return flow.source, flow.target
