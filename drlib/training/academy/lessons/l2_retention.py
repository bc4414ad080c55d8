"""L2, lag, RPO and retention: the cost of a cut link while it lasts, and the records that retention deletes for good.

Rules: records are written over time, because lag is measured in time. The fault is a cut link: the worker runs but cannot
reach LEFT. LEFT retains one topic long enough to act and the other not: its broker deletes records that the mirror has not
read, and the mirror reports that by an event when the link works again. The repair has two steps: first longer retention,
because it is unknown how long the link stays down, then the link. If the learner takes longer than the retention of the
orders, they are lost as well. RIGHT retains what it has without a limit: with LEFT's retention a mirror topic would delete
orders that cross after half an hour as they arrive.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from drlib import clock, formats
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import ConfigChange, Record
from drlib.mirror.offsets.translation.external_offsets import translate_offsets
from drlib.model import TranslationKind
from drlib.runs.table import Table
from drlib.training.academy.lesson import BREAK, CheckResult, Lesson
from drlib.training.academy.pictures import Line, Span, lines
from drlib.training.academy.points import Teaching
from drlib.training.academy.testbed import order_of

TRAFFIC: Final = "traffic"
RETENTION_MS: Final = 1_800_000
ENOUGH_MS: Final = 3_600_000
BEFORE: Final = 300
RATE: Final = 100  # records per second
SECONDS: Final = 4
ALL: Final = BEFORE + RATE * SECONDS
CLICKS: Final = 100  # mirrored before the cut
GONE: Final = 200  # clicks written to LEFT while the link is cut, and deleted there before they are mirrored
CLICKS_MS: Final = 2000
LOSS: Final = "SourceLoss"  # the mirror's event
_PROBE_S: Final = 10.0
_KEY: Final = "retention.ms"
_CUT, _EXPIRED, _HEALED = "cut_ms", "expired_ms", "healed_ms"  # moments, among the numbers of the attempt
_SHOWN_S: Final = 2.0


class LagAndRetention(Lesson):
    key = "L2"
    title = "Lag, RPO and retention"
    first = (TRAFFIC, "lesson.traffic()")
    teaching = Teaching(
        high="LEFT survived and had retained its orders, so they crossed late. They are lost only with LEFT: that is the RPO.",
        low="Retention does not wait for the mirror: LEFT itself deleted the clicks before they could cross.",
        pending="the link works again and the mirror has caught up",
        within=0.02,
    )
    hints = (
        "The lag grows, and retention will delete the records that wait. Which of the two can you stop without knowing why "
        "the link is down?",
        "First let LEFT retain records for longer, lesson.keep_for(hours=...), then repair the link.",
        "lesson.keep_for(hours=24) gives you a day; lesson.mend_link() repairs the link, and the mirror catches up by itself.",
    )
    claims = (
        "LEFT retains both topics for an hour or longer",
        "all orders that LEFT has acknowledged are on RIGHT, in order",
        "a record that is written to LEFT now is on RIGHT within seconds",
    )

    @property
    def clicks(self) -> str:
        """A second topic, which LEFT retains for two seconds."""
        return self.testbed.name("clicks")

    def traffic(self) -> Table:
        """Write and mirror orders, which LEFT retains for half an hour, and clicks, which it retains for two seconds."""
        self.step(TRAFFIC, self._traffic)
        return self.clocks()

    def clocks(self) -> Table:
        """Show the lag of both topics, and how long retention keeps the records that are not mirrored yet."""
        self.require(TRAFFIC, "lesson.traffic()")
        orders, clicks = self._clock(self.topic, self._missing()), self._clock(self.clicks, self._missing_clicks())
        rows: list[Mapping[str, object]] = [
            {"what": measure, "orders": value, "clicks": clicks[measure]} for measure, value in orders.items()
        ]
        deleted = {"orders": self._lost(self.topic, BEFORE), "clicks": self._lost(self.clicks, CLICKS)}
        rows.append({"what": "deleted by LEFT before they were mirrored", **deleted})
        note = "The lag is lost if LEFT is lost. Records that retention deletes first are lost in any case."
        return Table("Lag and retention", rows, note=note)

    def keep_for(self, hours: float) -> Table:
        """Set the retention of both topics on LEFT; takes effect without a restart. Deleted records stay deleted."""
        self.require(TRAFFIC, "lesson.traffic()")
        self._retain("LEFT", (self.topic, self.clicks), int(hours * 3_600_000))
        return self.clocks()

    def mend_link(self) -> Table:
        """Repair the link between the clusters and wait until the mirror has caught up."""
        self.require(TRAFFIC, "lesson.traffic()")
        self.testbed.lab.proxy.clear("LEFT")
        if self.has_done(BREAK):
            self.keep({_HEALED: clock.now_ms()})
        self.testbed.wait("the mirror has caught up", lambda: not self._missing())
        ends = self.testbed.end_offsets("LEFT", self.clicks)
        self.testbed.wait(
            "the mirror is at the end of the clicks", lambda: self.testbed.fetch_offsets(self.clicks) == ends
        )
        return self.clocks()

    def question(self) -> str:
        return (
            "The link is cut, for longer than LEFT retains clicks and for less than it retains orders. Meanwhile LEFT "
            "acknowledges two orders for each click. Then the link is repaired; LEFT has survived. Which percentage of the "
            "records that LEFT acknowledged during the cut never reaches RIGHT?"
        )

    def reference_answer(self) -> str:
        return f"{100 * GONE / (GONE + RATE * SECONDS):.0f}"

    def measured(self) -> float | None:
        """The share of what was acknowledged during the cut that LEFT deleted first, in percent."""
        if self._missing() or self.testbed.fetch_offsets(self.clicks) != self.testbed.end_offsets("LEFT", self.clicks):
            return None
        lost = self._lost(self.topic, BEFORE) + self._lost(self.clicks, CLICKS)
        return round(100 * lost / (self.numbers["lag"] + GONE))

    def show_truth(self) -> Table:
        lag = self.numbers["lag"]
        starts, clicks = self._starts(self.clicks), self._lost(self.clicks, CLICKS)
        rows = [
            {"what": f"orders that only LEFT had after the {SECONDS} seconds", "value": f"{lag:,}"},
            {"what": "time they span", "value": formats.seconds(self.numbers["age_ms"] / 1000)},
            {"what": "clicks: the mirror had read up to offset", "value": f"{CLICKS:,}"},
            {"what": "clicks: log start offset on LEFT", "value": f"{starts[0]:,}"},
            {"what": "clicks that are on neither cluster", "value": f"{clicks:,}"},
            {"what": f"the mirror's event {LOSS}", "value": self._loss_event()},
        ]
        note = f"The loss of LEFT would have cost {lag:,} orders, the lag. {clicks:,} clicks were lost without it."
        return Table("The RPO at that moment, and what retention deleted", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        self.testbed.check_retention_often("LEFT")  # a lab that was restarted since does not have this setting
        self.keep({_CUT: clock.now_ms()})
        self.testbed.lab.proxy.set("LEFT", cut=True)
        self.testbed.write("LEFT", self.clicks, range(CLICKS + GONE), partitions=1)
        self.testbed.write("LEFT", self.topic, range(ALL), partitions=1, per_second=RATE)
        missing = self._missing()
        self.testbed.wait("retention has deleted the clicks", lambda: self._starts(self.clicks) == [CLICKS + GONE])
        age_ms = missing[-1].timestamp_ms - missing[0].timestamp_ms if missing else 0
        return {"lag": len(missing), "age_ms": age_ms, _EXPIRED: clock.now_ms()}

    def fault_state(self) -> Table:
        return self.clocks()

    def apply_reference(self) -> None:
        self.keep_for(hours=24)
        self.mend_link()

    def verify(self, number: int) -> CheckResult:
        if number == 1:
            retained = {topic: self._retention_ms(topic) for topic in (self.topic, self.clicks)}
            observed = ", ".join(f"{topic}: {_retention_text(ms)}" for topic, ms in retained.items())
            enough = all(not 0 <= ms < ENOUGH_MS for ms in retained.values())
            return CheckResult(enough, observed, "LEFT may delete records before the link works again.")
        if number == 2:
            source, copied = self.testbed.read("LEFT", self.topic), self.testbed.read("RIGHT", self.copy)
            numbers = [number for number in map(order_of, copied) if number >= 0]  # a learner may have tried the topic
            complete = numbers == list(range(ALL))
            observed = f"{len(source):,} on LEFT, {len(copied):,} on RIGHT, of {ALL:,}"
            if deleted := self._lost(self.topic, BEFORE):
                observed += f"; retention deleted {deleted:,} orders for good"
                return CheckResult(False, observed, "The mirror was too late.", for_good=True)
            return self.check_copy(complete, observed, "The mirror does not get them from LEFT.")
        return self.check_probe(_PROBE_S, "The mirror does not reach LEFT.")

    def figure(self) -> go.Figure:
        written = [record.timestamp_ms for record in self.testbed.read("LEFT", self.topic)]
        copied = len(self.testbed.read("RIGHT", self.copy))
        lost = self._lost(self.clicks, CLICKS) if self.has_done(BREAK) else 0
        drawn, cut = course(written, copied, lost, self.numbers)
        title = "Orders on both clusters"
        if cut:
            title = f"While the link was cut: {self.numbers.get('lag', 0)} orders between the lines, the RPO"
        return lines(title, drawn, "seconds", "records", spans=cut)

    def _traffic(self) -> None:
        self.testbed.check_retention_often("LEFT")
        self.testbed.create_topic("LEFT", self.topic, 1, {_KEY: str(RETENTION_MS)})
        self.testbed.create_topic("LEFT", self.clicks, 1, {_KEY: str(CLICKS_MS)})
        self.testbed.create_topic("LEFT", self.probe_topic, 1)
        self.testbed.start_mirror()
        self.testbed.wait("the mirror reads the clicks", lambda: bool(self.testbed.mirrored_offsets(self.clicks)))
        self.testbed.write("LEFT", self.clicks, range(CLICKS), partitions=1)
        self.testbed.write("LEFT", self.topic, range(BEFORE), partitions=1, per_second=2 * RATE)
        for topic in (self.topic, self.clicks):
            self.testbed.wait_mirrored(topic)
        self._retain("RIGHT", (self.copy, self.testbed.copy(self.clicks)), -1)

    def _retain(self, alias: str, topics: Sequence[str], retention_ms: int) -> None:
        with Cluster(self.testbed.lab.clusters[alias].settings()) as cluster:
            for topic in topics:
                cluster.alter_topic_settings(topic, [ConfigChange(_KEY, None, str(retention_ms))])

    def _missing(self) -> list[Record]:
        """Orders on LEFT that are not on RIGHT."""
        copied = {record.value for record in self.testbed.read("RIGHT", self.copy)}
        return [record for record in self.testbed.read("LEFT", self.topic) if record.value not in copied]

    def _missing_clicks(self) -> list[Record]:
        """Clicks on LEFT behind the worker's next fetch offset."""
        fetched = self.testbed.fetch_offsets(self.clicks)
        next_offset = fetched[0] if fetched else 0
        return [record for record in self.testbed.read("LEFT", self.clicks) if record.offset >= next_offset]

    def _clock(self, topic: str, missing: list[Record]) -> dict[str, str]:
        oldest_ms = min((record.timestamp_ms for record in missing), default=None)
        age_s = None if oldest_ms is None else max(0.0, time.time() - oldest_ms / 1000)
        retention_ms = self._retention_ms(topic)
        if retention_ms < 0:
            left = "unlimited"
        elif age_s is None:
            left = "no lag"
        else:
            left = formats.duration(max(0.0, retention_ms / 1000 - age_s))
        return {
            "lag: records that only LEFT has": f"{len(missing):,}",
            "lag: age of the oldest of them": "no lag" if age_s is None else formats.seconds(age_s),
            "RPO, if LEFT were lost now": f"{len(missing):,} records",
            "retention on LEFT": _retention_text(retention_ms),
            "until retention deletes the first of them": left,
        }

    def _starts(self, topic: str) -> list[int]:
        return self.testbed.log_bounds("LEFT", topic)[0]

    def _lost(self, topic: str, cut: int) -> int:
        """Count records from offset `cut` on that LEFT deleted before they were read.

        The sum of the records that the offset map reports as lost, and those that the mirror has still to discover.
        """
        (item,) = translate_offsets(self.file, "LEFT", "RIGHT", [(topic, 0, cut)])
        known = item.translation.records if item.translation.kind is TranslationKind.LOST else 0
        undiscovered = zip(self._starts(topic), self.testbed.fetch_offsets(topic), strict=False)
        return known + sum(max(0, start - position) for start, position in undiscovered)

    def _loss_event(self) -> str:
        """The detail of the worker's event about the clicks."""
        status = self.testbed.mirror().status()
        losses = [e for e in (status.events if status else ()) if e.name == LOSS]
        details = [e.detail for e in losses if any(self.clicks in name for name in e.names)]
        return details[0] if details else "not reported yet: the mirror cannot reach LEFT"

    def _retention_ms(self, topic: str) -> int:
        with self.testbed.cluster("LEFT") as cluster:
            return int(cluster.topic_config([topic], inherited=True)[topic][_KEY])


