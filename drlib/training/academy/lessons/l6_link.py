"""L6, the long link: what distance does to a client that waits, and what bandwidth a mirror needs to catch up.

Rules: the lab's link is set to a real delay and bandwidth by its proxy, and what is told is measured on it. Distance
cannot be repaired away and bandwidth has its price, so the checks ask for the delay as it was and a bandwidth within
the budget. The proxy delays bytes between local connections; what TCP itself makes of a long line is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go

from drlib.errors import UsageError
from drlib.lab.link import sizing
from drlib.lab.link.sizing import LinkSpec
from drlib.lab.link_trial import LinkTrial
from drlib.training.academy.lesson import BREAK, CheckResult, Lesson
from drlib.training.academy.pictures import Line, lines
from drlib.ui.display import Shown

LINE: Final = "line"
RTT_MS: Final = 200
WIDE: Final = 8_000_000  # bytes per second, as the lesson begins
NARROW: Final = 150_000  # what the provider leaves
BUDGET: Final = 2_000_000
REQUEST: Final = 200_000  # bytes that the waiting client asks for
RATE: Final = 400_000  # bytes per second that producers write
CATCH_UP_S: Final = 12.0  # within which a backlog of BURST is to be over, while nobody writes
BURST: Final = 4_000_000
RECORD: Final = 1000
_KB: Final = 1000


class TheLongLink(Lesson):
    key = "L6"
    title = "The long link"
    hints = (
        "Which of the two can you order more of: distance or bandwidth? What does the backlog need?",
        f"{BURST // _KB:,} KB within {CATCH_UP_S:g} s, and producers that write {RATE // _KB} KB/s: add the two rates.",
        "lesson.order_bandwidth(1_500_000): some for the backlog, some for what is written, and within the budget.",
    )
    claims = (
        f"the link is as long as it was, and what was ordered is within the budget of {BUDGET // _KB:,} KB/s and enough",
        "all that LEFT has is on RIGHT",
        f"{BURST // 4 // _KB:,} KB that are written now are on RIGHT within 3 s",
    )

    def line(self) -> Shown:
        """A topic that is mirrored over a line of 200 ms there and back."""
        self.step(LINE, self._line)
        return self._link("The line between the clusters")

    def order_bandwidth(self, bytes_per_second: float) -> Shown:
        """Set what the line carries each way, and wait a little for the mirror to catch up. Its length stays what it is."""
        self.require(BREAK, "lesson.break_it()")
        if bytes_per_second <= 0:
            raise UsageError("no line has that bandwidth", "it would carry nothing", "Give bytes per second.")
        self.testbed.lab.proxy.set("LEFT", delay_ms=RTT_MS / 2, bandwidth=bytes_per_second)
        ends = sum(self.testbed.ends("LEFT", self.topic))
        until = time.monotonic() + CATCH_UP_S
        while len(self.testbed.read("RIGHT", self.copy)) < ends and time.monotonic() < until:
            self.testbed.abort.wait(0.1)
        return self._link("The line, as ordered")

    def question(self) -> str:
        return (
            f"The line carries {WIDE // _KB:,} KB/s and is {RTT_MS} ms long, there and back. A client asks "
            f"for {REQUEST // _KB} KB, waits for the answer and asks again. How many KB/s does it get?"
        )

    def reference_answer(self) -> str:
        return f"{sizing.sequential(LinkSpec(WIDE, RTT_MS / 1000), REQUEST) / _KB:.0f}"

    def show_truth(self) -> Shown:
        self.require(LINE, "lesson.line()")
        link = LinkSpec(WIDE, RTT_MS / 1000)
        measured = self.numbers.get("client", 0)
        formula = sizing.sequential(link, REQUEST)
        rows: list[Mapping[str, object]] = [
            {"what": "the line", "KB/s": WIDE // _KB},
            {"what": f"a client that waits for {REQUEST // _KB} KB each time, measured", "KB/s": measured // _KB},
            {"what": "the same by the formula B·D / (B·RTT + D)", "KB/s": round(formula / _KB)},
            {"what": "such clients to fill the line", "KB/s": sizing.clients_needed(link, REQUEST, WIDE)},
        ]
        note = f"It got {measured // _KB:,} KB/s. A mirror that asks ahead has {int(link.in_transit / _KB):,} KB on their way."
        return Shown("A client that waits", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        self.require(LINE, "lesson.line()")
        self._clients_measured()
        self.testbed.lab.proxy.set("LEFT", delay_ms=RTT_MS / 2, bandwidth=NARROW)
        self._burst(BURST // RECORD)
        return {"client": self._measured}

    def fault_state(self) -> Shown:
        return self._link(f"The provider leaves {NARROW // _KB} KB/s; LEFT has taken {BURST // _KB:,} KB meanwhile")

    def apply_reference(self) -> None:
        self.order_bandwidth(1_500_000)

    def verify(self, number: int) -> CheckResult:
        self.require(BREAK, "lesson.break_it()")
        if number == 1:
            return self._line_is_right()
        if number == 2:
            ours, theirs = self.testbed.read("LEFT", self.topic), self.testbed.read("RIGHT", self.copy)
            whole = len(ours) >= BURST // RECORD and [r.value for r in ours] == [r.value for r in theirs]
            seen = f"{len(theirs):,} of {len(ours):,} records"
            return self.check_copy(whole, seen, "Wait, or order more: lesson.order_bandwidth(...)")
        before = sum(self.testbed.ends("LEFT", self.topic))
        upto = before + BURST // 4 // RECORD
        began = time.monotonic()
        self._burst(upto)
        while (done := len(self.testbed.read("RIGHT", self.copy))) < upto and time.monotonic() < began + 3.0:
            self.testbed.abort.wait(0.05)
        return CheckResult(
            done >= upto,
            f"{min(upto, done):,} of {upto:,} records after {time.monotonic() - began:.1f} s",
            "More bandwidth?",
        )

    def figure(self) -> go.Figure:
        link = LinkSpec(WIDE, RTT_MS / 1000)
        sizes = range(50, 6450, 50)
        drawn = [
            Line("one client that waits", sizes, [sizing.sequential(link, d * _KB) / _KB for d in sizes]),
            Line("the line", sizes, [WIDE / _KB] * len(sizes), dash="dash"),
        ]
        if measured := self.numbers.get("client", 0):
            drawn.append(Line("measured", [REQUEST / _KB], [measured / _KB], marks=True))
        return lines(f"What {RTT_MS} ms do to a client that waits", drawn, "KB asked for each time", "KB/s")

    def _line(self) -> None:
        self.testbed.make("LEFT", self.topic, 1, {"retention.ms": "-1"})
        self._burst(100)
        self.testbed.start_mirror()
        self.testbed.wait_crossed(self.topic)
        self.testbed.lab.proxy.set("LEFT", delay_ms=RTT_MS / 2, bandwidth=WIDE)

    def _clients_measured(self) -> None:
        """On the wide line, with a topic of the trial's own; afterwards the line is cleared by it."""
        with LinkTrial(self.testbed.lab, LinkSpec(WIDE, RTT_MS / 1000), partitions=1, megabytes=4) as trial:
            self._measured = int(trial.waiting(REQUEST).rate)

    def _burst(self, upto: int) -> None:
        """As many records as `upto` in all, of about a kilobyte that does not compress: it is not compressed at all."""
        self.testbed.write("LEFT", self.topic, range(upto), partitions=1, value_bytes=RECORD)

    def _link(self, title: str) -> Shown:
        ours, theirs = sum(self.testbed.ends("LEFT", self.topic)), len(self.testbed.read("RIGHT", self.copy))
        rows: list[dict[str, object]] = [
            {
                "link": one.name,
                "there and back": f"{one.requests.delay_ms + one.responses.delay_ms:g} ms",
                "KB/s": _said(one.responses.bandwidth),
            }
            for one in self.testbed.lab.proxy.links()
        ]
        note = f"LEFT has {ours:,} KB, RIGHT {theirs:,}. Producers will write {RATE // _KB} KB/s; {CATCH_UP_S:g} s to catch up."
        return Shown(title, rows, note=note)

    def _line_is_right(self) -> CheckResult:
        links = [one for one in self.testbed.lab.proxy.links() if one.name.startswith("LEFT")]
        long = all(one.requests.delay_ms + one.responses.delay_ms >= RTT_MS for one in links)
        least, most = (
            min(_carried(one.responses.bandwidth) for one in links),
            max(_carried(one.responses.bandwidth) for one in links),
        )
        enough = least >= RATE + BURST / CATCH_UP_S
        seen = f"{_said(links[0].responses.bandwidth)} KB/s, {'as long as it was' if long else 'shorter than it is'}"
        return CheckResult(long and enough and most <= BUDGET, seen, "lesson.order_bandwidth(bytes_per_second)")


def _carried(bandwidth: float) -> float:
    """Bytes per second; 0 of the proxy is no cap."""
    return bandwidth or float("inf")


def _said(bandwidth: float) -> str:
    return f"{bandwidth / _KB:,.0f}" if bandwidth else "no limit"
