"""Steps that prove a failover on a lab: the independent checker, and the audit of both clusters with Spark.

Rules: they change nothing. Spark is started beside what else is done (`lab.read_locally`) and stopped after the audit; a
process that takes the run up starts one of its own. What they find is in the run's folder, and in the scorecard.
Arguments: `lab.read_locally`, `proof.check`, `proof.audit` take none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from drlib.drill.actions.groups import decided as positions
from drlib.drill.run import planning
from drlib.drill.scenarios.failover.applications import PARTITIONS
from drlib.drill.scenarios.failover.proof import Proof
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Action, ActionMaker, Changes, Evidence, ReadOnlyAction
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed.failover_step import StagedStep
from drlib.drill.testbed.failover_testbed import GROUPS
from drlib.kafka.admin.cluster import Cluster
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark

_PROOFS: Final[dict[Path, Proof]] = {}
_LOCK: Final = threading.Lock()


def makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """The actions of this module. Making one raises `UsageError` where there is no lab."""
    kinds: dict[str, Callable[[StagedStep], Action]] = {
        "lab.read_locally": ReadLocally,
        "proof.check": CheckHistories,
        "proof.audit": AuditClusters,
    }
    return {name: lambda call, kind=kind: kind(StagedStep(workplace, call)) for name, kind in kinds.items()}  # type: ignore[misc]


class _Proving(ReadOnlyAction):
    """A step that proves something, and so changes nothing."""

    def __init__(self, step: StagedStep) -> None:
        self.step = step
        self.stage = step.stage()

    @property
    def proof(self) -> Proof:
        with _LOCK:
            run_dir = self.step.place.run_dir
            if run_dir not in _PROOFS:
                _PROOFS[run_dir] = Proof(self.stage)
            return _PROOFS[run_dir]

    def cluster_id(self) -> str:
        return self.stage.lab.clusters[self.step.flow.target].brokers[0].spec.cluster_id


class ReadLocally(_Proving):
    """Wait until every group has read the remote topic to its end and goes on in the local one."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.proof.warm_up()
        for group in GROUPS:
            what = f"{group} reads the local topic"
            self.stage.wait(what, lambda group=group: self._local(group), 90, abort)  # type: ignore[misc]
        at_ms = moments.now_ms()
        self.step.keep(Mark(name="groups read locally", at_ms=at_ms, detail="the remote topic is read to its end"))
        self.step.progress(self.stage)
        return {"groups": ", ".join(GROUPS), "at_ms": at_ms}

    def _local(self, group: str) -> bool:
        with Cluster(self.step.place.cluster(self.step.flow.target)) as cluster:
            found = cluster.group_offsets(group)
        return all(found.get(TopicPartition("flights", number)) is not None for number in range(PARTITIONS))


class CheckHistories(_Proving):
    """Judge what the applications wrote down against a scan of the target."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        allowed = planning.read(self.step.place.run_dir).drill.objectives.rpo_records
        self.step.show([dict(row) for row in self.proof.check(allowed).rows])
        moves = positions.read(self.step.place.run_dir, self.step.flow.target) or ()
        part = self.proof.check_part(positions.as_translations(moves))
        self.step.score(part)
        rpo = part.rpo
        return {
            "checks": len(part.checks),
            "rpo_records": None if rpo is None else rpo.records,
            "rpo_seconds": None if rpo is None else rpo.seconds,
        }


class AuditClusters(_Proving):
    """Compare both clusters with Spark, the source started again."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        try:
            self.step.show([dict(row) for row in self.proof.audit().rows])
            part: ScorecardPart = self.proof.audit_part()
        finally:
            self.proof.close()
        self.step.score(part)
        return {"audited": len(part.checks), "partitions": len(part.partitions)}