def course(
    written_ms: Sequence[int], copied: int, lost: int, numbers: Mapping[str, int]
) -> tuple[list[Line], tuple[Span, ...]]:
    """The figure's lines, and what is shaded: of the orders of `written_ms` `copied` are on RIGHT; `lost` clicks are gone.

    The time until the repair is the learner's; more than `_SHOWN_S` of it behind the last order are left out.
    """
    if not written_ms:
        return [], ()
    begin = written_ms[0]

    def at(moment: str) -> float:
        return (numbers[moment] - begin) / 1000

    times = [(each - begin) / 1000 for each in written_ms]
    counts = list(range(1, len(times) + 1))
    if _EXPIRED not in numbers:
        return [
            Line("acknowledged by LEFT", times, counts),
            Line("on RIGHT", times[:copied], counts[:copied], "dash"),
        ], ()
    behind = max(at(_EXPIRED), times[-1]) + _SHOWN_S
    healed = min(at(_HEALED), behind) if _HEALED in numbers else behind
    before = max(0, len(times) - numbers.get("lag", 0))
    right = Line("on RIGHT", [*times[:before], healed], [*counts[:before], before], "dash")
    end = healed
    if _HEALED in numbers:
        end = healed + _SHOWN_S
        right = Line("on RIGHT", [*right.x, healed, end], [*right.y, copied, copied], "dash")
    drawn = [
        Line("acknowledged by LEFT", [*times, end], [*counts, counts[-1]]),
        right,
        Line(f"{lost} clicks deleted unread", [at(_EXPIRED)], [lost], marks=True),
    ]
    took = f" for {formats.seconds(at(_HEALED) - at(_CUT))}" if _HEALED in numbers else ""
    return drawn, (Span(f"link cut{took}", at(_CUT), healed),)


def _retention_text(retention_ms: int) -> str:
    return "unlimited" if retention_ms < 0 else formats.duration(retention_ms / 1000)
