"""L6, the long link: what the round trip costs a client that waits, and the bandwidth a mirror needs to catch up.

Rules: the lab's proxy gives the link a real delay and bandwidth, and every number shown as measured is measured on it. The
round trip cannot be repaired and bandwidth has a price, so the checks ask for the original delay and a bandwidth within the
budget. The proxy delays bytes between local connections; effects of TCP on a long link, such as its windows, are not
included.
"""

import time
from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go

from drlib.errors import UsageError
from drlib.lab.link import sizing
from drlib.lab.link.sizing import LinkSpec
from drlib.lab.link_trial import LinkTrial
from drlib.runs.table import Table
from drlib.training.academy.lesson import BREAK, CheckResult, Lesson
from drlib.training.academy.pictures import Line, lines
from drlib.training.academy.points import Teaching

LINE: Final = "line"
RTT_MS: Final = 200
WIDE: Final = 8_000_000  # bytes per second at the start of the lesson
NARROW: Final = 150_000  # bytes per second after the fault
BUDGET: Final = 2_000_000
REQUEST: Final = 200_000  # bytes that the waiting client requests each time
RATE: Final = 400_000  # bytes per second that producers write
CATCH_UP_S: Final = 12.0  # within which a backlog of BURST has to be mirrored
BURST: Final = 4_000_000
RECORD: Final = 1000
_KB: Final = 1000
_PROBE_S: Final = 3.0
_LINK: Final = LinkSpec(WIDE, RTT_MS / 1000)


