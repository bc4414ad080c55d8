"""Every cause an incident can have: what was done, what shows it, what repairs it, what makes it worse.

Rules: a literal table; each cause is a real fault on the lab's clusters. `{where}` and `{how}` in a text are what the
seed chose of `wheres` and `hows`. Places say what a cause touches: two causes go together only where they touch nothing
in common. Times are seconds from the moment the cause was put in; an operator within them gets every point.
Not for: putting a cause in (`drlib.training.incidents.lab.inject`), choosing one (`incident_seed`), judging (`incident_score`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.training.incidents.rules.moves import Move, parse
from drlib.training.incidents.rules.symptoms import Symptom


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One row. `repair`: the reference solution, in its order. `harmful`: names of moves that make this one worse.

    `spares_positions`: is every record that was read again in its incident the operator's doing?
    """

    name: str
    level: int
    title: str
    story: str
    wheres: tuple[str, ...]
    hows: tuple[str, ...] = ("",)
    places: tuple[str, ...]
    symptoms: tuple[Symptom, ...]
    repair: tuple[str, ...]
    harmful: tuple[str, ...] = ()
    recovered: str
    good: str
    hints: tuple[str, str, str]
    detect_s: float = 60.0
    diagnose_s: float = 150.0
    recover_s: float = 300.0
    spares_positions: bool = True


