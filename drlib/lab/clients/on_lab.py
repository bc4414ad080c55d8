"""Unmodified clients on a lab: one producer and one consumer of each family at one address, each a process of the lab.

Rules:
- Each family has a topic of its own, so that no two of them write to one partition: redirected producers keep their IDs. It is
  there on both clusters under both names, as some clients look at their topics once only (kafkajs). Under identical names
  (`shared`) there is one, and `ready` waits until it is copied, before anything is written to it.
- The topic of a Streams application's sums is there on both clusters, and is not mirrored; nor are its internal topics, which
  it creates itself. A runbook leaves its positions out, too, so that it rebuilds its state from its input.
- The address is `drlib bootstrap`, which follows the applications' pointer file; where there is none yet, one that names the
  source is written. A client that is left behind has the source's own address instead. All use the applications' network.
- What runs, and what cannot, is a file in the run's folder, so that another process finds it. Starting again what runs
  changes nothing.
Not for: judging (`rules`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.files import read_json, read_stored, write_whole
from drlib.lab.brokers.cluster import Cluster
from drlib.lab.checker.history import History
from drlib.lab.checker.history_files import read_history
from drlib.lab.checker.scan import scan
from drlib.lab.clients.families import BY_NAME, Runtime
from drlib.lab.clients.python_client import starts_path
from drlib.lab.clients.rules import Seen
from drlib.lab.clients.runtimes import Client, Role, command
from drlib.lab.lab import Lab
from drlib.lab.ports import free_ports
from drlib.lab.processes import wait_until
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.model import Flow

LEFT_BEHIND: Final = "left-behind"
ADDRESS: Final = "bootstrap-address"
PER_SECOND: Final = 20.0
_FILE: Final = "clients.json"
_ROLES: Final[tuple[Role, Role]] = ("produce", "consume")
_LISTENS_S: Final = 60.0
_POLICY: Final = DefaultReplicationPolicy()


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a run has started. `left_behind`: the family of the client that has the source's own address; empty for none.
    `pointer`: whether the pointer was written for them."""

    families: tuple[Runtime, ...]
    left_behind: str = ""
    address: str = ""
    pointer: bool = False


_CHOSEN: Final = TypeAdapter(Chosen)


@dataclass(frozen=True, slots=True)
class One:
    """A producer and a consumer of a family. `name` is their group, and names their topic, processes and histories."""

    runtime: Runtime
    left_behind: bool = False

    @property
    def name(self) -> str:
        return f"client-{LEFT_BEHIND if self.left_behind else self.runtime.family}"

    @property
    def topic(self) -> str:
        return f"flights-{self.name}"  # the mirror takes flights.*

    @property
    def output(self) -> str:
        """Where a Streams application writes its sums."""
        return f"sums-{self.name}" if BY_NAME[self.runtime.family].sums else ""

    def process(self, role: Role) -> str:
        return f"{self.name}-{role}"


Wait = Callable[[str, Callable[[], bool], float], None]
"""Returns once something, which is named, is so; raises where that is not within so many seconds."""


def _wait(what: str, reached: Callable[[], bool], seconds: float) -> None:
    if not wait_until(reached, seconds):
        raise TimeoutError(f"{what}: not within {seconds:g} s")


