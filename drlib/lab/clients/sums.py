"""Whether the running sums of a Kafka Streams application, on the cluster moved to, are those of the records there. Pure.

Rules: a record's number is the last part of its id. An application has a sum for each key, and the last one that it wrote down
on the target is its state there. Its input positions and its changelog cross apart from each other, if they cross: so the sums
may be of other records than those that are there. Where they are of just what it processed there, its state was empty when it
began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drlib import decoding
from drlib.lab.checker.history import Consumed


@dataclass(frozen=True, slots=True)
class Sums:
    """By key: the sum of the numbers that are in the logs, what the application has, and the sum of what it processed there."""

    logged: Mapping[str, int]
    kept: Mapping[str, int]
    processed: Mapping[str, int]

    @property
    def differing(self) -> list[str]:
        return sorted(key for key in {*self.logged, *self.kept} if self.logged.get(key) != self.kept.get(key))

    def in_words(self, source: str, target: str) -> str:
        """Nothing but the truth of sums that are equal; else how many differ, the first of them, and why."""
        keys, wrong = len({*self.logged, *self.kept}), self.differing
        if not wrong:
            return f"its {keys} running sums are those of the records on {target}"
        first, kept = wrong[0], self.kept.get(wrong[0])
        example = f"{first} {'has none' if kept is None else f'is {kept:,}'} instead of {self.logged.get(first, 0):,}"
        if self.kept == self.processed:
            why = f"its changelog did not cross and its input positions did, so that it began with an empty state on {target}"
        else:
            why = f"its changelog and its input positions on {target} are of different moments of {source}"
        return f"{len(wrong)} of its {keys} running sums are not those of the records on {target} ({example}): {why}"


def compare(logged: Iterable[str], keys: Mapping[str, str], processed: Iterable[Consumed]) -> Sums:
    """`logged`: ids in the target's logs, each as often as it is there; `keys`: their keys, by id; `processed`: what the
    application processed on the target, in the order of its history."""
    there, kept = Counter[str](), dict[str, int]()
    for name in logged:
        if name in keys:
            there[keys[name]] += _number(name)
    once = {}
    for row in processed:
        once[row.topic, row.partition, row.offset] = row  # an aborted transaction's records are processed again
        if row.total is not None:
            kept[row.key] = row.total
    summed = Counter[str]()
    for row in once.values():
        summed[row.key] += _number(row.id)
    return Sums(dict(there), kept, dict(summed))


def _number(name: str) -> int:
    return decoding.integer_or(0, name.rpartition("-")[2])