_BROKER = Cause(
    name="broker-killed",
    level=1,
    title="A broker died",
    story="The only broker of {where} was killed (SIGKILL).",
    wheres=("LEFT", "RIGHT"),
    places=("{where}",),
    symptoms=(Symptom.SITE_SILENT,),
    repair=("restart-broker {where}",),
    harmful=("move-applications",),
    recovered="{where} answers, every application works, and the mirror has caught up.",
    good="See which site does not answer, find no word of a full disk at the end of its broker's log, and start the "
    "broker: its data is whole, and nothing has to move.",
    hints=(
        "Ask each site's broker a question: does it answer?",
        "Look at the end of the broker's log: it ends in the middle of its work, without a reason.",
        "Start it again.",
    ),
)
_CUT = Cause(
    name="link-cut-one-way",
    level=1,
    title="The link is cut one way",
    story="The mirror's {how} on the link to {where} disappear on the way; the other direction is whole.",
    wheres=("LEFT", "RIGHT"),
    hows=("requests", "responses"),
    places=("link",),
    symptoms=(Symptom.MIRROR_BEHIND,),
    repair=("heal-link {where}",),
    harmful=("move-applications",),
    recovered="The mirror has caught up.",
    good="Both sites answer and the applications work, only the mirror does not hear one of them: that is the link. "
    "Nothing is lost while LEFT keeps its records; a failover now would leave the tail behind.",
    hints=(
        "The applications are well. Who is not?",
        "drlib status names the side that the mirror does not hear.",
        "Have the link to that site repaired.",
    ),
)
_SLOW = Cause(
    name="slow-link-retention",
    level=3,
    title="A slow link, and retention about to overtake the mirror",
    story="The link from LEFT carries {how} bytes a second, and the topic flights keeps its records for a minute.",
    wheres=("LEFT",),
    hows=("2000", "3000"),
    places=("link", "LEFT"),
    symptoms=(Symptom.MIRROR_BEHIND,),
    repair=("raise-retention flights", "heal-link {where}"),
    harmful=("move-applications", "stop-mirror", "restart-mirror"),
    recovered="The mirror has caught up before retention deleted anything.",
    good="The lag grows steadily and drlib status says when retention will win. Raise retention first: that takes a "
    "second and stops the clock. Then have the link repaired.",
    hints=(
        "The mirror works, and falls behind all the same. How long does LEFT keep records?",
        "drlib status says RetentionAhead: when records will be deleted before they are mirrored.",
        "Raise the retention of flights first, then have the link to LEFT repaired.",
    ),
    diagnose_s=120.0,
)
_AGAIN = Cause(
    name="topic-recreated",
    level=2,
    title="A topic was deleted and made again",
    story="The topic menus was deleted on LEFT and made again under its name, with other records.",
    wheres=("menus",),
    places=("LEFT", "menus"),
    symptoms=(Symptom.TOPIC_SHRANK,),
    repair=("group-to-start kitchen {where}",),
    harmful=("move-applications",),
    recovered="Group kitchen stands at the beginning of the new topic, and the mirror has all of it.",
    good="The topic's log is shorter than it was, and its group has no position any more: Kafka forgets positions "
    "with the topic. With auto.offset.reset=latest the group would skip what is there, so place it at the start. The "
    "mirror follows by itself.",
    hints=(
        "A log that only grows has become shorter. Which one?",
        "drlib status says TopicRecreated. And where does group kitchen stand?",
        "Place group kitchen at the start of menus.",
    ),
)
_GROWN = Cause(
    name="partitions-added",
    level=2,
    title="Partitions were added",
    story="The topic flights on LEFT was given two more partitions; its standby on RIGHT was not.",
    wheres=("flights",),
    places=("LEFT", "flights"),
    symptoms=(Symptom.SHAPES_DIFFER,),
    repair=("grow-topic RIGHT {where}",),
    harmful=("move-applications",),
    recovered="flights has as many partitions on RIGHT as on LEFT, and so has its mirror.",
    good="Keys are placed by the number of partitions: with six here and four there, a failover now would put the "
    "records of a key into other partitions. Partitions cannot be taken away, so grow the standby; the mirror grows "
    "its copy by itself.",
    hints=(
        "Compare the topics of both sites.",
        "How many partitions has flights on LEFT, and its standby on RIGHT?",
        "Grow flights on RIGHT.",
    ),
)
_OPEN = Cause(
    name="open-transaction",
    level=2,
    title="A transaction was left open",
    story="An import began a transaction in {where} on LEFT and never ended it.",
    wheres=("bookings",),
    places=("LEFT", "bookings"),
    symptoms=(Symptom.MIRROR_BEHIND,),
    repair=("abort-transaction {where}",),
    harmful=("move-applications",),
    recovered="Readers and mirror get past the place where the transaction began.",
    good="One topic stands still for its readers and for the mirror while it is written to: the last stable offset "
    "does not move. drlib status names the transactional ID; fence and abort it.",
    hints=(
        "Whoever reads only what is committed waits, in one topic.",
        "drlib status says OpenTransaction, with its transactional ID.",
        "Abort the transaction in bookings.",
    ),
)
_SYNC = Cause(
    name="stopped-group-sync",
    level=2,
    title="The groups' positions are not kept in step",
    story="sync.group.offsets.enabled was set to false in the mirror's file, and the worker was restarted.",
    wheres=("mirror",),
    places=("mirror",),
    symptoms=(Symptom.POSITIONS_STAND,),
    repair=("enable-group-sync",),
    harmful=("move-applications",),
    recovered="The groups' positions on RIGHT follow those on LEFT.",
    good="Records cross, nothing is reported, and still a failover would read everything again since the change: "
    "look at positions as well as at lag. Switch it on again; it catches up by itself.",
    hints=(
        "All records cross. What else has to be on RIGHT on the day you need it?",
        "Compare the positions of group arrivals on both sites, twice.",
        "Switch the sync of group offsets on again.",
    ),
)
_FOREIGN = Cause(
    name="foreign-writer",
    level=2,
    title="Somebody else writes to a mirror topic",
    story="An application called {how} writes to LEFT.{where} on RIGHT, which is the mirror's own.",
    wheres=("bookings", "flights"),
    hows=("seat-loader", "crew-import"),
    places=("RIGHT",),
    symptoms=(Symptom.MIRROR_REPORTS,),
    repair=("stop-application {how}",),
    harmful=("move-applications",),
    recovered="Nobody but the mirror writes to LEFT.{where}.",
    good="drlib status says ForeignWriter, with the topic; the mirror copies around it and its map stays exact. Find "
    "the writer among the applications and stop it. Do not delete the mirror topic: it is whole.",
    hints=(
        "The mirror keeps up, and yet it has something to say.",
        "drlib status says ForeignWriter. Which application has no business on RIGHT?",
        "Stop the application that was not there before.",
    ),
)
_ACL = Cause(
    name="wrong-acl",
    level=2,
    title="An ACL rule keeps the mirror out",
    story="A rule that lets User:analytics write LEFT.{where} on RIGHT was made: the topic's first, so nobody else "
    "may any more.",
    wheres=("bookings", "flights"),
    places=("RIGHT",),
    symptoms=(Symptom.MIRROR_BEHIND,),
    repair=("remove-acl RIGHT LEFT.{where}",),
    harmful=("move-applications",),
    recovered="The mirror may write LEFT.{where}, and has caught up.",
    good="Both sites answer, the applications work, and drlib status tells of a right that is missing. The first "
    "rule of a resource ends what allow.everyone.if.no.acl.found grants: look who may write each mirror topic, and "
    "take the rule away, or grant the mirror its right as well.",
    hints=(
        "Everything answers. What may the mirror no longer do?",
        "drlib status tells of a missing right. Who may write each mirror topic now?",
        "Take the rule of LEFT.{where} on RIGHT away.",
    ),
)
_DISK = Cause(
    name="full-disk",
    level=3,
    title="A disk is full",
    story="The disk of {where}'s broker has no room left: appends fail, and the broker gives up.",
    wheres=("RIGHT", "LEFT"),
    places=("{where}",),
    symptoms=(Symptom.SITE_SILENT,),
    repair=("free-disk {where}", "restart-broker {where}"),
    harmful=("move-applications",),
    recovered="{where} takes records again, every application works, and the mirror has caught up.",
    good="A broker that is down is not always a broker to start: the end of its log says that it could not write, "
    "and that all log directories failed. Make room first; started before, it fails again.",
    hints=(
        "A site does not answer. Why did its broker stop?",
        "Read the end of its log: all log dirs have failed.",
        "Make room on its disk, then start the broker.",
    ),
)
_CLOCK = Cause(
    name="clock-skew",
    level=3,
    title="A clock is wrong",
    story="The clock of the machine that runs {where} was set {how} minutes back.",
    wheres=("gates",),
    hows=("20", "45"),
    places=("applications",),
    symptoms=(Symptom.TIMES_WRONG,),
    repair=("set-clock {where}",),
    harmful=("move-applications",),
    recovered="New records of gates bear the time at which they are written.",
    good="The topic grows and its newest timestamp does not: the records bear a wrong time, so retention takes them "
    "early and lag in seconds is off. The mirror is right to keep timestamps as they are. Set the clock of the "
    "machine that writes.",
    hints=(
        "Records arrive. Are they of now?",
        "Compare the newest timestamp of each topic with the time of day.",
        "Set the clock of the machine of gates.",
    ),
)
_SPLIT = Cause(
    name="split-brain",
    level=3,
    title="Split brain after a bad failover",
    story="Somebody moved the applications to RIGHT while LEFT was well, and {where} did not follow: both sites are "
    "written.",
    wheres=("bookings",),
    places=("LEFT", "RIGHT", "applications", "link", "mirror"),
    symptoms=(Symptom.BOTH_WRITTEN,),
    repair=("point-application {where} RIGHT", "point-application billing RIGHT"),
    harmful=("move-applications", "stop-mirror"),
    recovered="Only RIGHT is written, and what LEFT had acknowledged is on RIGHT as well.",
    good="Two sites acknowledge writes at once. Do not move anybody back: what RIGHT acknowledged since has nowhere "
    "to go. Let the mirror run, so that the straggler's records cross, and point it to RIGHT, then its reader.",
    hints=(
        "Which site is written to, and by whom?",
        "The application bookings works at another site than all the others.",
        "Point bookings to RIGHT, and its reader billing after it.",
    ),
    spares_positions=False,
)

