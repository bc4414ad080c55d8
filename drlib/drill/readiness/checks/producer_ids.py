"""Findings about producer IDs that both clusters gave to producers of one partition.

Rules: a collision is a warning and not critical: producers that follow the pointer get a new ID, and one that was stopped for
the move is known for a day like one that runs. Where producers are redirected (`drlib.producers.redirected`), the fix says that
the step that moves refuses. A partition that was not compared is unknown, in a finding of its own; so is a source that was not
asked, whose producers are those that the mirror kept.
Not for: what a collision is (`drlib.drill.producer_ids.rules`).
"""

from typing import Final

from drlib.drill.producer_ids.rules import AsKept, Collision, ComparedIds, Effect
from drlib.drill.readiness.checks.objectives import CheckContext, Judgements, again, count, passed
from drlib.drill.readiness.score import Severity
from drlib.formats import first_few, moment, span

REMEDY: Final = (
    "A producer that keeps one address: stop it before the move and start it after, so that the target gives it an ID. "
    "One that follows the pointer gets a new ID by itself. Against new collisions set the clusters' IDs apart, once: "
    "drlib producer-ids FILE --separate. docs/clients.md#producer-ids"
)
REFUSED: Final = ". Without collide = true, the step that moves refuses."


def producer_ids(compared: ComparedIds, at_ms: int, context: CheckContext) -> Judgements:
    """Would a redirected producer be taken for another one on the target?"""
    rows: Judgements = []
    for each in compared.collisions:
        refused = REFUSED if context.redirected and each.effect is Effect.LOST else ""
        rows.append((f"producer ID {each.producer_id}", Severity.WARN, describe(each, at_ms), REMEDY + refused))
    rows += [(name, Severity.UNKNOWN, f"not checked: {why}", again(why)) for name, why in compared.missing]
    if (kept := compared.as_kept) is not None:
        rows.append(("the source", Severity.UNKNOWN, f"{kept.why}: {as_of(kept)}", again(kept.why)))
    if rows:
        return rows
    if not compared.partitions:
        return passed("no topic that applications write to is mirrored")
    return passed(
        f"{count(compared.producers, 'producer')} of {count(compared.partitions, 'partition')} on the source, "
        "and none has an ID that the target knows there"
    )


def as_of(kept: AsKept) -> str:
    """Up to when the source's producers are known, by what the mirror kept."""
    copied = f"of records that were copied until {moment(kept.copied_ms)}"
    if not kept.asked_ms:
        return f"checked for producers {copied}; the mirror could not ask its leaders for others"
    return f"checked as of {moment(kept.asked_ms)}, when the mirror asked its leaders last, and for producers {copied}"


def describe(each: Collision, at_ms: int) -> str:
    """Which producers, where, since when, and what follows."""
    epochs = (
        f"epoch {each.source_epoch} on both clusters"
        if each.source_epoch == each.target_epoch
        else f"epoch {each.source_epoch} on the source and {each.target_epoch} on the target"
    )
    owner = f" (there {each.owner})" if each.owner else ""
    where = first_few(str(partition) for partition in each.partitions)
    return (
        f"{epochs}{owner}, {where}: if the source's producer is redirected, {each.effect}; the last records are "
        f"{_age(each.source_ms, at_ms)} on the source, {_age(each.target_ms, at_ms)} on the target"
    )


def _age(written_ms: int, at_ms: int) -> str:
    return "of unknown age" if written_ms < 0 else f"{span(max(0, at_ms - written_ms) / 1000)} old"
