"""Export a bootstrap address as Prometheus metrics, built for each scrape.

Rules: names begin with `drlib_bootstrap_`; an unknown value has no sample. Counters are read while the event loop counts: each
is right by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from drlib.client.bootstrap.service import Bootstrap


class BootstrapCollector(Collector):
    """Reads `served` at every scrape."""

    def __init__(self, served: Bootstrap) -> None:
        self._served = served

    def collect(self) -> Iterator[Metric]:
        return iter(families(self._served))


def families(served: Bootstrap) -> list[Metric]:
    """Every metric."""
    proxy, counts = served.proxy, served.proxy.counts

    def gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"drlib_bootstrap_{name}", text)
        if value is not None:
            family.add_metric((), value)
        return family

    def counter(name: str, text: str, label: str, values: Mapping[str, int]) -> CounterMetricFamily:
        family = CounterMetricFamily(f"drlib_bootstrap_{name}", text, labels=(label,))
        for key, value in sorted(values.items()):
            family.add_metric((key,), value)
        return family

    active = GaugeMetricFamily(
        "drlib_bootstrap_cluster", "1 for the cluster that is passed on to.", labels=("cluster",)
    )
    for alias in served.clusters:
        active.add_metric((alias,), float(proxy.cluster is not None and proxy.cluster.alias == alias))
    accepted = CounterMetricFamily("drlib_bootstrap_accepted", "Connections of clients.")
    accepted.add_metric((), counts.accepted)
    known = served.known
    return [
        active,
        accepted,
        gauge("connections", "Connections that are open.", proxy.connections),
        gauge("connections_limit", "Connections that may be open.", proxy.most_connections),
        gauge("pointer_version", "Version of the pointer that is followed.", None if known is None else known.version),
        gauge("pointer_in_doubt", "1 while a place that may have a newer pointer does not answer.", bool(served.doubt)),
        gauge("pointer_from_state", "1 while no pointer was read and the state file counts.", served.from_state),
        gauge("moved_timestamp_seconds", "When the pointer moved last; since the start.", served.moved_at_s),
        counter("passed", "Connections that a server accepted.", "cluster", dict(counts.passed)),
        counter("closed", "Connections that ended, by reason.", "reason", dict(counts.closed)),
        counter("server_failures", "Attempts to connect that failed.", "server", dict(counts.failed)),
        counter(
            "bytes",
            "Bytes of connections that have ended.",
            "direction",
            {"to_server": counts.bytes_to_servers, "to_client": counts.bytes_to_clients},
        ),
    ]
