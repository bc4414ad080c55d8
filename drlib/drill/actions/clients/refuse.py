"""Actions `clients.refuse` and `clients.admit`: brokers refuse new connections by their addresses, and admit them again.

Rules: brokers are changed one after the other. After each this host connects to it once more, by a new connection: where it
is refused, the broker gets its values back over the connection that is open, and the run ends. The addresses of this host and
of the brokers are never refused: with `hosts` such an address is an error, with `keep` they are kept, too. A mirror's workers
and every other client that has to stay are named in `keep`. Brokers that talk to each other from other addresses than they
advertise have theirs named there as well. Open connections stay: they end with a rolling restart, or by their clients. Undone
exactly, by a rollback or by `clients.admit` in this run or in one beside it.
Not for: clients that see the pointer's hold (`source.fence`); whether clients are gone (`gone`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from drlib.drill.actions.clients import limits, rules
from drlib.drill.actions.clients.limits import ClientLimits
from drlib.drill.actions.clients.members import members
from drlib.drill.actions.clients.rules import Limits
from drlib.drill.actions.clients.throttled import ThrottledProducers
from drlib.drill.actions.parts import Parts
from drlib.drill.actions.taken_back import TakenBack
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Changes, DrillAction, Evidence, reach
from drlib.drill.step.argument_types import Texts
from drlib.drill.step.cluster_identity import cluster_id, identity
from drlib.drill.step.flow_arguments import ClusterArguments, Shared
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, first_answer
from drlib.kafka.admin.errors import ClusterRefused
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar

ADMITTED: Final = "admitted again"
_CONNECT_S: Final = 5.0


class LeftCluster(ClusterArguments):
    """The cluster that clients are made to leave."""

    @property
    def written(self) -> ClientLimits:
        return ClientLimits(self.context.run_dir, self.settings)

    @property
    def throttled(self) -> ThrottledProducers:
        return ThrottledProducers(self.context.run_dir, self.settings)

    def cluster_id(self) -> str:
        return cluster_id(self.settings)


class RefuseClients(LeftCluster, DrillAction):
    """Let the brokers of a cluster that stays up refuse new connections by the addresses that they come from
    (max.connections.per.ip.overrides of each broker). Open connections stay until a rolling restart. Undone exactly."""

    name = "clients.refuse"
    shared_topics = Shared.SOME

    hosts: Texts = ()
    """Addresses of clients, or small networks, that are refused; all others are admitted as before."""
    keep: Texts = ()
    """Instead of `hosts`: addresses that are admitted as before, such as those of the mirror's workers; others are refused."""

    def check(self) -> None:
        """Raises `UsageError` where not exactly one of `hosts` and `keep` is given, or is no list of addresses."""
        super().check()
        if bool(self.hosts) == bool(self.keep):
            raise UsageError(
                f"{self.name}: it is not said whom to refuse",
                "it takes either hosts or keep",
                "Give hosts, the addresses that are refused, or keep, those that are not.",
            )
        rules.addresses(self.hosts, f"{self.name}: hosts")
        rules.addresses(self.keep, f"{self.name}: keep")

    def observe(self) -> Sequence[Fact]:
        with Cluster(self.settings) as cluster:
            found = limits.read(cluster)
        return (identity(self.settings), *(Fact(self._entity(node), str(each)) for node, each in found.items()))

    def _entity(self, node: int) -> str:
        return f"connections to broker {node} of {self.alias}, by address"

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Raises `UsageError` where this host or a broker would be refused."""
        with Cluster(self.settings) as cluster:
            found = limits.read(cluster)
        wanted = self._wanted(found)
        values = {fact.entity: fact.value for fact in observed}
        return tuple(
            Change(self._entity(node), values.get(self._entity(node)), str(each))
            for node, each in wanted.items()
            if values.get(self._entity(node)) != str(each)
        )

    def _wanted(self, found: Mapping[int, Limits]) -> dict[int, Limits]:
        ours = self._ours()
        if self.keep:
            kept = tuple(dict.fromkeys((*rules.addresses(self.keep, "keep"), *sorted(ours))))
            return {node: rules.keeping(each, kept, _resolved) for node, each in found.items()}
        refused = rules.addresses(self.hosts, "hosts")
        if own := sorted(ours & {*refused}):
            raise UsageError(
                f"{self.name}: {', '.join(own)} cannot be refused",
                f"this host or a broker of {self.alias} connects from there; behind one load balancer's address all do",
                "Leave them out; where clients share an address with them, close the listener of the clients instead "
                "(docs/clients.md#leaving-a-cluster-that-stays-up).",
            )
        return {node: rules.refusing(each, refused, _resolved) for node, each in found.items()}

    def _ours(self) -> set[str]:
        """Addresses of the brokers, as they advertise them, and of this host, as they see it where nothing lies between."""
        metadata = blocking(first_answer(self.settings, _CONNECT_S))
        found: set[str] = set()
        for broker in metadata.brokers.values():
            found |= {*_resolved(broker.host)}
            found |= {*_own_address(broker.host, broker.port)}
        return found

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        with Cluster(self.settings) as cluster:
            found = limits.read(cluster)
            wanted = {node: each for node in found if (each := self._after(changes, node)) is not None}
            for node, each in wanted.items():
                abort.check()
                self.written.write(cluster, node, found[node], each)
                self.written.applied(cluster, node, each, abort)
                self._still_admitted(node)
            done: Evidence = {"cluster": self.alias, "brokers": len(wanted)}
            try:
                there = members(cluster)
            except ClusterRefused as error:  # the brokers refuse clients all the same
                return {**done, "members_that_cannot_return": None, "groups": error.why}
        refused = [row for row in there if not _admitted(wanted.values(), str(row["address"]))]
        self.show(refused)
        return {
            **done,
            "members_that_cannot_return": len(refused),
            "groups": ", ".join(sorted({str(row["group"]) for row in refused})),
        }

    def _after(self, changes: Changes, node: int) -> Limits | None:
        text = next((str(change.after) for change in changes if change.entity == self._entity(node)), None)
        if text is None:
            return None
        per_ip, _, overrides = text.partition("; ")
        return rules.limits_of({rules.PER_IP: per_ip, rules.OVERRIDES: overrides})

    def _still_admitted(self, node: int) -> None:
        """Raises `Deviated`, with the brokers' former values back, where a new connection of this host is refused."""
        metadata = blocking(first_answer(self.settings, _CONNECT_S))
        if (broker := metadata.brokers.get(node)) is None:
            raise Unreachable(
                f"whether broker {node} of {self.alias} admits this host is not known",
                "it has left the cluster since its limits were written",
                "Start it: the limits are written to it and to the others when the run is continued.",
            )
        try:
            blocking(first_answer(replace(self.settings, bootstrap_servers=(str(broker),)), _CONNECT_S))
        except Unreachable as error:
            self.written.restore_own()
            raise Deviated(
                f"broker {node} of {self.alias} refuses this host, too",
                f"{error.why}; it sees another address than this host knows of itself",
                "Name the address as the broker sees it in keep. The former values are back.",
            ) from error

    def probe(self, changes: Changes) -> Reach:
        facts = self.observe()
        there = {
            fact.entity for fact in facts
        }  # of a broker that is gone for good nothing is left but what is recorded
        found = reach(facts, [change for change in changes if change.entity in there])
        return Reach.PARTLY if found is Reach.UNTOUCHED and self.written.rows() else found

    def undo(self, changes: Changes) -> None:
        """Raises `Deviated` for settings that another client changed since, `Unreachable` for brokers that do not answer, once
        all others have theirs back."""
        self.written.restore_own()


