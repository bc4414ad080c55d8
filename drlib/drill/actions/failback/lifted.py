"""What keeps writers from the cluster that applications move to: taken away for the move, and made again where that fails.

Rules: what stands there, by this run or those beside it, is in the run's folder before it is taken away, and is forgotten once
it is made again. Nothing is made again once applications have moved.
Not for: the rules (`actions.applications.deny_writes`) and the quotas (`actions.clients.throttled`) themselves.
"""

from __future__ import annotations

from pathlib import Path

from drlib.drill.actions.applications.deny_writes import WriteRules, row_of, rule_of
from drlib.drill.actions.clients.throttled import ThrottledProducers
from drlib.drill.actions.parts import Parts
from drlib.drill.step import step_output as details
from drlib.kafka.security.cluster_settings import ClusterSettings


class LiftedFences:
    """Of `cluster`, by the step `step` of the run in `run_dir`."""

    def __init__(self, run_dir: Path, cluster: ClusterSettings, step: str) -> None:
        self._run_dir = run_dir
        self._rules, self._quotas = WriteRules(run_dir, cluster), ThrottledProducers(run_dir, cluster)
        self._rules_file, self._quotas_file = f"{step}.rules-lifted", f"{step}.quotas-lifted"

    def lift(self) -> int:
        """Take everything away; how many rules and quotas. Safe to repeat."""
        if rules := self._rules.standing():
            details.write_rows(self._run_dir, self._rules_file, [row_of(rule) for rule in rules])
        if quotas := self._quotas.standing():
            details.write_rows(self._run_dir, self._quotas_file, quotas)
        return self._rules.lift() + self._quotas.restore()

    def put_back(self) -> None:
        """Make again what was taken away. Safe to repeat."""
        parts = Parts()
        with parts.each("rules that deny writing"):
            if rows := details.read_rows(self._run_dir, self._rules_file):
                self._rules.make([rule_of(row) for row in rows])
                details.write_rows(self._run_dir, self._rules_file, [])
        with parts.each("quotas"):
            if rows := details.read_rows(self._run_dir, self._quotas_file):
                self._quotas.write_again(rows)
                details.write_rows(self._run_dir, self._quotas_file, [])
        parts.raise_failed()
