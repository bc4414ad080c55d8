"""The proof of an ordering drill: two groups that read the same records, and the order in which each processed them.

Rules: only histories are judged: no record missing and none twice for either group, and order per key for the ordered one.
The ordinary group has to break the order; where it does not, the comparison shows nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from drlib.drill.scenarios.ordering.testbed import GROUPS, ORDERED, ORDINARY, OrderingTestbed
from drlib.drill.step.step_output import Row
from drlib.lab.checker.completeness import Completeness, check_completeness
from drlib.lab.checker.history import History
from drlib.lab.checker.key_order import KeyOrder, key_order
from drlib.lab.checker.report import histories_complete
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import GroupScore, Records


@dataclass(frozen=True, slots=True)
class Proof:
    """`violations`: records by group that came after a later one of their key."""

    rows: tuple[Row, ...]
    records: Records
    checks: tuple[Check, ...]
    groups: tuple[GroupScore, ...]
    violations: Mapping[str, int]

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(f"{c.name}: {c.evidence}" for c in self.checks if c.verdict is not Verdict.PASS)


def due(testbed: OrderingTestbed) -> int:
    """Records acknowledged, which is what each group has to process."""
    return check_completeness(testbed.applications.history(testbed.producer).produced, ()).due


def prove(testbed: OrderingTestbed) -> Proof:
    """Judge a drill whose applications have stopped."""
    sent = testbed.applications.history(testbed.producer)
    rows: list[Row] = []
    histories = [sent, *(history for group in GROUPS for history in testbed.histories(group))]
    checks = [histories_complete(sum(histories, History()).gaps)]
    groups: list[GroupScore] = []
    violations: dict[str, int] = {}
    lost = doubled = 0
    for group in GROUPS:
        members = [history.consumed for history in testbed.histories(group)]
        completeness, order = check_completeness(sent.produced, testbed.consumed(group)), key_order(members)
        violations[group] = len(order.violations)
        rows.append(
            {
                "group": group,
                "records": order.records,
                "keys": order.keys,
                "out of order": len(order.violations),
                "missing": completeness.missing_count,
                "twice": completeness.doubled_count,
                "the first": _first(order),
            }
        )
        checks += [_once(group, completeness), _order(group, order)]
        groups.append(GroupScore(group=group, re_read=completeness.doubled_count, skipped=completeness.missing_count))
        lost, doubled = lost + completeness.missing_count, doubled + completeness.doubled_count
    records = Records(
        produced=check_completeness(sent.produced, ()).due,
        lost=lost,
        duplicated=doubled,
        out_of_order=violations[ORDERED],
    )
    return Proof(tuple(rows), records, tuple(checks), tuple(groups), violations)


def _first(order: KeyOrder) -> str:
    if not order.violations:
        return ""
    first = order.violations[0]
    return f"{first.key}: {first.n} ({first.place}) after {first.after} ({first.after_place})"


def _order(group: str, order: KeyOrder) -> Check:
    evidence = f"{len(order.violations)} of {order.records} records of {order.keys} keys out of order"
    if order.violations:
        evidence += f"; {_first(order)}"
    if group == ORDINARY:
        verdict = Verdict.PASS if order.violations else Verdict.FAIL
        return Check(name="reading both topics at once breaks the order of keys", verdict=verdict, evidence=evidence)
    verdict = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.UNKNOWN}[order.holds]
    if order.undecided:
        evidence += f"; {order.undecided} within the same millisecond as another member's"
    return Check(name=f"group {ORDERED} sees every key in order", verdict=verdict, evidence=evidence)


def _once(group: str, completeness: Completeness) -> Check:
    verdict = Verdict.PASS if completeness.complete else Verdict.FAIL
    return Check(name=f"group {group} processes every record once", verdict=verdict, evidence=completeness.summary())