class AdmitClients(LeftCluster, DrillAction):
    """Take back the limits by which this run, and those beside it, refused connections, and the quotas by which they slowed
    producers down. An undo writes them again."""

    name = "clients.admit"
    shared_topics = Shared.SOME

    @property
    def _taken_back(self) -> Mapping[str, tuple[ClientLimits | ThrottledProducers, TakenBack]]:
        """What is taken back, and where this step keeps what this run had written, by the latter's name."""
        written: dict[str, ClientLimits | ThrottledProducers] = {
            f"{self.step}.taken-back": self.written,
            f"{self.step}.quotas-taken-back": self.throttled,
        }
        return {name: (each, TakenBack(self.context.run_dir, name)) for name, each in written.items()}

    @property
    def entity(self) -> str:
        return f"clients that drills made leave {self.alias}"

    @property
    def _admitted(self) -> str:
        return f"{self.step}.admitted"

    def observe(self) -> Sequence[Fact]:
        """By this step alone: a step before it, in the same plan, is what refuses them."""
        admitted = bool(details.read_rows(self.context.run_dir, self._admitted))
        return (Fact(self.entity, ADMITTED if admitted else None),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return tuple(Change(fact.entity, fact.value, ADMITTED) for fact in observed if fact.value != ADMITTED)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        for written, taken in self._taken_back.values():
            taken.note(written.rows())
        parts, brokers, quotas = Parts(), 0, 0
        with parts.each("limits of connections"):
            brokers = self.written.restore()
        with parts.each("quotas"):
            quotas = self.throttled.restore()
        parts.raise_failed()
        details.write_rows(self.context.run_dir, self._admitted, [{"brokers": brokers}])
        return {"cluster": self.alias, "brokers": brokers, **({"quotas_taken_back": quotas} if quotas else {})}

    def probe(self, changes: Changes) -> Reach:
        if details.read_rows(self.context.run_dir, self._admitted):
            return Reach.DONE
        begun = any(taken.rows() for _, taken in self._taken_back.values())
        return Reach.PARTLY if begun else Reach.UNTOUCHED  # act takes back what is left

    def undo(self, changes: Changes) -> None:
        """What this run wrote is written again; limits of runs beside it stay as they are now."""
        details.write_rows(self.context.run_dir, self._admitted, [])
        parts = Parts()
        for name, (written, taken) in self._taken_back.items():
            with parts.each(name):
                taken.make_again(written.write_again)
        parts.raise_failed()


def refused_members(cluster: Cluster) -> list[dict[str, Scalar]]:
    """Members of groups whose address some broker does not admit any more: their open connections are still there, or their
    sessions have not expired yet."""
    found = limits.read(cluster).values()
    return [row for row in members(cluster) if not _admitted(found, str(row["address"]))]


def _admitted(found: Collection[Limits], address: str) -> bool:
    return all(rules.admits(each, address) for each in found)


def _resolved(host: str) -> frozenset[str]:
    """The addresses of a host, by this host's resolver; none where it knows none."""
    try:
        return frozenset(str(where[0]) for *_, where in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return frozenset()


def _own_address(host: str, port: int) -> tuple[str, ...]:
    """The address from which this host connects there; none where it cannot."""

    async def look() -> str:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
        try:
            return str(writer.get_extra_info("sockname")[0])
        finally:
            writer.close()

    try:
        return (blocking(look()),)
    except (OSError, TimeoutError):
        return ()
