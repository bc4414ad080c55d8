"""Decide whether to fail over, from observations of both sides: yes, no, or unknown.

Rules: a target that does not answer, or has partitions without a leader, cannot take over, whatever the source does. A
source that is expected to be lost and answers is a reason to wait, unless a reason is given. Both sides
written to is never ignored: it is reported, topic by topic, and fails unless a reason is given.
Not for: asking (`drlib.drill.actions.failover.triage`), and the price, which is reported and not weighed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Expected(StrEnum):
    """The state the source is expected to be in."""

    GONE = "gone"
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster as it answers. `silence` is why it does not; `leaderless` counts mirrored partitions without a leader."""

    alias: str
    brokers: int = 0
    controller: int = -1
    leaderless: int = 0
    silence: str = ""

    @property
    def answers(self) -> bool:
        return not self.silence

    @property
    def serves(self) -> bool:
        return self.answers and not self.leaderless

    def __str__(self) -> str:
        if not self.answers:
            return f"no answer: {self.silence}"
        led = f", {self.leaderless} partitions without a leader" if self.leaderless else ""
        return f"answers: {self.brokers} brokers, controller {self.controller}{led}"


@dataclass(frozen=True, slots=True)
class Advice:
    go: bool
    why: str
    remedy: str


def advise(
    source: Side, target: Side, expected: Expected, both_written: Sequence[str] = (), force_reason: str = ""
) -> Advice:
    """What to do. `both_written` are topics that are written to on both sides; `force_reason` overrules all but the target."""
    if not target.serves:
        return Advice(False, f"{target.alias} cannot take over: {target}", f"Restore {target.alias} first.")
    against, remedy = "", ""
    if both_written:
        against = f"both sides are written to: {', '.join(both_written)}"
        remedy = (
            f"Stop the applications on one side (source.fence), or give force_reason to continue to {target.alias}."
        )
    elif expected is Expected.GONE and source.serves:
        against = f"{source.alias} {source}"
        remedy = "Use a planned switchover (planned-switchover), which loses nothing, or give force_reason."
    elif expected is Expected.SERVING and not source.serves:
        against = f"a planned move needs {source.alias}: {source}"
        remedy = "Wait until it serves, or fail over (emergency-failover)."
    if not against:
        return Advice(True, f"{source.alias}: {source}; {target.alias} serves", "")
    if force_reason:
        return Advice(True, f"forced, '{force_reason}', although {against}", "")
    return Advice(False, against, remedy)
