"""How ready a flow is for a failover: checks with weights, findings with evidence that ages, a score from 0 to 100.

Rules:
- The weights are the literal table `CHECKS`; they sum to 100.
- A check counts by its worst finding: full weight for ok and for advice (what works without it, and better with it), half for a
  warning, nothing for critical and nothing for unknown, because unknown may be either. A check without a finding is unknown.
- Evidence ages. When it has expired, ok and warn become unknown; critical stays critical.
- The gate is closed by a score below the minimum and by any critical finding.
- So fixing a finding never lowers a score, and neither ageing nor a missing observation raises one.
- While the source is lost, which is the reason for a failover and no lack of readiness, the score is that of
  `WITHOUT_SOURCE` alone, again from 0 to 100; what was not determined of the rest is listed beside it.
Not for: judging observations (`drlib.drill.readiness.checks`), asking clusters (`drlib.drill.readiness.observe`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from drlib.errors import ReadinessError

MINIMUM: Final = 80  # default of --min-score: two heavy checks may be warnings

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400


class Severity(StrEnum):
    """How bad a finding is; `UNKNOWN` where the question has no answer. `ADVICE` costs nothing."""

    OK = "ok"
    ADVICE = "advice"
    WARN = "warn"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


HALVES: Final[Mapping[Severity, int]] = {
    Severity.OK: 2,
    Severity.ADVICE: 2,
    Severity.WARN: 1,
    Severity.UNKNOWN: 0,
    Severity.CRITICAL: 0,
}
WORST_FIRST: Final = (Severity.CRITICAL, Severity.UNKNOWN, Severity.WARN, Severity.ADVICE, Severity.OK)


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the score. `lasts_s`: seconds until an observation of it is too old."""

    id: str
    title: str
    weight: int
    lasts_s: int


CHECKS: Final = (
    Check("target-answers", "the target cluster answers", 8, MINUTE_S),
    Check("source-answers", "the source cluster answers", 5, MINUTE_S),
    Check("cluster-ids", "the clusters are those the journal was created for", 6, HOUR_S),
    Check("rights", "the mirror has every right it needs", 7, HOUR_S),
    Check("worker", "a worker mirrors every lane", 10, MINUTE_S),
    Check("events", "no fault of the mirror is open", 5, MINUTE_S),
    Check("lag", "the mirror is within the objective", 10, MINUTE_S),
    Check("retention", "nothing expires before it is mirrored", 4, 5 * MINUTE_S),
    Check("heartbeat", "heartbeats arrive on the target", 1, MINUTE_S),
    Check("groups-exact", "every group can resume at the exact record", 10, MINUTE_S),
    Check("groups-mirrored", "every topic a group reads is mirrored", 7, HOUR_S),
    Check("positions-ahead", "no position on the target is ahead of the source's", 4, MINUTE_S),
    Check("partitions", "every mirror topic exists, with as many partitions", 5, HOUR_S),
    Check("topic-settings", "mirror topics have the settings of their sources", 2, HOUR_S),
    Check("producer-topics", "producers can write to their topics on the target", 3, HOUR_S),
    Check("producer-ids", "no producer ID is another producer's on the target", 2, 5 * MINUTE_S),
    Check("written-on-both", "clients write to each topic on one cluster", 1, 5 * MINUTE_S),
    Check("standby-writers", "no client writes to the cluster that stands by", 1, 5 * MINUTE_S),
    Check("address-certificates", "certificates have the name of the address that clients keep", 1, HOUR_S),
    Check("durability", "mirror topics are replicated and can be written", 5, 5 * MINUTE_S),
    Check("drill-age", "a failover drill passed recently", 3, HOUR_S),
)
# What a failover needs even when the source is gone.
TARGET_CHECKS: Final = frozenset({"target-answers", "groups-exact", "durability"})
# What is judged while the source is lost; of the other checks the answers are shown, and do not count.
WITHOUT_SOURCE: Final = TARGET_CHECKS | {"rights", "positions-ahead", "producer-topics", "drill-age"}
_BY_ID: Final = {check.id: check for check in CHECKS}


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check. `entity` is what it is about, "" for the whole flow.

    `fix` is the next command or edit, "" where nothing is to be done. `expires_ms`: when the evidence is too old.
    """

    check: str
    entity: str
    severity: Severity
    evidence: str
    fix: str
    expires_ms: int

    @property
    def title(self) -> str:
        return check_of(self.check).title

    @property
    def weight(self) -> int:
        return check_of(self.check).weight


def check_of(name: str) -> Check:
    """A row of `CHECKS`. Raises KeyError for any other name."""
    return _BY_ID[name]


@dataclass(frozen=True, slots=True)
class Readiness:
    """The findings about one flow at `at_ms`, and its score. `source_refused`: the source answers and refuses this host, which
    says nothing of what it is to others."""

    flow: str
    at_ms: int
    findings: tuple[Finding, ...]
    source_refused: bool = False

    def severity(self, check: str) -> Severity:
        """The worst of the check's findings; unknown when there is none."""
        return worst(finding.severity for finding in self.findings if finding.check == check)

    @property
    def score(self) -> int:
        """0 to 100; 100 only when every check that counts is ok."""
        counted = [check for check in CHECKS if not self.source_lost or check.id in WITHOUT_SOURCE]
        earned = sum(HALVES[self.severity(check.id)] * check.weight for check in counted)
        return 100 * earned // (2 * sum(check.weight for check in counted))

    @property
    def source_lost(self) -> bool:
        """Does the source not answer, or in part only?"""
        return self.source_silent and not self.source_refused

    @property
    def source_silent(self) -> bool:
        """Does it tell this host nothing, or in part only? Then the gate of an emergency rests on the target alone."""
        return self.severity("source-answers") is Severity.CRITICAL

    @property
    def not_determined(self) -> tuple[str, ...]:
        """The checks without an answer, by name, in the order of `CHECKS`."""
        return tuple(check.id for check in CHECKS if self.severity(check.id) is Severity.UNKNOWN)

    @property
    def emergency(self) -> tuple[Finding, ...]:
        """What closes the gate of an emergency while the source is lost, worst first; empty: it is open."""
        return tuple(f for f in self.worst_first() if f.check in TARGET_CHECKS and f.severity is Severity.CRITICAL)

    @property
    def critical(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.CRITICAL)

    def as_of(self, now_ms: int) -> "Readiness":
        """The same evidence at a later moment: expired findings are unknown, unless they are critical."""
        return replace(self, at_ms=now_ms, findings=tuple(_aged(finding, now_ms) for finding in self.findings))

    def ready(self, minimum: int) -> bool:
        """Is the gate open?"""
        return self.score >= minimum and not self.critical

    def worst_first(self) -> tuple[Finding, ...]:
        """By severity, then by weight, else in the order of `CHECKS`."""
        return tuple(sorted(self.findings, key=lambda f: (WORST_FIRST.index(f.severity), -f.weight)))


