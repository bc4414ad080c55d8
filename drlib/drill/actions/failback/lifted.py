"""What keeps writers from the cluster that applications move to: taken away for the move, and made again where that fails.

Rules: what stands there, by this run or those beside it, is in the run's folder before it is taken away, and is forgotten once
it is made again. Nothing is made again once applications have moved.
Not for: the rules (`actions.applications.deny_writes`) and the quotas (`actions.clients.throttled`) themselves.
"""

from pathlib import Path

from drlib.drill.actions.applications.deny_writes import WriteRules
from drlib.drill.actions.clients.throttled import ThrottledProducers
from drlib.drill.actions.parts import Parts
from drlib.kafka.security.cluster_settings import ClusterSettings


class LiftedFences:
    """Of `cluster`, by the step `step` of the run in `run_dir`."""

    def __init__(self, run_dir: Path, cluster: ClusterSettings, step: str) -> None:
        self._rules, self._quotas = WriteRules(run_dir, cluster), ThrottledProducers(run_dir, cluster)
        self._step = step

    @property
    def lifted(self) -> bool:
        """Was something taken away that is not made again?"""
        return self._rules.lifted(self._step) or self._quotas.lifted(self._step)

    def lift(self) -> int:
        """Take everything away; how many rules and quotas. Safe to repeat."""
        return self._rules.lift_for(self._step) + self._quotas.restore_for(self._step)

    def put_back(self) -> None:
        """Make again what was taken away. Safe to repeat."""
        parts = Parts()
        with parts.each("rules that deny writing"):
            self._rules.make_again(self._step)
        with parts.each("quotas"):
            self._quotas.set_again(self._step)
        parts.raise_failed()
