"""Action `clients.throttle`: quotas slow down all producers of a cluster to a standstill, but for the mirror.

Rules: every producer gets one byte per second, but for clients with the IDs of the file's mirrors to this cluster, of drills,
which write their state there before each step, and of `keep`. A quota does not refuse: a broker writes what it is sent and then
keeps the connection waiting, so that each connection still writes one request, and a client that connects again another one. No
ACL, authorizer or login is needed. A quota that is more specific would let its producers write on: the step is refused with
each of them, and nothing is set. Undone exactly, by a rollback, by `clients.admit` in this run or one beside it, and by a
planned move to the cluster.
Not for: keeping producers out (`source.fence` with `deny_write`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.drill.actions.clients.refuse import LeftCluster
from drlib.drill.actions.clients.throttle_rules import Throttle, named, throttle
from drlib.drill.plan.lease_record import CLIENT_ID
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Texts
from drlib.drill.step.cluster_identity import identity
from drlib.drill.step.flow_arguments import Shared
from drlib.errors import UsageError
from drlib.formats import first_few
from drlib.kafka.admin.quotas import STANDSTILL, producer_quotas
from drlib.runs.abort import Abort

_NAMED: Final = 5  # quotas
_AS_THEY_ARE: Final = "as they are"


class ThrottleClients(LeftCluster, DrillAction):
    """Slow down all producers of a cluster, but for the mirror, to one byte per second, by the quota of the default user
    (producer_byte_rate). Each connection still writes one request. Undone exactly."""

    name = "clients.throttle"
    shared_topics = Shared.SOME

    keep: Texts = ()
    """Client IDs that write on as before, besides those of the file's mirrors to this cluster, and of drills."""

    def check(self) -> None:
        """Raises `UsageError` where workers would raise the quota again."""
        super().check()
        if syncing := [str(flow.flow) for flow in self._to_here if flow.sync_quotas]:
            raise UsageError(
                f"{self.name}: drlib.sync.quotas.enabled is true for {', '.join(syncing)}",
                f"its workers raise quotas of {self.alias} to those of their source, and so would undo it",
                "Set it to false and restart the workers, or deny writing by ACL (source.fence with deny_write).",
            )

    @property
    def _to_here(self) -> list[FlowSettings]:
        settings = self.context.mirror_settings()
        return [flow for flow in settings.enabled_flows if flow.flow.target == self.alias]

    @property
    def entity(self) -> str:
        return f"quotas of producers on {self.alias}"

    def observe(self) -> Sequence[Fact]:
        return (identity(self.settings), Fact(self.entity, _AS_THEY_ARE))

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Raises `UsageError` for quotas that escape it."""
        kept = ", ".join(self._wanted().kept)
        return (Change(self.entity, _AS_THEY_ARE, f"{STANDSTILL:g} byte per second, but for {kept or 'none'}"),)

    def _wanted(self) -> Throttle:
        kept = sorted({*self.keep, CLIENT_ID, *(flow.client_id(self.alias) for flow in self._to_here)})
        found = throttle(producer_quotas(self.settings), kept)
        if found.escaping and not self.throttled.kept():
            raise UsageError(
                f"{self.name}: {len(found.escaping)} quotas on {self.alias} let producers write on",
                f"they are more specific than the quota of all users: {first_few(list(map(named, found.escaping)), _NAMED)}",
                "Remove them for this time (kafka-configs.sh --alter --delete-config producer_byte_rate), or deny writing by "
                "ACL (source.fence with deny_write).",
            )
        return found

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        wanted = self._wanted()
        self.throttled.write({entity: limit for entity, (limit, _) in self.throttled.kept().items()} or wanted.limits)
        self.show([{"quota of": named(each), "bytes per second": each.bytes_per_s} for each in wanted.quotas])
        return {"cluster": self.alias, "bytes_per_second": STANDSTILL, "not_throttled": ", ".join(wanted.kept)}

    def probe(self, changes: Changes) -> Reach:
        return Reach.PARTLY if self.throttled.kept() else Reach.UNTOUCHED  # act sets what is missing

    def undo(self, changes: Changes) -> None:
        """Raises `Deviated` for quotas that another client changed since."""
        self.throttled.restore_own()
