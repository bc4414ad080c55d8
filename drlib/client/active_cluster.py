"""For applications: connect to the active cluster, follow its changes, and publish the pointer.

Rules: the pointer names the cluster, the properties file has its addresses and security. In a file with `clusters = ...` (the
mirror's, or one with only clusters, addresses and security) the address is the file's; with one client's file, which has no
addresses, it is the pointer's. Secrets stay references until a configuration is requested, and are never printed. The pointer
is a file, or the topic on every cluster of the properties file.
Not for: stopping producers, translating offsets or finding cutovers: a drill does this before it publishes.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from drlib.client import pointer_file
from drlib.client.pointer import Pointer, PointerSource
from drlib.client.pointer_topic import EVERYONE, TOPIC, Published, publish, read_pointer
from drlib.client.pointer_watch import pointer_source
from drlib.config.settings import load_client_settings, load_mirror_settings
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.java_formats import properties
from drlib.kafka.security.cluster_settings import ClusterSettings

_LOG: Final = logging.getLogger("drlib.active")
_POLL_S: Final = 0.05


class NoPointer(DrlibError):
    """No pointer has been published yet."""

    exit_code = 11

    def __init__(self, what: str, why: str, remedy: str) -> None:
        super().__init__(what, why, remedy, retriable=True)


class StalePointer(DrlibError):
    """The newest pointer that could be read is older than the version the caller knows of."""

    exit_code = 12


@dataclass(frozen=True, slots=True)
class Active:
    """The newest pointer, and the settings of the cluster it names."""

    application: str
    pointer: Pointer
    cluster: ClusterSettings = field(repr=False)

    @property
    def alias(self) -> str:
        return self.pointer.active

    @property
    def version(self) -> int:
        return self.pointer.version

    def config(self) -> dict[str, object]:
        """librdkafka's configuration: `bootstrap.servers` and security, secrets resolved now. Raises `UsageError`."""
        return librdkafka(self.cluster)