CAUSES: Final[Mapping[str, Cause]] = {
    one.name: one
    for one in (
        _BROKER,
        _CUT,
        _AGAIN,
        _GROWN,
        _OPEN,
        _SYNC,
        _FOREIGN,
        _ACL,
        _SLOW,
        _DISK,
        _CLOCK,
        _SPLIT,
    )
}


@dataclass(frozen=True, slots=True)
class Planted:
    """A cause with what was chosen for it."""

    cause: str
    where: str
    how: str = ""

    @property
    def kind(self) -> Cause:
        return CAUSES[self.cause]

    @property
    def places(self) -> frozenset[str]:
        return frozenset(self.said(place) for place in self.kind.places)

    @property
    def repair(self) -> tuple[Move, ...]:
        """The reference solution."""
        return tuple(parse([self.said(text)]) for text in self.kind.repair)

    def said(self, text: str) -> str:
        """A text of the cause with its choices in it."""
        return text.format(where=self.where, how=self.how)


_FIRST: Final = ("slow-link-retention", "full-disk", "broker-killed")


def in_turn(planted: Iterable[Planted]) -> tuple[Planted, ...]:
    """In the order in which a good operator takes them: what runs out first, since retention deletes while a broker
    starts; then a site, for one that is silent hides what else is wrong there."""
    rank = {name: number for number, name in enumerate(_FIRST)}
    return tuple(sorted(planted, key=lambda one: rank.get(one.cause, len(_FIRST))))
