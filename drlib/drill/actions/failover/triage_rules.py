"""Decide whether to fail over, from observations of both sides: yes, no, or unknown.

Rules: a cluster serves when every mirrored partition has a leader that answers and enough copies in sync to be written, and
every group a coordinator. A target without any of these cannot take over, whatever the source does; one that lacks some can
where a reason is given, and never in a planned move: what it lacks is named and stays unknown. A source that serves in
part is lost as far as applications are concerned, which is advice to fail over, and not an error. A
source that is expected to be lost and answers, here or at another place that was asked, or that comes and goes, is a reason
to wait, unless a reason is given; and so is one that this host cannot use, where no other place finds it gone. Both sides
written to is never ignored: it is reported, topic by topic, and fails unless a reason is given.
Not for: asking (`drlib.drill.actions.failover.triage`), and the price, which is reported and not weighed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from drlib.drill.witness.evidence import GONE, Condition, Finding
from drlib.errors import Unreachable
from drlib.formats import first_few
from drlib.kafka.admin.connect import Refused
from drlib.kafka.admin.reachability import ClusterService


class Expected(StrEnum):
    """The state the source is expected to be in."""

    GONE = "gone"
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster as it answers. `silence` is why it does not; partitions are counted of mirrored topics.

    `leaderless`: without a leader that answers; `not_writable`: with fewer answering copies in sync than min.insync.replicas;
    `without_coordinator`: partitions of the groups' topic that are not led, of `coordinators`. `refused`: it is silent to this
    host, which cannot use it, by its certificate, its login or a secret that is not here; where it answers, some brokers are
    and it lacks nothing else. `led`: partitions with a leader that answers; `named`: those without; `refusals`: of brokers.
    """

    alias: str
    brokers: int = 0
    controller: int = -1
    leaderless: int = 0
    silence: str = ""
    silent_brokers: int = 0
    not_writable: int = 0
    without_coordinator: int = 0
    coordinators: int = 0
    refused: bool = False
    led: int = 0
    named: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        return not self.silence

    @property
    def serves(self) -> bool:
        return self.answers and not self.lacks

    @property
    def serves_in_part(self) -> bool:
        """Are there a partition with a leader and a coordinator, where others have none?"""
        coordinated = self.without_coordinator < self.coordinators or not self.without_coordinator
        return self.answers and coordinated and bool(self.led or not self.leaderless)

    @property
    def lacks(self) -> Sequence[str]:
        """What keeps applications from working, where it answers."""
        named = f" ({first_few(self.named)})" if self.named else ""
        return [
            text
            for number, text in (
                (self.leaderless, f"{self.leaderless} partitions without a leader that answers{named}"),
                (self.not_writable, f"{self.not_writable} partitions below min.insync.replicas"),
                (
                    self.without_coordinator,
                    f"no coordinator for groups in {self.without_coordinator} of {self.coordinators} partitions",
                ),
            )
            if number
        ]

    def __str__(self) -> str:
        if not self.answers:
            return f"no answer: {self.silence}"
        silent = f", {self.silent_brokers} of them silent" if self.silent_brokers else ""
        return ", ".join(
            [
                f"answers: {self.brokers} broker{'' if self.brokers == 1 else 's'}{silent}, controller {self.controller}",
                *self.lacks,
                *self.refusals,
            ]
        )


def side_of(alias: str, found: ClusterService | Unreachable, topics: Collection[str]) -> Side:
    """One cluster, of which `topics` are mirrored or mirrors."""
    if isinstance(found, Unreachable):
        return Side(alias, silence=found.why.rstrip("."), refused=isinstance(found, Refused))
    missing, coordinators = found.coordinators_missing
    leaderless = found.not_led(topics)
    every = sum(len(topic.partitions) for name, topic in found.metadata.topics.items() if name in topics)
    rest = side_of(alias, found.for_others, topics) if found.refused else None
    return Side(
        alias,
        len(found.metadata.brokers),
        found.metadata.controller_id,
        len(leaderless),
        silent_brokers=len(found.silent),
        not_writable=len(found.not_writable(topics)),
        without_coordinator=missing,
        coordinators=coordinators,
        refused=rest is not None and rest.serves,
        led=every - len(leaderless),
        named=tuple(map(str, leaderless)),
        refusals=tuple(dict.fromkeys(found.silent[node] for node in sorted(found.refused))),
    )


@dataclass(frozen=True, slots=True)
class Advice:
    go: bool
    why: str
    remedy: str


def advise(
    source: Side,
    target: Side,
    expected: Expected,
    both_written: Sequence[str] = (),
    force_reason: str = "",
    seen: Finding | None = None,
) -> Advice:
    """What to do. `both_written` are topics that are written to on both sides; `force_reason` overrules all but a target that
    cannot take over even in part.

    `seen`: what several places see of a source that does not answer this host; None where that was not asked.
    """
    against, remedy = "", ""
    in_part, restore = "", "Correct that first" if target.refused else f"Restore {target.alias} first"
    if not target.serves:
        if expected is not Expected.GONE or not target.serves_in_part:
            return Advice(False, f"{target.alias} cannot take over: {target}", f"{restore}.")
        in_part = f"{target.alias} cannot take over in full: {target}"
        restore += ", or give force_reason to move all that it serves: positions in the rest stay unknown."
    if both_written:
        against = f"both sides are written to: {', '.join(both_written)}"
        remedy = (
            f"Stop the applications on one side (source.fence), or give force_reason to continue to {target.alias}."
        )
    elif expected is Expected.GONE and source.serves:
        against = f"{source.alias} {source}"
        remedy = (
            "Use a planned switchover, which loses nothing: drlib run planned-switchover FILE "
            f"-p 'flow={source.alias}->{target.alias}'. Or give force_reason."
        )
    elif expected is Expected.GONE and source.refused and (seen is None or seen.condition not in GONE):
        others = (
            f"others reach it ({seen})"
            if seen is not None and seen.reached_from
            else "no other place says if it serves"
        )
        against = f"{source.alias}: {source.silence or source}, and {others}"
        remedy = f"Correct that. Where {source.alias} serves no application either, give force_reason."
    elif expected is Expected.GONE and seen is not None and seen.condition is Condition.CUT_OFF:
        against = f"{source.alias} does not answer this host, and others reach it ({seen}): the network is cut, not the cluster"
        remedy = (
            f"Repair the network, or run this where {source.alias} is reached. To fail over although applications "
            f"may go on writing to {source.alias}, give force_reason."
        )
    elif expected is Expected.GONE and seen is not None and seen.condition in GONE and not seen.settled:
        against = f"{source.alias} comes and goes ({seen})"
        remedy = "Ask again in a moment, or give force_reason."
    elif expected is Expected.SERVING and not source.serves:
        against = f"a planned move needs {source.alias}: {source}"
        remedy = (
            "Correct that, then run it again."
            if source.refused
            else "Wait until it serves, or fail over (emergency-failover)."
        )
    if in_part:
        against, remedy = "; and ".join(filter(None, (in_part, against))), " ".join(filter(None, (restore, remedy)))
    if not against:
        places = f" ({seen.condition}; {seen})" if seen is not None else ""
        return Advice(True, f"{source.alias}: {source}{places}; {target.alias} serves", "")
    if force_reason:
        return Advice(True, f"forced, '{force_reason}', although {against}", "")
    return Advice(False, against, remedy)