class ActiveCluster:
    """`with ActiveCluster("orders", "clusters.properties") as active:`, and then `active.current().config()`.

    `config`: a properties file, see above. `pointer`: the path of a pointer file; without one the topic `topic` on
    every cluster of `config` is followed. Entering waits until every cluster has answered or is known not to
    answer, at most `timeout_s` seconds. Raises `UsageError`, `NoPointer`, `Unreachable`, `PointerConflict`, and
    `StalePointer` for a version below `at_least`.
    """

    def __init__(
        self,
        application: str,
        config: str | Path,
        *,
        pointer: str | Path | None = None,
        topic: str = TOPIC,
        timeout_s: float = 10.0,
        at_least: int = 0,
    ) -> None:
        self.application = application
        self._config = Path(config)
        self._clusters: dict[str, ClusterSettings] | None = None
        if "clusters" in properties.read(self._config).effective():
            self._clusters = dict(load_mirror_settings(self._config).clusters)
        elif pointer is None:
            raise UsageError(
                f"{self._config} has no clusters",
                "the pointer's topic is read from every cluster, and a file for one client names no cluster",
                "Write clusters = A, B and A.bootstrap.servers = host:9092 there, or give pointer=FILE.",
            )
        self._pointer_file = None if pointer is None else Path(pointer)
        self._topic = topic
        self._timeout_s = timeout_s
        self._at_least = at_least
        self._source: PointerSource | None = None
        self._active: Active | None = None  # what was returned last

    def __enter__(self) -> Self:
        clusters = tuple((self._clusters or {}).values())
        self._source = pointer_source(self._pointer_file, clusters, self.application, topic=self._topic)
        try:
            self._wait_for_first(self._source)
            active = self.current()
            if active.version < self._at_least:
                raise StalePointer(
                    f"the pointer for {self.application} has version {active.version}",
                    f"version {self._at_least} or newer exists" + (f"; {self.doubt()}" if self.doubt() else ""),
                    "Start again when every cluster answers, or correct the pointer file.",
                )
        except BaseException:
            self.close()
            raise
        if doubt := self.doubt():
            _LOG.warning(
                "%s uses %s (pointer version %d), but %s", self.application, active.alias, active.version, doubt
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def current(self) -> Active:
        """The cluster to use now, never an older pointer than before. Raises `UsageError` for an unknown alias."""
        pointer = self._following().current()
        if pointer is None:
            raise self._no_pointer("no pointer was read")
        if self._active is None or self._active.pointer != pointer:
            self._active = Active(self.application, pointer, self._reach(pointer))
        return self._active

    def wait_for_change(self, timeout_s: float) -> Active | None:
        """The pointer that is newer than the last one returned, or None after `timeout_s` seconds.

        A newer pointer may name the same cluster: it may begin a hold, or have the cutover. A hold that ended by its limit is
        also returned: the same pointer without the hold.
        """
        version = 0 if self._active is None else self._active.version
        held = self._active is not None and self._active.pointer.hold
        source, until = self._following(), time.monotonic() + timeout_s
        while True:
            left = max(0.0, until - time.monotonic())
            if source.wait_newer(version, min(left, _POLL_S) if held else left) is not None:
                return self.current()
            if held and (now := source.current()) is not None and not now.hold:
                return self.current()
            if left <= 0:
                return None

    def doubt(self) -> str:
        """Why the pointer may not be the newest: clusters that do not answer, an invalid file; else empty."""
        return self._following().doubt()

    def _following(self) -> PointerSource:
        if self._source is None:
            raise UsageError(
                f"the pointer for {self.application} is not followed yet",
                "ActiveCluster is a context manager",
                "Write `with drlib.ActiveCluster(...) as active:`.",
            )
        return self._source

    def _wait_for_first(self, source: PointerSource) -> None:
        until = time.monotonic() + self._timeout_s
        while source.current() is None or not source.settled():
            if time.monotonic() > until or (source.settled() and self._pointer_file is None):
                break
            time.sleep(_POLL_S)
        if source.current() is None:
            where = self._pointer_file.name if self._pointer_file is not None else f"topic {self._topic}"
            if self._pointer_file is None and source.doubt():
                raise Unreachable(
                    f"no pointer for {self.application} could be read", source.doubt(), "Start one of the clusters."
                )
            raise self._no_pointer(f"{where} has no pointer")

    def _no_pointer(self, why: str) -> NoPointer:
        return NoPointer(
            f"no cluster is active for {self.application}",
            why,
            "Publish a first pointer: drlib pointer move FILE CLUSTER, or drlib.publish_pointer.",
        )

    def _reach(self, pointer: Pointer) -> ClusterSettings:
        if self._clusters is None:
            servers = [server.strip() for server in pointer.bootstrap.split(",")]
            return load_client_settings(self._config, pointer.active, servers)[0]
        if pointer.active not in self._clusters:
            raise UsageError(
                f"the pointer (version {pointer.version}) names {pointer.active}",
                f"the clusters of {self._config} are {', '.join(self._clusters)}",
                f"Add {pointer.active} to clusters there, with its bootstrap.servers.",
            )
        return self._clusters[pointer.active]


def active_config(
    application: str,
    config: str | Path,
    *,
    pointer: str | Path | None = None,
    topic: str = TOPIC,
    timeout_s: float = 10.0,
    at_least: int = 0,
) -> dict[str, object]:
    """The configuration of the active cluster for confluent-kafka, read once.

    `Consumer({**drlib.active_config("orders", FILE), "group.id": ...})`.
    See `ActiveCluster` for the parameters, the errors, and how to follow changes.
    """
    with ActiveCluster(
        application, config, pointer=pointer, topic=topic, timeout_s=timeout_s, at_least=at_least
    ) as active:
        return active.current().config()


def publish_pointer(
    config: str | Path,
    active: str,
    application: str = EVERYONE,
    *,
    remote_prefix: str | None = None,
    cutover: Mapping[str, tuple[int, ...]] | None = None,
    hold: bool = False,
    pointer: str | Path | None = None,
    topic: str = TOPIC,
    timeout_s: float = 10.0,
) -> Published:
    """Publish `active`, a cluster of the file `config`, as the one to use, with the next version.

    Written to the topic on every cluster that answers, or to the file `pointer`: for one application to its own file beside
    that, for all of them to these, too. Raises `UsageError` for an alias that
    the file does not have, `PointerConflict` when another writer was first, `Unreachable` when no cluster answers.
    """
    clusters = load_mirror_settings(config).clusters
    if active not in clusters:
        raise UsageError(
            f"{active} cannot be made active",
            f"the clusters of {config} are {', '.join(clusters)}",
            "Name one of them.",
        )
    file = None if pointer is None else Path(pointer)
    stored: dict[Path, Pointer] = {}
    if file is None:
        version = read_pointer(tuple(clusters.values()), application, topic=topic, timeout_s=timeout_s).next_version
    else:
        stored = pointer_file.read_all(file)
        version = 1 + max((each.version for each in stored.values()), default=0)
    fresh = Pointer(
        version,
        active,
        ",".join(clusters[active].bootstrap_servers),
        remote_prefix,
        dict(cutover or {}),
        hold,
    )
    if file is None:
        return publish(tuple(clusters.values()), fresh, application, topic=topic, timeout_s=timeout_s)
    if application != EVERYONE and "/" in application:
        raise UsageError(
            f"no pointer was published for {application}", "a file has no / in its name", "Publish it in the topic."
        )
    places = [pointer_file.own_file(file, application)] if application != EVERYONE else list({file: None, **stored})
    for place in places:
        pointer_file.write_atomic(place, fresh)
    return Published(fresh, tuple(place.name for place in places))