@dataclass(frozen=True, slots=True)
class LabClients:
    """The clients of the run in `run_dir`; `pointer` is the applications' pointer file. `shared`: topics have one name.
    `recommended`: they are as docs/clients.md recommends, or have their libraries' defaults alone."""

    lab: Lab
    run_dir: Path
    flow: Flow
    pointer: Path
    shared: bool = False
    recommended: bool = True

    @property
    def chosen(self) -> Chosen:
        """What was started; nothing where nothing was."""
        try:
            return read_json(self.run_dir / _FILE, _CHOSEN)
        except FileNotFoundError:
            return Chosen(())

    def each(self, chosen: Chosen | None = None) -> Iterator[One]:
        """All that run, the one that is left behind last."""
        chosen = self.chosen if chosen is None else chosen
        yield from (One(runtime) for runtime in chosen.families if not runtime.missing)
        if chosen.left_behind:
            found = {runtime.family: runtime for runtime in chosen.families}
            yield One(found.get(chosen.left_behind) or Runtime(chosen.left_behind, ""), left_behind=True)

    def start(
        self, chosen: Chosen, ready: Callable[[Sequence[TopicSpec]], None] = lambda _: None, wait: Wait = _wait
    ) -> None:
        """Create topics, wait for `ready`, and start the address and, once it listens, every client that does not run.

        `wait` raises what is to be raised where it does not listen in time.
        """
        kept = self.chosen
        address, ours = kept.address or f"127.0.0.1:{free_ports(1)[0]}", kept.pointer or not self.pointer.exists()
        chosen = replace(chosen, address=address, pointer=ours)
        write_whole(self.run_dir / _FILE, _CHOSEN.dump_json(chosen))
        topics = [TopicSpec(name, 1) for one in self.each() for name in self._names(one)]
        sums = [TopicSpec(one.output, 1) for one in self.each() if one.output]
        source = self._cluster(self.flow.source)
        if not self.pointer.exists():
            pointer_file.write_atomic(self.pointer, Pointer(1, self.flow.source, source.bootstrap))
        create_topics(source.settings(), [*topics, *sums])
        local = [TopicSpec(one.topic, 1) for one in self.each()]
        create_topics(self._cluster(self.flow.target).settings(), [*local, *sums])
        ready(topics)
        self._start_address(chosen.address)
        wait("the bootstrap address listens", self.listening, _LISTENS_S)  # kafkajs ends without a connection for 14 s
        for one in self.each():
            servers = source.apps_bootstrap if one.left_behind else chosen.address
            for role in _ROLES:
                self._start(one, role, servers)

    def remote(self, one: One) -> str:
        return one.topic if self.shared else _POLICY.remote_topic(self.flow.source, one.topic)

    def _names(self, one: One) -> tuple[str, ...]:
        """The names that its topic has on the target, those on which its consumer is."""
        return (one.topic,) if self.shared else (one.topic, self.remote(one))

    def runs(self) -> bool:
        """Whether the address and all clients do."""
        names = [ADDRESS, *(one.process(role) for one in self.each() for role in _ROLES)]
        return all(self.lab.registry.alive(name) for name in names)

    def listening(self) -> bool:
        """Whether the address accepts connections."""
        host, port = decoding.address(self.chosen.address)
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((host, port)) == 0

    def processed(self, one: One) -> int:
        """Records that its consumer has processed, cheap enough to poll."""
        return self._histories.processed(one.process("consume"))

    def seen(self, one: One) -> Seen:
        """Its histories so far; the target's logs are not read."""
        produced, consumed = (self._histories.history_path(one.process(role)) for role in _ROLES)
        return Seen(
            read_history(produced),
            read_history(consumed),
            (),
            (),
            tuple(sorted((*_starts(starts_path(produced)), *_starts(starts_path(consumed))))),
            one.left_behind,
        )

    def consumed(self, one: One) -> History:
        """What its consumer has processed."""
        return read_history(self._histories.history_path(one.process("consume")))

    def logged(self, one: One) -> Seen:
        """The same, with the ids in both topics on the target; in one log, before and behind where it ended at the move."""
        where = self._cluster(self.flow.target).settings()
        remote, local = list(scan(where, self.remote(one))), [] if self.shared else list(scan(where, one.topic))
        if self.shared:
            (end,) = pointer_file.read(self.pointer).cutover.get(one.topic, (0,))
            remote, local = [row for row in remote if row.offset < end], [row for row in remote if row.offset >= end]
        return replace(self.seen(one), remote=tuple(r.id for r in remote), local=tuple(r.id for r in local))

    def stop(self, *roles: Role) -> None:
        """SIGTERM to the clients of these roles at once, then wait: histories end whole."""
        self._histories.stop(*(one.process(role) for one in self.each() for role in roles))

    def stop_all(self) -> None:
        self.stop(*_ROLES)
        self.lab.registry.stop(ADDRESS)

    def forget(self) -> None:
        """A pointer that was written for them and still names the source goes with them."""
        if self.chosen.pointer and self.pointer.exists() and pointer_file.read(self.pointer).active == self.flow.source:
            self.pointer.unlink()
        (self.run_dir / _FILE).unlink(missing_ok=True)

    @property
    def _histories(self) -> LabApplications:
        return LabApplications(self.lab, self.run_dir / "history")

    def _cluster(self, alias: str) -> Cluster:
        return self.lab.clusters[alias]

    def _start_address(self, address: str) -> None:
        if self.lab.registry.alive(ADDRESS):
            return
        clusters = {alias: self._cluster(alias).apps_bootstrap for alias in (self.flow.source, self.flow.target)}
        servers = {f"{alias}.bootstrap.servers": where for alias, where in clusters.items()}  # not over the link
        file = self.lab.write_properties(self.lab.root / f"{ADDRESS}.properties", **servers)
        options = ["--listen", address, "--pointer", str(self.pointer)]
        self.lab.start_module(ADDRESS, "drlib.cli", "bootstrap", str(file), *options)

    def _start(self, one: One, role: Role, servers: str) -> None:
        name = one.process(role)
        if self.lab.registry.alive(name):
            return
        history = self._histories.history_path(name)
        history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        topics = (one.topic,) if role == "produce" else self._names(one)
        client = Client(
            one.runtime.family,
            role,
            one.name,
            "address",
            servers,
            topics,
            history,
            PER_SECOND,
            self.lab.client_file(),
            one.output,
            self.recommended,
        )
        self.lab.start_program(name, command(client))


def _starts(path: Path) -> Iterator[int]:
    try:
        lines = read_stored(path).splitlines()
    except FileNotFoundError:
        return
    yield from (at for at in (decoding.integer_or(0, line) for line in lines) if at)
