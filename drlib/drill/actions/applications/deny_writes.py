"""The ACLs by which a drill denied writing, recorded so that exactly these are removed, by this run or by the failback.

Rules: the rules are in the run's folder before the first is made, and are forgotten when the last is gone; they are kept with
the ID of the cluster they are on, since an alias or an address may name another one later. A run that reopens the topics
(a rollback, a failback) looks in its own folder and in those beside it, as a failback is mostly another run.
Not for: which rules (`drlib.drill.actions.applications.deny_rules`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from drlib.drill.actions.parts import Parts
from drlib.drill.actions.taken_back import TakenBack
from drlib.drill.step import step_output as details
from drlib.drill.step.cluster_identity import cluster_id, rows_beside, write_beside
from drlib.kafka.admin.topic_acls import create_rules, delete_rules
from drlib.kafka.protocol.acls import Operation, PatternType, Permission, TopicAcl
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.runs.journal import Scalar


class WriteRules:
    """The rules that runs beside `run_dir`, and itself, made on `cluster`."""

    def __init__(self, run_dir: Path, cluster: ClusterSettings) -> None:
        self._run_dir = run_dir
        self._cluster = cluster
        self._file = f"write-rules.{cluster.alias}"

    def kept(self) -> tuple[TopicAcl, ...]:
        """What this run made, or was about to when it was killed."""
        return tuple(rule_of(row) for row in details.read_rows(self._run_dir, self._file))

    def standing(self) -> tuple[TopicAcl, ...]:
        """What this run and those beside it created on this cluster and that are not lifted yet."""
        return tuple(rule for rules in self._of_all().values() for rule in rules)

    def make(self, rules: Sequence[TopicAcl]) -> None:
        """Record the rules, then create them. Raises `BrokerError` for the first that is refused."""
        this_cluster = cluster_id(self._cluster)
        details.write_rows(self._run_dir, self._file, [{"cluster_id": this_cluster, **row_of(rule)} for rule in rules])
        create_rules(self._cluster, rules)

    def lift_own(self) -> int:
        """Remove what this run created; returns the number of rules. Safe to repeat."""
        return self._lift({self._run_dir: self.kept()})

    def lift(self) -> int:
        """Remove what is `standing`; returns the number of rules. Safe to repeat."""
        return self._lift(self._of_all())

    def lift_for(self, step: str) -> int:
        """`lift`, with what is removed recorded as removed by `step`, so that it can be made again."""
        self._taken_back(step).note([row_of(rule) for rule in self.standing()])
        return self.lift()

    def lifted(self, step: str) -> bool:
        """Has `step` removed some that are not made again?"""
        return bool(self._taken_back(step).rows())

    def make_again(self, step: str) -> None:
        """Make what `step` removed, which is this run's then. Safe to repeat."""
        self._taken_back(step).make_again(lambda rows: self.make([rule_of(row) for row in rows]))

    def _taken_back(self, step: str) -> TakenBack:
        return TakenBack(self._run_dir, f"{step}.rules-lifted")

    def _of_all(self) -> dict[Path, tuple[TopicAcl, ...]]:
        rows_of = rows_beside(self._run_dir, self._file, self._cluster)
        return {folder: tuple(map(rule_of, rows)) for folder, rows in rows_of.items()}

    def _lift(self, rules_of: Mapping[Path, Sequence[TopicAcl]]) -> int:
        parts = Parts()
        for folder, rules in rules_of.items():
            with parts.each(f"rules of {folder.name}"):
                delete_rules(self._cluster, rules[::-1])  # what lets in goes last
                if rules:
                    write_beside(folder, self._file, [])
        parts.raise_failed()
        return sum(map(len, rules_of.values()))


def row_of(rule: TopicAcl) -> dict[str, Scalar]:
    return {
        "topic": rule.topic,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
        "pattern": rule.pattern.name,
    }


def rule_of(row: details.Row) -> TopicAcl:
    return TopicAcl(
        str(row["topic"]),
        str(row["principal"]),
        str(row["host"]),
        Operation[str(row["operation"])],
        Permission[str(row["permission"])],
        PatternType[str(row["pattern"])],
    )
