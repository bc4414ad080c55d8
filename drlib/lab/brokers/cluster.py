"""A Kafka cluster of one to three brokers on this machine.

Rules: brokers of a cluster start together; when another process took a port, the whole cluster moves to new ones (the
controllers' ports are part of every broker's configuration), but only before its first start: afterwards clients know the
ports. Not for: faults between clusters (`lab.link`), records (`drlib.kafka.admin`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.brokers.broker import HOST, Broker, BrokerFailed, BrokerSpec, new_id
from drlib.lab.brokers.security import LabSecurity, Vault
from drlib.lab.link.link import APPS_LINK
from drlib.lab.ports import free_ports
from drlib.lab.processes import ProcessRegistry

_ATTEMPTS: Final = 4


class Cluster:
    """The brokers of one alias. `bootstrap` never sees a fault of the network; `link_bootstrap` (mirrors) and `apps_bootstrap`
    (the lab's applications) go through the proxy."""

    def __init__(
        self,
        specs: Sequence[BrokerSpec],
        registry: ProcessRegistry,
        *,
        die_with_parent: bool,
        vault: Vault | None = None,
    ) -> None:
        self._vault = vault
        self.alias = specs[0].alias
        self.cluster_id = specs[0].cluster_id
        self._registry = registry
        self._die_with_parent = die_with_parent
        self.brokers: tuple[Broker, ...] = self._of(specs)

    def _of(self, specs: Sequence[BrokerSpec]) -> tuple[Broker, ...]:
        return tuple(
            Broker(spec, self._registry, die_with_parent=self._die_with_parent, vault=self._vault) for spec in specs
        )

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of the CLIENT listeners."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def link_bootstrap(self) -> str:
        """bootstrap.servers through the link proxy."""
        return ",".join(broker.link_bootstrap for broker in self.brokers)

    @property
    def apps_bootstrap(self) -> str:
        """bootstrap.servers of the lab's applications, through links of their own."""
        return ",".join(broker.apps_bootstrap for broker in self.brokers)

    @property
    def internal_bootstrap(self) -> str:
        """bootstrap.servers of the lab's own access."""
        return ",".join(broker.internal_bootstrap for broker in self.brokers)

    def broker_client(self) -> dict[str, object]:
        """librdkafka's configuration for `internal_bootstrap`, without the address."""
        return {} if self._vault is None else self._vault.broker_client()

    @property
    def vault(self) -> Vault | None:
        """Certificates and passwords of a secured lab."""
        return self._vault

    def at(self, listener: str) -> str:
        """The bootstrap.servers of one listener: CLIENT, LINK (through the proxy), or a further one of a secured lab."""
        if listener in ("CLIENT", "LINK"):
            return self.bootstrap if listener == "CLIENT" else self.link_bootstrap
        return ",".join(f"{HOST}:{broker.spec.more[listener]}" for broker in self.brokers)

    def settings(self, listener: str = "CLIENT", mechanism: str = "", user: str = "") -> ClusterSettings:
        """Client settings for this cluster; `mechanism` instead of the lab's SASL mechanism, `user` instead of the lab's own
        (the mirror's at LINK)."""
        keys = {} if self._vault is None else self._vault.client_properties(listener, mechanism, user)
        return ClusterSettings(self.alias, tuple(self.at(listener).split(",")), keys)

    @property
    def alive(self) -> bool:
        """Whether every broker's process runs."""
        return all(broker.alive for broker in self.brokers)

    def launch(self, extra: Mapping[str, str]) -> None:
        """Format what is not formatted yet and start every broker, without waiting."""
        for broker in self.brokers:
            broker.prepare(extra)
        for broker in self.brokers:
            broker.launch()

    def wait_ready(
        self, extra: Mapping[str, str], deadline_s: float, *, on_new_ports: Callable[["Cluster"], None] = lambda _: None
    ) -> None:
        """Wait until every broker serves, moving to new ports when one was taken. Raises `BrokerFailed`.

        `on_new_ports` is called after a move, so that the new ports can be published.
        """
        end = time.monotonic() + deadline_s
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                for broker in self.brokers:
                    broker.wait_ready(max(1.0, end - time.monotonic()))
                if self._vault is not None:
                    self._vault.make_users(self.internal_bootstrap)
                return
            except BrokerFailed as problem:
                if not problem.bind_failed or attempt == _ATTEMPTS:
                    raise
            for broker in self.brokers:
                broker.kill()
            self.brokers = self._of(moved([broker.spec for broker in self.brokers]))
            on_new_ports(self)
            self.launch(extra)

    def kill(self) -> None:
        """SIGKILL every broker: the whole site is lost."""
        for broker in self.brokers:
            broker.kill()

    def pause(self) -> None:
        """SIGSTOP every broker: connections stay open and nothing answers."""
        for broker in self.brokers:
            broker.pause()

    def resume(self) -> None:
        """SIGCONT every broker."""
        for broker in self.brokers:
            broker.resume()

    def stop(self, *, deadline_s: float = 20.0) -> None:
        """A controlled shutdown of every broker."""
        for broker in self.brokers:
            broker.stop(deadline_s=deadline_s)

    def start(self, *, deadline_s: float = 60.0) -> None:
        """Start every broker that does not run, on its data and ports, and wait until all serve. Raises `BrokerFailed`."""
        for broker in self.brokers:  # start all before waiting: three controllers need two for a quorum
            if not broker.alive:
                broker.launch()
        end = time.monotonic() + deadline_s
        for broker in self.brokers:
            broker.wait_ready(max(1.0, end - time.monotonic()))

    def restart(self, extra: Mapping[str, str] | None = None, *, deadline_s: float = 60.0) -> None:
        """Start every broker again on the same data and ports and wait until all serve. Raises `BrokerFailed`.

        With `extra` the configuration is rewritten, as at `launch`.
        """
        for broker in self.brokers:
            if broker.alive:
                broker.stop()
            if extra is not None:
                broker.prepare(extra)
        self.start(deadline_s=deadline_s)


def broker_names(alias: str, brokers: int) -> tuple[str, ...]:
    """The names of a cluster's brokers, which are those of their folders and of the mirrors' links."""
    return tuple(f"{alias}-{node}" for node in range(1, brokers + 1))


def link_names(alias: str, brokers: int) -> tuple[str, ...]:
    """The proxy's links to a cluster of `brokers`: for each broker one of mirrors and one of applications."""
    names = broker_names(alias, brokers)
    return (*names, *(f"{APPS_LINK}{name}" for name in names))


def new_specs(
    alias: str, root: str, proxy_ports: Mapping[str, int], brokers: int, security: LabSecurity | None = None
) -> tuple[BrokerSpec, ...]:
    """Specifications of a new cluster of `brokers`; `proxy_ports` says where the proxy listens for each of `link_names`."""
    cluster_id = new_id()
    specs = [
        BrokerSpec(
            *(alias, node, cluster_id, f"{root}/{name}", 0, 0, proxy_ports[name], 0, "", brokers),
            apps_port=1,
            apps_advertised_port=proxy_ports[f"{APPS_LINK}{name}"],
        )
        for node, name in enumerate(broker_names(alias, brokers), start=1)
    ]
    if security is not None:
        more = dict.fromkeys(security.more, 0)
        specs = [replace(spec, internal_port=1, more=more) for spec in specs]
    return moved(specs)


def moved(specs: Sequence[BrokerSpec]) -> tuple[BrokerSpec, ...]:
    """The same brokers on new free ports."""
    counts = [3 + bool(spec.internal_port) + bool(spec.apps_port) + len(spec.more) for spec in specs]
    ports = iter(free_ports(sum(counts)))
    placed = [
        replace(
            spec,
            client_port=next(ports),
            link_port=next(ports),
            controller_port=next(ports),
            internal_port=next(ports) if spec.internal_port else 0,
            apps_port=next(ports) if spec.apps_port else 0,
            more={name: next(ports) for name in spec.more},
        )
        for spec in specs
    ]
    voters = ",".join(f"{spec.node_id}@{HOST}:{spec.controller_port}" for spec in placed)
    return tuple(replace(spec, voters=voters) for spec in placed)
