"""Every cause an incident can have: what is done, its symptoms, its repair, and the moves that make it worse.

Rules: a literal table of `Cause`, whose texts are filled in by `InjectedCause`; those of level 6 are in `postmortems`.
Not for: injecting a cause (`drlib.training.incidents.lab.inject`), choosing one (`seed`), judging (`score`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.training.incidents.rules.cause import Cause
from drlib.training.incidents.rules.moves import Move, parse_move
from drlib.training.incidents.rules.postmortems import POSTMORTEMS
from drlib.training.incidents.rules.symptoms import Symptom

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
    good="Find out which site does not answer. Read the end of its broker's log: it says nothing about a full disk. Start the "
    "broker: its data is complete, so nothing has to move.",
    hints=(
        "Check whether the broker of each site answers.",
        "Read the end of the broker's log: it stops in the middle of normal work, without an error.",
        "Start the broker again.",
    ),
)
_CUT = Cause(
    name="link-cut-one-way",
    level=1,
    title="The link is cut one way",
    story="The mirror's {how} on the link to {where} are dropped; the other direction works.",
    wheres=("LEFT", "RIGHT"),
    hows=("requests", "responses"),
    places=("link",),
    symptoms=(Symptom.MIRROR_BEHIND,),
    repair=("heal-link {where}",),
    harmful=("move-applications",),
    good="Both sites answer and the applications work. Only the mirror gets no answer from one site, so the link is broken. "
    "Nothing is lost while LEFT retains its records. A failover now would leave unreplicated records behind.",
    hints=(
        "The applications work. Which component does not?",
        "drlib status names the cluster that the mirror cannot reach.",
        "Have the link to that site repaired.",
    ),
)
_SLOW = Cause(
    name="slow-link-retention",
    level=3,
    title="A slow link, and retention about to overtake the mirror",
    story="The link from LEFT carries {how} bytes/s, and retention of topic flights was set to one minute.",
    wheres=("LEFT",),
    hows=("2000", "3000"),
    places=("link", "LEFT"),
    symptoms=(Symptom.MIRROR_BEHIND,),
    repair=("raise-retention flights", "heal-link {where}"),
    harmful=("move-applications", "stop-mirror", "restart-mirror"),
    good="The lag grows steadily, and drlib status says when retention will delete records that are not mirrored yet. Raise "
    "retention first: that takes effect within a second. Then have the link repaired.",
    hints=(
        "The mirror works and still falls behind. How long does LEFT retain records?",
        "drlib status reports RetentionAhead: when records will be deleted before they are mirrored.",
        "Raise the retention of flights first, then have the link to LEFT repaired.",
    ),
    diagnose_s=120.0,
)
_AGAIN = Cause(
    name="topic-recreated",
    level=2,
    title="A topic was deleted and re-created",
    story="Topic menus was deleted on LEFT and re-created under the same name with other records.",
    wheres=("menus",),
    places=("LEFT", "menus"),
    symptoms=(Symptom.TOPIC_SHRANK,),
    repair=("group-to-start kitchen {where}",),
    harmful=("move-applications",),
    good="The topic's log is shorter than it was, and its group has no committed offsets: Kafka deletes them with the topic. "
    "With auto.offset.reset=latest the group would skip the new records, so move it to the start. The mirror follows the "
    "re-created topic by itself.",
    hints=(
        "One log became shorter, and logs normally only grow. Which one?",
        "drlib status reports TopicRecreated. Where is group kitchen now?",
        "Move group kitchen to the start of menus.",
    ),
)
_GROWN = Cause(
    name="partitions-added",
    level=2,
    title="Partitions were added",
    story="Topic flights on LEFT was given two more partitions; its standby topic on RIGHT was not.",
    wheres=("flights",),
    places=("LEFT", "flights"),
    symptoms=(Symptom.PARTITIONS_DIFFER,),
    repair=("grow-topic RIGHT {where}",),
    harmful=("move-applications",),
    good="The default partitioner maps a key to a partition by the number of partitions. With six on LEFT and four on RIGHT, a "
    "failover now would write the records of a key to other partitions. Partitions cannot be removed, so add them to the "
    "standby topic. The mirror adds partitions to its mirror topic by itself.",
    hints=(
        "Compare the topics of both sites.",
        "How many partitions do flights on LEFT and its standby topic on RIGHT have?",
        "Add partitions to flights on RIGHT.",
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
    good="One topic is written to, but its readers and the mirror make no progress in it: its last stable offset does not "
    "advance. drlib status names the transactional ID. Fence that producer and abort its transaction.",
    hints=(
        "Consumers with isolation.level=read_committed wait, in one topic only.",
        "drlib status reports OpenTransaction with its transactional ID.",
        "Abort the transaction in bookings.",
    ),
)
_SYNC = Cause(
    name="stopped-group-sync",
    level=2,
    title="Group offsets are no longer synchronized",
    story="sync.group.offsets.enabled was set to false in the mirror's file, and the worker was restarted.",
    wheres=("mirror",),
    places=("mirror",),
    symptoms=(Symptom.POSITIONS_STALLED,),
    repair=("enable-group-sync",),
    harmful=("move-applications",),
    good="Records are mirrored and no problem is reported, but after a failover every group would read again all records since "
    "the change. Compare committed offsets as well as lag. Enable the synchronization: it catches up by itself.",
    hints=(
        "All records are mirrored. What else has to be on RIGHT for a failover?",
        "Compare the committed offsets of group arrivals on both sites, twice.",
        "Enable the synchronization of group offsets again.",
    ),
)
_FOREIGN = Cause(
    name="foreign-writer",
    level=2,
    title="An application writes to a mirror topic",
    story="Application {how} writes to LEFT.{where} on RIGHT, a topic that only the mirror may write to.",
    wheres=("bookings", "flights"),
    hows=("seat-loader", "crew-import"),
    places=("RIGHT",),
    symptoms=(Symptom.MIRROR_REPORTS,),
    repair=("stop-application {how}",),
    harmful=("move-applications",),
    good="drlib status reports ForeignWriter with the topic. The mirror continues, and its offset map stays exact. Find the "
    "writer among the applications and stop it. Do not delete the mirror topic: nothing is missing in it.",
    hints=(
        "The mirror keeps up but reports a problem.",
        "drlib status reports ForeignWriter. Which application should not write on RIGHT?",
        "Stop the application that did not run at the start.",
    ),
)
_ACL = Cause(
    name="wrong-acl",
    level=2,
    title="An ACL denies the mirror access",
    story="LEFT.{where} on RIGHT got its first ACL: it allows only User:analytics, so the mirror is denied.",
    wheres=("bookings", "flights"),
    places=("RIGHT",),
    symptoms=(Symptom.MIRROR_BEHIND,),
    repair=("remove-acl RIGHT LEFT.{where}",),
    harmful=("move-applications",),
    good="Both sites answer, the applications work, and drlib status reports a missing permission. The first ACL of a resource "
    "ends the access that allow.everyone.if.no.acl.found gives. List the ACLs of each mirror topic and delete that ACL, or "
    "allow the mirror as well.",
    hints=(
        "Both clusters answer. What is the mirror no longer allowed to do?",
        "drlib status reports a missing permission. Which principals may write to each mirror topic?",
        "Delete the ACL of LEFT.{where} on RIGHT.",
    ),
)
_DISK = Cause(
    name="full-disk",
    level=3,
    title="A disk is full",
    story="The disk of {where}'s broker is full: appends fail, and the broker shuts down.",
    wheres=("RIGHT", "LEFT"),
    places=("{where}",),
    symptoms=(Symptom.SITE_SILENT,),
    repair=("free-disk {where}", "restart-broker {where}"),
    harmful=("move-applications",),
    good="Do not start a stopped broker before you know why it stopped. The end of its log says that writes and then all "
    "log directories failed. Free disk space first: a broker that is started before that fails again.",
    hints=(
        "A site does not answer. Why did its broker stop?",
        "Read the end of its log: all log dirs have failed.",
        "Free space on its disk, then start the broker.",
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
    good="The topic grows but its newest timestamp does not advance: the records carry a wrong time. Retention deletes them "
    "too early, and lag in seconds is wrong. The mirror is right to preserve timestamps. Correct the clock of the machine that "
    "writes.",
    hints=(
        "Records arrive. Do they carry the current time?",
        "Compare the newest timestamp of each topic with the time of day.",
        "Set the clock of the machine of gates.",
    ),
)
_SPLIT = Cause(
    name="split-brain",
    level=3,
    title="Split brain after an incomplete failover",
    story="The applications moved to RIGHT while LEFT worked; {where} stayed: both sites are written to.",
    wheres=("bookings",),
    places=("LEFT", "RIGHT", "applications", "link", "mirror"),
    symptoms=(Symptom.BOTH_WRITTEN,),
    repair=("point-application {where} RIGHT", "point-application billing RIGHT"),
    harmful=("move-applications", "stop-mirror"),
    good="Both sites acknowledge writes. Do not move the applications back: LEFT does not have what RIGHT has acknowledged "
    "since. Keep the mirror running, so that the records of the remaining producer are mirrored. Move that producer to RIGHT, "
    "then its reader.",
    hints=(
        "Which site is written to, and by which application?",
        "Application bookings works at another site than all others.",
        "Move bookings to RIGHT, then its reader billing.",
    ),
    spares_positions=False,
)

# The order within a level is part of every agreed game: seeds draw from it.
CAUSES: Final[Mapping[str, Cause]] = {
    cause.name: cause
    for cause in (
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
        *POSTMORTEMS.values(),
    )
}


@dataclass(frozen=True, slots=True)
class InjectedCause:
    """A cause with the place and the variant that were chosen for it."""

    cause: str
    where: str
    how: str = ""

    @property
    def definition(self) -> Cause:
        return CAUSES[self.cause]

    @property
    def places(self) -> frozenset[str]:
        return frozenset(self.render(place) for place in self.definition.places)

    @property
    def repair(self) -> tuple[Move, ...]:
        """The reference solution."""
        return tuple(parse_move([self.render(text)]) for text in self.definition.repair)

    def render(self, text: str) -> str:
        """Fill the chosen place and variant into a text of the cause."""
        return text.format(where=self.where, how=self.how)


_MOST_URGENT: Final = ("slow-link-retention", "full-disk", "broker-killed")


def by_urgency(injected: Iterable[InjectedCause]) -> tuple[InjectedCause, ...]:
    """Sort causes in the order in which to repair them.

    Retention comes first, because it deletes records while a broker starts; then a site that does not answer, because it
    hides other symptoms.
    """
    rank = {name: number for number, name in enumerate(_MOST_URGENT)}
    return tuple(sorted(injected, key=lambda cause: rank.get(cause.cause, len(_MOST_URGENT))))