def worst(severities: Iterable[Severity]) -> Severity:
    """The worst of them; unknown when there is none."""
    return min(severities, key=WORST_FIRST.index, default=Severity.UNKNOWN)


def gate(flows: Sequence[Readiness], minimum: int) -> None:
    """Raises `ReadinessError` that names each flow that is not ready, why, and the first fix."""
    refused = [readiness for readiness in flows if not readiness.ready(minimum)]
    if not refused:
        return
    first = next(iter(refused[0].worst_first()), None)
    raise ReadinessError(
        f"{', '.join(r.flow for r in refused)} {'is' if len(refused) == 1 else 'are'} not ready for a failover",
        "; ".join(_why(readiness, minimum) for readiness in refused),
        first.fix if first is not None and first.fix else "See the findings of drlib doctor.",
    )


def gate_without_source(readiness: Readiness) -> None:
    """The gate of an emergency whose source is gone: only critical findings of `TARGET_CHECKS` close it, no score.

    Raises `ReadinessError`.
    """
    closed = readiness.emergency
    if closed:
        raise ReadinessError(
            f"{readiness.flow} cannot be failed over",
            "; ".join(f"{f.check}{' ' + f.entity if f.entity else ''}: {f.evidence}" for f in closed),
            closed[0].fix or "See the findings of drlib doctor.",
        )


def _why(readiness: Readiness, minimum: int) -> str:
    critical = [finding for finding in readiness.worst_first() if finding.severity is Severity.CRITICAL]
    if readiness.source_lost:
        return _why_lost(readiness)
    low = f"score {readiness.score} of 100" + (f", {minimum} required" if readiness.score < minimum else "")
    if not critical:
        return low
    names = ", ".join(dict.fromkeys(finding.check for finding in critical))
    return f"{low}, critical: {names} ({critical[0].evidence.rstrip('.')})"


def _why_lost(readiness: Readiness) -> str:
    """A lost source closes every gate but that of an emergency."""
    closed = readiness.emergency
    lost = "; ".join(f.evidence for f in readiness.findings if f.check == "source-answers")
    gate = "open" if not closed else f"closed by {', '.join(dict.fromkeys(f.check for f in closed))}"
    return f"source-answers: {lost}. The gate of an emergency failover is {gate}, the target scores {readiness.score} of 100"


def _aged(finding: Finding, now_ms: int) -> Finding:
    if finding.expires_ms > now_ms or finding.severity in (Severity.CRITICAL, Severity.UNKNOWN):
        return finding
    return replace(
        finding,
        severity=Severity.UNKNOWN,
        evidence=f"expired evidence: {finding.evidence}",
        fix="Run drlib doctor FILE again.",
    )
