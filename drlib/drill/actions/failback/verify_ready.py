"""Action `readiness.verify`: the flow back is ready for a failover of its own, by the checks of `drlib doctor`.

Not for: the gate before a drill (`drlib.drill.readiness.gate`), and the steady-state hypothesis (`readiness.score`), which has
to hold before the first step, too.
"""

from drlib.drill.actions.failback.actions import MoveArguments
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import MINIMUM, Severity, gate
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.argument_types import Count
from drlib.runs.abort import Abort


class VerifyReady(MoveArguments, ReadOnlyAction):
    """Verify that the flow is ready for a failover: nothing critical, and at least this score."""

    name = "readiness.verify"

    at_least: Count = MINIMUM
    """The least score, of 100."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `ReadinessError` with the findings, `UsageError` where the file does not enable the flow."""
        (readiness,) = doctor(self.settings, flow=self.flow, runs=self.context.run_dir.parent)
        self.show(
            {
                "check": finding.check,
                "entity": finding.entity,
                "verdict": finding.severity,
                "evidence": finding.evidence,
            }
            for finding in readiness.worst_first()
            if finding.severity is not Severity.OK
        )
        gate([readiness], self.at_least)
        return {"flow": readiness.flow, "score": readiness.score}
