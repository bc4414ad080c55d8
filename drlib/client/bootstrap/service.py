"""Serve a bootstrap address from start to SIGTERM: follow the pointer, pass clients on, and drain.

Rules:
- Nothing is listened at before it is known which cluster is active, by the pointer or, where no pointer can be read, by the
  state file. Without both the command ends: there is nothing to pass clients on to, and its service manager starts it again.
- The start waits `START_S` at most until every place that may have a pointer was asked. A version below the stored one does
  not count.
- A loop is refused at the start. When the pointer moves to a cluster whose brokers advertise this address, that is reported,
  and followed: a failover is no time to refuse.
- SIGTERM and SIGINT drain; a second signal ends at once.
Not for: the command's options and output (`drlib.cli.clients.bootstrap`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from drlib import clock
from drlib.client.active_cluster import NoPointer
from drlib.client.bootstrap import notes, state_file
from drlib.client.bootstrap.check import Own, check_cluster, refuse_loop
from drlib.client.bootstrap.follow import Follower, Look
from drlib.client.bootstrap.notes import Note
from drlib.client.bootstrap.proxy import TICK_S, Limits, Proxy, most_files
from drlib.client.bootstrap.rules import OTHER_FILES, Address, Change, Known, change, connections_within
from drlib.client.bootstrap.state_file import Stored
from drlib.client.pointer import PointerSource
from drlib.errors import Aborted, Unreachable, UsageError
from drlib.formats import count
from drlib.kafka.security.cluster_settings import ClusterSettings

START_S: Final = 10.0


class Manager(Protocol):
    """The service manager: systemd, or none."""

    def ready(self, text: str) -> None: ...
    def alive(self, now_s: float, text: str) -> None: ...
    def stopping(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """`listen` and `public` (what applications set) as host and port; `state`: the state file; `drain_s`: at most so long."""

    listen: tuple[Address, ...]
    public: tuple[Address, ...] = ()
    application: str = "*"
    state: Path | None = None
    limits: Limits = field(default_factory=Limits)
    drain_s: float = 10.0


class Bootstrap:
    """`clusters` by alias, of the file. `report` receives each note."""

    def __init__(
        self,
        clusters: Mapping[str, ClusterSettings],
        source: Callable[[], PointerSource],
        options: Options,
        report: Callable[[Note], None],
        manager: Manager,
    ) -> None:
        self.clusters = clusters
        self.proxy = Proxy(options.limits, report)
        self.known: Known | None = None
        self.doubt = ""
        self.from_state = False
        self.moved_at_s: float | None = None
        self._source = source
        self._options = options
        self._report = report
        self._manager = manager
        self._stored: Stored | None = None
        self._notes: dict[str, str] = {}  # of the pointer that are open: name -> detail
        self._checks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until a signal. Raises `UsageError`, `NoPointer`, `Unreachable` before clients are let in; `Aborted`."""
        self._stored = self._read_state()
        own = await self._bind()
        await refuse_loop(self.clusters.values(), own)
        stopping, signals = asyncio.Event(), 0
        loop, looks = asyncio.get_running_loop(), asyncio.Queue[Look]()
        main = asyncio.current_task()

        def stop() -> None:
            nonlocal signals
            signals += 1
            stopping.set()
            if signals > 1 and main is not None:
                main.cancel()

        def hand_on(look: Look) -> None:
            loop.call_soon_threadsafe(looks.put_nowait, look)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        follower = Follower(self._source(), hand_on)
        try:
            checks = [loop.create_task(check_cluster(each, own)) for each in self.clusters.values()]
            look = await self._first(looks, stopping)
            for check in checks:
                self._refuse_listeners(await check)
            if not stopping.is_set():
                await self._begin(look)
                await self._serve(looks, stopping, own)
            await self._drain()
        except asyncio.CancelledError:
            raise Aborted(
                "the bootstrap address was ended at once", "a second signal came", "Start it again."
            ) from None
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            await asyncio.to_thread(follower.close)

    async def _bind(self) -> Own:
        listening = []
        for host, port in self._options.listen:
            listening.append((host, await self.proxy.bind(host, port)))
        return Own(tuple(listening), self._options.public)

    def _read_state(self) -> Stored | None:
        path = self._options.state
        if path is None:
            return None
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            why = "its folder may not be written to" if path.parent.is_dir() else "its folder does not exist"
            raise UsageError(f"{path} cannot be the state file", why, "Give --state in a folder of this user.")
        return state_file.read(path, self._options.application)

    async def _first(self, looks: asyncio.Queue[Look], stopping: asyncio.Event) -> Look:
        """The pointer when every place was asked, or what is known of it after `START_S`."""
        look, until = Look(None, "", settled=False), time.monotonic() + START_S
        while not look.settled and not stopping.is_set() and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                look = await asyncio.wait_for(looks.get(), min(left, TICK_S))
        return look

    async def _begin(self, look: Look) -> None:
        """Choose the pointer or the stored one, and let clients in. Raises what `run` does."""
        stored = None if self._stored is None else self._stored.known
        if stored is not None and stored.cluster in self.clusters:
            self.known = stored
        await self._take(look)
        if self.proxy.cluster is None:
            if self.known is None:
                raise self._nothing_known(look)
            await self.proxy.point(self.clusters[self.known.cluster])  # as stored

    def _nothing_known(self, look: Look) -> Exception:
        where = f"no cluster is active for {self._options.application}"
        names = ", ".join(self.clusters)
        if look.pointer is not None:
            return UsageError(
                f"the pointer (version {look.pointer.version}) names {look.pointer.active}",
                f"the clusters of the file are {names}",
                f"Add {look.pointer.active} to clusters there, with its bootstrap.servers.",
            )
        if self._stored is not None:
            return UsageError(
                f"the state file names {self._stored.cluster}, and no pointer can be read",
                f"the clusters of the file are {names}{'; ' + look.doubt if look.doubt else ''}",
                "Correct FILE, or remove the state file.",
            )
        if look.doubt:
            return Unreachable(f"{where}: no pointer can be read", look.doubt, "Start one of the clusters.")
        return NoPointer(
            where, "no pointer was published yet", "Publish the first one: drlib pointer move FILE CLUSTER."
        )

    def _refuse_listeners(self, found: list[Note]) -> None:
        for note in found:
            if note.name == notes.LEADS_HERE:
                raise UsageError("clients cannot be passed on", note.detail, notes.KINDS[notes.LEADS_HERE].remedy)
            self._report(note)

    async def _serve(self, looks: asyncio.Queue[Look], stopping: asyncio.Event, own: Own) -> None:
        addresses = ", ".join(f"{host}:{port}" for host, port in own.listening)
        alias = "" if self.proxy.cluster is None else self.proxy.cluster.alias
        has = f"{count(self.proxy.most_connections)} connections within {count(most_files())} open files"
        self._report(Note(notes.STATE, "listening", f"at {addresses}, passing on to {alias}; {has}", alias, 0))
        self._manager.ready(f"passing on to {alias}")
        loop = asyncio.get_running_loop()
        while not stopping.is_set():
            before = self.proxy.cluster
            with contextlib.suppress(TimeoutError):
                await self._take(await asyncio.wait_for(looks.get(), TICK_S))
            if (now := self.proxy.cluster) is not before and now is not None:
                alias = now.alias
                check = loop.create_task(self._check(now, own))
                self._checks.add(check)
                check.add_done_callback(self._checks.discard)
            self.proxy.close_idle()
            self._manager.alive(loop.time(), f"passing on to {alias}")

    async def _check(self, cluster: ClusterSettings, own: Own) -> None:
        for note in await check_cluster(cluster, own):
            self._report(note)

    async def _take(self, look: Look) -> None:
        """Do what a look at the pointer means."""
        self.doubt = look.doubt
        pointer = look.pointer
        what = change(self.known, pointer, self.clusters)
        if pointer is not None and what in (Change.FIRST, Change.KEEP, Change.MOVE):
            self.known = Known(pointer.version, pointer.active)
            closed = await self.proxy.point(self.clusters[pointer.active])
            if what is Change.MOVE:
                self.moved_at_s = clock.now_ms() / 1000
                detail = f"version {pointer.version} of the pointer names {pointer.active}; {closed} connections closed"
                self._report(Note(notes.STATE, "moved", detail, pointer.active, closed))
            self._write_state(self.known)
        named = "" if pointer is None else f"version {pointer.version} of the pointer names {pointer.active}"
        kept = "" if self.known is None else f", {self.known.cluster} (version {self.known.version}) is kept"
        self.from_state = self._unread(look)
        self._say(notes.UNKNOWN_CLUSTER, named + kept if what is Change.UNKNOWN_CLUSTER else "")
        self._say(notes.CONFLICT, named + kept if what is Change.CONFLICT else "")
        self._say(notes.FROM_STATE, f"no newer pointer was read{kept}" if self.from_state else "")
        self._say(notes.IN_DOUBT, look.doubt)

    def _unread(self, look: Look) -> bool:
        """Does the stored pointer count, because none was read that is as new?"""
        if self._stored is None or self.known != self._stored.known:
            return False
        return look.pointer is None or look.pointer.version < self._stored.version

    def _say(self, name: str, detail: str) -> None:
        """Report a note when it opens or changes, and that it is over when `detail` is empty."""
        before = self._notes.get(name, "")
        cluster = "" if self.known is None else self.known.cluster
        if detail and detail != before:
            self._notes[name] = detail
            self._report(Note(name, "open", detail, cluster))
        elif before and not detail:
            del self._notes[name]
            self._report(Note(name, "resolved", before, cluster))

    def _write_state(self, known: Known) -> None:
        if self._options.state is None:
            return
        try:
            state_file.write(
                self._options.state, Stored(self._options.application, known.version, known.cluster, clock.now_ms())
            )
        except OSError as error:
            self._say(notes.STATE_FILE, f"{self._options.state}: {error.strerror or error}")
        else:
            self._say(notes.STATE_FILE, "")

    async def _drain(self) -> None:
        until = f"{self._options.drain_s:g} s at most"
        self._report(Note(notes.STATE, "draining", until, count=self.proxy.connections))
        self._manager.stopping("draining")
        await self.proxy.drain(self._options.drain_s)
        self._report(Note(notes.STATE, "stopped", f"after {self.proxy.counts.accepted} connections", count=0))


def allow_files(connections: int) -> None:
    """Raise this process's limit of open files where it is too low for `connections`, as far as it may be raised.

    Raises `UsageError` where that is not enough.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and connections > (most := connections_within(hard)):
        raise UsageError(
            f"{connections} connections cannot be passed on",
            f"this process may have {hard} open files, two for each of {most} connections",
            f"Raise the limit (ulimit -Hn, LimitNOFILE= of its unit), or give --max-connections {most}.",
        )
    if soft != resource.RLIM_INFINITY and connections > connections_within(soft):
        needed = 2 * connections + OTHER_FILES  # without a hard limit the system has another one, which is not known
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed if hard == resource.RLIM_INFINITY else hard, hard))
