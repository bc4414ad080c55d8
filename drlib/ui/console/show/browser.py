"""Browse the records of a topic, and the positions of a group: widgets of the console.

Rules: read-only: a plain consumer that joins no group and commits nothing, with a short time limit, on a thread of its own.
Positions are those of the last survey. Records are shown in the page alone: none is in a log, and a notebook that is saved as
JupyterLab does by default has none.
Not for: what is shown (`drlib.ui.console.show.records`).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import ipywidgets

from drlib.config.settings import MirrorSettings
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range, Record
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition
from drlib.ui.console.show.front_end import button
from drlib.ui.console.show.records import NEWEST, Log, offsets, positions_html, records_html, turned
from drlib.ui.console.state import ConsoleState

ANSWER_S: Final = 6.0
OPEN, CLOSE = "Browse records and positions", "Close browsing"


class Browser:
    """`settings` raises `UsageError` where there are none; `report` gets the error of a read, or None as it begins."""

    def __init__(
        self,
        settings: Callable[[], MirrorSettings],
        state: Callable[[], ConsoleState],
        report: Callable[[BaseException | None], None],
    ) -> None:
        self._settings, self._state, self._report = settings, state, report
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="drlib-console-read")
        self._page: tuple[str, TopicPartition, Log, Range] | None = None
        self.toggle = button(OPEN, "Read-only: records of a topic, positions of a group")
        self.toggle.layout.align_self = "flex-start"
        self.cluster = ipywidgets.Dropdown(description="Of cluster", layout={"width": "220px"})
        self.topic = ipywidgets.Combobox(description="Topic", placeholder="its name", layout={"width": "300px"})
        self.partition = ipywidgets.BoundedIntText(
            description="Partition", min=0, max=1_000_000, layout={"width": "180px"}
        )
        self.offset = ipywidgets.Text(value=NEWEST, description="From offset", layout={"width": "220px"})
        self.show = button("Show records", "At most 20 offsets")
        self.older = button("Older", "The page before")
        self.newer = button("Newer", "The page behind")
        self.group = ipywidgets.Dropdown(description="Group", layout={"width": "300px"})
        self.positions = button("Show positions", "Of the group on every partition")
        self.result = ipywidgets.HTML()
        wrap = {"flex_flow": "row wrap"}
        self.fields = ipywidgets.VBox(
            [
                ipywidgets.HBox(
                    [self.cluster, self.topic, self.partition, self.offset, self.show, self.older, self.newer],
                    layout=wrap,
                ),
                ipywidgets.HBox([self.group, self.positions], layout=wrap),
                self.result,
            ]
        )
        self.fields.layout.display = "none"
        self.box = ipywidgets.VBox([self.toggle, self.fields])
        self.controls = (
            self.toggle, self.cluster, self.topic, self.partition, self.offset, self.show, self.older, self.newer, self.group,
            self.positions,
        )  # fmt: skip
        self.older.disabled = self.newer.disabled = True

    def callbacks(self) -> tuple[tuple[Any, Callable[[], None]], ...]:
        """Buttons and what they do."""
        return (
            (self.toggle, self._toggled),
            (self.show, self._asked),
            (self.older, lambda: self._turned(-1)),
            (self.newer, lambda: self._turned(1)),
            (self.positions, self._positions),
        )

    def draw(self, state: ConsoleState) -> None:
        """Offer what there is now; what was chosen stays chosen."""
        aliases = {alias for view in state.flows for alias in view.flow.split("->")}
        _offer(self.cluster, sorted(aliases | {cluster.alias for cluster in state.clusters}))
        _offer(self.group, [f"{group.group} ({view.flow})" for view in state.flows for group in view.groups or ()])
        alias = str(self.cluster.value)
        topics = {p.topic for v in state.flows for p in v.partitions if v.flow.startswith(f"{alias}->")}
        topics |= {p.target_topic for v in state.flows for p in v.partitions if v.flow.endswith(f"->{alias}")}
        if tuple(self.topic.options) != tuple(sorted(topics)):
            self.topic.options = sorted(topics)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.result.value = ""
        for control in self.controls:
            control.disabled = True

    def _toggled(self) -> None:
        hidden = self.fields.layout.display == "none"
        self.fields.layout.display = "flex" if hidden else "none"
        self.toggle.description = CLOSE if hidden else OPEN
        if not hidden:
            self.result.value = ""

    def _asked(self) -> None:
        topic = str(self.topic.value).strip()
        if not topic:
            raise UsageError("nothing was read", "no topic was named", "Choose a topic.")
        self._read(str(self.cluster.value), TopicPartition(topic, int(self.partition.value)), str(self.offset.value))

    def _turned(self, pages: int) -> None:
        if self._page is None:
            raise UsageError("nothing was read", "no page is shown", "Press Show records first.")
        alias, at, log, shown = self._page
        self._read(alias, at, turned(log, shown, pages))

    def _read(self, alias: str, at: TopicPartition, asked: str) -> None:
        known = self._settings().clusters
        if alias not in known:
            raise UsageError(f"cluster {alias}", f"the file has {', '.join(known)}", "Choose one of them.")
        self._report(None)
        self._pool.submit(read_page, known[alias], at, asked).add_done_callback(
            lambda done: self._done(alias, at, done)
        )

    def _done(self, alias: str, at: TopicPartition, done: Future[tuple[Log, Range, tuple[Record, ...]]]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._report(error)
            return
        log, shown, records = done.result()
        self._page = (alias, at, log, shown)
        self.older.disabled, self.newer.disabled = shown.start <= log.start, shown.end >= log.end
        self.result.value = records_html(alias, at, log, shown, records)

    def _positions(self) -> None:
        for view in self._state().flows:
            for group in view.groups or ():
                if f"{group.group} ({view.flow})" == self.group.value:
                    self.result.value = positions_html(view.flow, group, view.at_ms)
                    return
        raise UsageError(
            "nothing is shown", "no group has a position on a mirrored topic now", "See the picture above."
        )


def read_page(cluster: ClusterSettings, at: TopicPartition, asked: str) -> tuple[Log, Range, tuple[Record, ...]]:
    """A page of committed records. Raises `UsageError` for a topic, partition or offset that is not there, `Unreachable`."""
    with Cluster(cluster, timeout_s=ANSWER_S) as opened:
        topic = opened.topics([at.topic]).get(at.topic)
        if topic is None:
            raise UsageError(f"topic {at.topic}", f"{cluster.alias} has none of this name", "Choose one of the list.")
        if at.partition >= topic.partitions:
            raise UsageError(
                f"{at.topic}-{at.partition}", f"the topic has {topic.partitions} partitions", "Choose one of them."
            )
        log = Log(opened.log_starts([at])[at], opened.log_ends([at], Isolation.READ_COMMITTED)[at])
        shown = offsets(log, asked)
        return log, shown, tuple(opened.read({at: shown}))


def _offer(choice: Any, options: list[str]) -> None:
    if list(choice.options) != options:
        chosen = choice.value
        choice.options = options
        choice.value = chosen if chosen in options else next(iter(options), None)