class TheLongLink(Lesson):
    key = "L6"
    title = "The long link"
    first = (LINE, "lesson.line()")
    teaching = Teaching(
        high="A client that waits leaves the link empty for a round trip in each request.",
        low="The round trip is paid once for each request, not for each KB: the more it requests at once, the more it gets.",
        pending="a client was measured, which lesson.break_it() does",
        within=0.1,
    )
    hints = (
        "Which of the two can you buy: a shorter round trip, or bandwidth? How much does the backlog need?",
        f"{BURST // _KB:,} KB within {CATCH_UP_S:g} s, and producers that write {RATE // _KB} KB/s: add the two rates.",
        "lesson.order_bandwidth(1_500_000) carries the backlog and the producers' records, and is within the budget.",
    )
    claims = (
        f"the round trip is unchanged, and the bandwidth is sufficient and at most {BUDGET // _KB:,} KB/s",
        "all records of LEFT are on RIGHT",
        f"{BURST // 4 // _KB:,} KB that are written now are on RIGHT within {_PROBE_S:g} s",
    )

    def line(self) -> Table:
        """Mirror a topic over a link with a round trip of 200 ms."""
        self.step(LINE, self._set_up_link)
        return self._link_state("The link between the clusters")

    def order_bandwidth(self, bytes_per_second: float) -> Table:
        """Set the link's bandwidth for each direction, and wait up to 12 seconds for the mirror. The round trip stays."""
        self.require(BREAK, "lesson.break_it()")
        if bytes_per_second <= 0:
            raise UsageError(
                f"order_bandwidth({bytes_per_second:g})",
                "the link would carry nothing",
                "Give bytes per second above 0.",
            )
        self.testbed.lab.proxy.set("LEFT", delay_ms=RTT_MS / 2, bandwidth=bytes_per_second)
        self._wait_copied(sum(self.testbed.end_offsets("LEFT", self.topic)), CATCH_UP_S)
        return self._link_state("The link with the new bandwidth")

    def question(self) -> str:
        return (
            f"The link carries {WIDE // _KB:,} KB/s and has a round trip of {RTT_MS} ms. A client requests "
            f"{REQUEST // _KB} KB, waits for the response and requests again. How many KB/s does it get?"
        )

    def reference_answer(self) -> str:
        return f"{sizing.sequential(_LINK, REQUEST) / _KB:.0f}"

    def measured(self) -> float | None:
        """What the client got on the link, KB/s."""
        rate = self.numbers.get("client")
        return None if rate is None else rate // _KB

    def show_truth(self) -> Table:
        measured = self.numbers.get("client", 0)
        formula = sizing.sequential(_LINK, REQUEST)
        rows: list[Mapping[str, object]] = [
            {"what": "the link", "KB/s": WIDE // _KB},
            {"what": f"one client that waits for {REQUEST // _KB} KB each time, measured", "KB/s": measured // _KB},
            {"what": "the same by the formula B·D / (B·RTT + D)", "KB/s": round(formula / _KB)},
            {"what": "number of such clients to fill the link", "KB/s": sizing.clients_needed(_LINK, REQUEST, WIDE)},
        ]
        in_flight = int(_LINK.in_transit / _KB)
        note = f"It got {measured // _KB:,} KB/s. A mirror that requests ahead has {in_flight:,} KB in flight."
        return Table("A client that waits", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        rate = self._measure_client()
        self.testbed.lab.proxy.set("LEFT", delay_ms=RTT_MS / 2, bandwidth=NARROW)
        self._write(BURST // RECORD)
        return {"client": rate}

    def fault_state(self) -> Table:
        return self._link_state(f"The link carries {NARROW // _KB} KB/s; LEFT received {BURST // _KB:,} KB meanwhile")

    def apply_reference(self) -> None:
        self.order_bandwidth(1_500_000)

    def verify(self, number: int) -> CheckResult:
        return (self._check_link, self._check_backlog, self._check_burst)[number - 1]()

    def figure(self) -> go.Figure:
        sizes = range(50, 6450, 50)
        drawn = [
            Line("one client that waits", sizes, [sizing.sequential(_LINK, size * _KB) / _KB for size in sizes]),
            Line("the link", sizes, [WIDE / _KB] * len(sizes), dash="dash"),
        ]
        if measured := self.numbers.get("client", 0):
            drawn.append(Line("measured", [REQUEST / _KB], [measured / _KB], marks=True))
        return lines(f"A client that waits, with a round trip of {RTT_MS} ms", drawn, "KB per request", "KB/s")

    def _set_up_link(self) -> None:
        self.testbed.create_topic("LEFT", self.topic, 1, {"retention.ms": "-1"})
        self._write(100)
        self.testbed.start_mirror()
        self.testbed.wait_mirrored(self.topic)
        self.testbed.lab.proxy.set("LEFT", delay_ms=RTT_MS / 2, bandwidth=WIDE)

    def _measure_client(self) -> int:
        """Bytes per second of a waiting client on the wide link, with a topic of the trial; the trial clears the link."""
        with LinkTrial(self.testbed.lab, _LINK, partitions=1, megabytes=4) as trial:
            return int(trial.waiting(REQUEST).rate)

    def _write(self, count: int) -> None:
        """Write until the topic has `count` records of about a kilobyte each, uncompressed."""
        self.testbed.write("LEFT", self.topic, range(count), partitions=1, value_bytes=RECORD)

    def _wait_copied(self, count: int, seconds: float) -> int:
        """Wait until RIGHT has `count` records, at most `seconds`; returns how many it has."""
        deadline = time.monotonic() + seconds
        while (copied := len(self.testbed.read("RIGHT", self.copy))) < count and time.monotonic() < deadline:
            self.testbed.abort.wait(0.05)
        return copied

    def _link_state(self, title: str) -> Table:
        left, right = sum(self.testbed.end_offsets("LEFT", self.topic)), len(self.testbed.read("RIGHT", self.copy))
        rows: list[dict[str, object]] = [
            {
                "link": link.name,
                "round trip": f"{link.requests.delay_ms + link.responses.delay_ms:g} ms",
                "KB/s": _bandwidth_text(link.responses.bandwidth),
            }
            for link in self.testbed.lab.proxy.links()
        ]
        note = (
            f"LEFT has {left:,} KB, RIGHT {right:,} KB. Producers will write {RATE // _KB} KB/s; the backlog of "
            f"{BURST // _KB:,} KB has to be mirrored within {CATCH_UP_S:g} s."
        )
        return Table(title, rows, note=note)

    def _check_link(self) -> CheckResult:
        links = [link for link in self.testbed.lab.proxy.links() if link.name.startswith("LEFT")]
        unchanged = all(link.requests.delay_ms + link.responses.delay_ms >= RTT_MS for link in links)
        rates = [link.responses.bandwidth or float("inf") for link in links]  # the proxy's 0 means unlimited
        sufficient = min(rates) >= RATE + BURST / CATCH_UP_S
        bandwidth = _bandwidth_text(links[0].responses.bandwidth)
        observed = f"bandwidth {bandwidth} KB/s, round trip {'unchanged' if unchanged else 'shorter than it was'}"
        right = unchanged and sufficient and max(rates) <= BUDGET
        missing = "It is too little for backlog and producers, or over the budget, or the round trip was changed."
        return CheckResult(right, observed, missing)

    def _check_backlog(self) -> CheckResult:
        source, copied = self.testbed.read("LEFT", self.topic), self.testbed.read("RIGHT", self.copy)
        complete = len(source) >= BURST // RECORD and [r.value for r in source] == [r.value for r in copied]
        observed = f"{len(copied):,} of {len(source):,} records"
        return self.check_copy(complete, observed, "The backlog is not mirrored; the link carries it in its own time.")

    def _check_burst(self) -> CheckResult:
        count = sum(self.testbed.end_offsets("LEFT", self.topic)) + BURST // 4 // RECORD
        started = time.monotonic()
        self._write(count)
        copied = self._wait_copied(count, _PROBE_S - (time.monotonic() - started))
        observed = f"{min(count, copied):,} of {count:,} records after {time.monotonic() - started:.1f} s"
        return CheckResult(copied >= count, observed, "The link does not carry a burst in that time.")


def _bandwidth_text(bandwidth: float) -> str:
    return f"{bandwidth / _KB:,.0f}" if bandwidth else "unlimited"
