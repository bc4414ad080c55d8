"""The metrics of an address before and after its first pointer."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from drlib.client.bootstrap.metrics import BootstrapCollector
from drlib.client.bootstrap.rules import Known
from drlib.client.bootstrap.service import Bootstrap, Options
from drlib.client.pointer_file import PointerWatcher
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status.systemd import ServiceManager


def page(served: Bootstrap) -> set[str]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BootstrapCollector(served))
    lines = generate_latest(registry).decode().splitlines()
    return {line.removeprefix("drlib_bootstrap_") for line in lines if not line.startswith("#")}


def test_metrics_of_an_unknown_pointer_have_no_sample_and_of_a_known_one_do() -> None:
    clusters = {alias: ClusterSettings(alias, ("h:1",)) for alias in ("paris", "lyon")}
    served = Bootstrap(clusters, lambda: PointerWatcher, Options(()), lambda _: None, ServiceManager())  # type: ignore
    before = page(served)
    assert {"connections 0.0", 'cluster{cluster="paris"} 0.0', "pointer_in_doubt 0.0"} <= before
    assert not any(line.startswith(("pointer_version", "moved_timestamp")) for line in before)
    served.known, served.proxy.cluster = Known(7, "lyon"), clusters["lyon"]
    served.doubt, served.from_state, served.moved_at_s = "paris does not answer", True, 5.0
    served.proxy.counts.closed["moved"] += 2
    after = page(served)
    assert {"pointer_version 7.0", "pointer_in_doubt 1.0", "pointer_from_state 1.0"} <= after
    assert {'cluster{cluster="lyon"} 1.0', "moved_timestamp_seconds 5.0", 'closed_total{reason="moved"} 2.0'} <= after
