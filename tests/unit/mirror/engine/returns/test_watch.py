"""A flow, clients and other replicators on one partition, in simulated time: what is stopped, and what is not."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drlib.kafka.protocol import recode
from drlib.mirror.engine.fetch.partition_stream import PartitionStream, PlannedBatch
from drlib.mirror.engine.returns.sightings import contents
from drlib.mirror.engine.returns.watch import ReturnWatch
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

SOURCE, TARGET = TopicPartition("t", 0), TopicPartition("t", 0)
BEGAN_MS = 1_700_000_000_000
STEP_S, COPY_S = 0.02, 0.02


class SimulatedTime(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next thing to do."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        loop = cast(Any, self)
        if not loop._ready and loop._scheduled:
            self.now = max(self.now, loop._scheduled[0]._when)
        cast(Any, super())._run_once()


@dataclass(frozen=True)
class Content:
    value: int
    at_ms: int


@dataclass
class World:
    """The source's log, the flow that reads it, and who writes to it. `back_s`: after how long another replicator copies a
    record back, if one does."""

    back_s: float | None = None
    log: list[Content] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    held_s: float = 0.0
    stopped_at: float | None = None
    suspicions: int = 0

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.events = EventLog()
        self.queue: list[tuple[int, Content]] = []
        self.stream = SimpleNamespace(
            source=SOURCE, target=TARGET, mirrored=0, unacked=[], parked="", held=False, append_times=False,
            map=PartitionMap(),
        )  # fmt: skip
        self.watcher = ReturnWatch(self.stopped, self.events, "lane", cast(Any, self), self, self.loop.time)

    # -- what the produce loop and the source answer -----------------------------------------------------------------

    def wake(self) -> None:
        pass

    def watch(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self.suspicions += 1
        return task

    def keeps_timestamps(self, stream: PartitionStream) -> bool:
        return True

    def stop_topic(self, topic: str, reason: str) -> None:
        self.stream.parked = reason
        self.stopped_at = self.loop.time()

    async def end(self, source: TopicPartition) -> int:
        return len(self.log)

    async def appended(
        self, source: TopicPartition, begin: int, end: int, wanted: Collection[bytes], *, timed: bool
    ) -> set[bytes]:
        items = [planned(offset, self.log[offset]) for offset in range(begin, end)]
        return {content for i in items for _, content in contents(i.batch, i.pieces, timed=timed)} & set(wanted)

    # -- the flow ----------------------------------------------------------------------------------------------------

    async def copy(self, until: float) -> None:
        position = 0
        while self.loop.time() < until and not self.stream.parked:
            read = [(offset, self.log[offset]) for offset in range(position, len(self.log))]
            position = len(self.log)
            self.queue += read
            if read:
                self.watcher.read(cast(Any, self.stream), [planned(*each) for each in read])
            if self.stream.held:
                self.held_s += STEP_S
            elif self.queue and not self.stream.parked:
                sent, self.queue = self.queue, []
                self.stream.unacked.append(sent)
                self.loop.call_later(COPY_S, self.acknowledge, sent)
            await asyncio.sleep(STEP_S)
        self.watcher.end()

    def acknowledge(self, sent: list[tuple[int, Content]]) -> None:
        self.stream.unacked.remove(sent)
        self.stream.mirrored = sent[-1][0] + 1
        if self.back_s is not None:
            for _, content in sent:
                self.loop.call_later(self.back_s, self.log.append, content)


def planned(offset: int, content: Content) -> PlannedBatch:
    record = recode.Record(offset, content.at_ms, None, b"%d" % content.value)
    batch = recode.rebuild([record], codec=0, producer_id=1, producer_epoch=0, base_sequence=0)
    return PlannedBatch(batch, ((offset, 1),), offset + 1, content.at_ms)


Client = Callable[[World], Coroutine[Any, Any, None]]


def simulate(client: Client, *, back_s: float | None = None, lasts_s: float = 200.0) -> World:
    async def run() -> World:
        world = World(back_s)
        writing = asyncio.create_task(client(world))
        await world.copy(lasts_s)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        return world

    with asyncio.Runner(loop_factory=SimulatedTime) as runner:
        return runner.run(run())


async def ordinary(world: World, every_s: float = 0.5) -> None:
    """Records that are all different, with the time at which they are written."""
    for number in range(100_000):
        world.log.append(Content(number, BEGAN_MS + int(world.loop.time() * 1000)))
        await asyncio.sleep(every_s)


def bursts(
    count: int, contents_: int, spacing_s: float, pause_s: float, rounds: int, *, with_others: bool, same_time: bool
) -> Client:
    """A client or replicator that writes `contents_` records, `count` times each, pauses, and writes the same again.

    `same_time`: also in later rounds with the same timestamps, as a replay or a re-sent batch; else these are cut to minutes.
    """

    async def write(world: World) -> None:
        others = asyncio.create_task(ordinary(world)) if with_others else None
        try:
            for _ in range(rounds):
                for _ in range(count):
                    minute = 0 if same_time else int(world.loop.time() // 60) * 60_000
                    world.log.extend(Content(-value - 1, BEGAN_MS + minute) for value in range(contents_))
                    await asyncio.sleep(spacing_s)
                await asyncio.sleep(pause_s)
            await asyncio.sleep(10_000)
        finally:
            if others is not None:
                others.cancel()

    return write


async def once(world: World) -> None:
    """Twenty records, and no more."""
    world.log.extend(Content(number, BEGAN_MS + number) for number in range(20))
    await asyncio.sleep(10_000)


async def one(world: World) -> None:
    world.log.append(Content(1, BEGAN_MS))
    await asyncio.sleep(10_000)


SHORT = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SHORT
@example(count=5, values=1, spacing_s=0.1, pause_s=2.5, rounds=10_000, with_others=False, same_time=True)
@example(count=4, values=2, spacing_s=0.3, pause_s=4.0, rounds=10_000, with_others=True, same_time=True)
@given(
    count=st.integers(1, 6),
    values=st.integers(1, 4),
    spacing_s=st.sampled_from([0.0, 0.03, 0.1, 0.25, 1.0, 3.0]),
    pause_s=st.floats(0.0, 45.0),
    rounds=st.sampled_from([1, 2, 3, 5, 10_000]),
    with_others=st.booleans(),
    same_time=st.booleans(),
)
def test_clients_that_repeat_records_are_never_taken_for_a_loop(
    count: int, values: int, spacing_s: float, pause_s: float, rounds: int, with_others: bool, same_time: bool
) -> None:
    """Constant records, retries, replays, timestamps cut to minutes, a replicator that crashes and copies again."""
    pause_s = max(pause_s, count * values / 50)  # 50 records per second are enough
    client = bursts(count, values, spacing_s, pause_s, rounds, with_others=with_others, same_time=same_time)
    world = simulate(client, lasts_s=150.0)
    assert world.stopped_at is None, world.stopped
    assert world.held_s < 85, "for about half of the time at most, and less and less of it"


@SHORT
@given(jitter=st.lists(st.floats(0.05, 2.0), min_size=300, max_size=300))
def test_client_that_writes_the_same_record_at_random_times_is_no_loop(jitter: list[float]) -> None:
    async def write(world: World) -> None:
        for pause_s in jitter:
            world.log.append(Content(1, BEGAN_MS))
            await asyncio.sleep(pause_s)

    assert simulate(write, lasts_s=120.0).stopped_at is None


@SHORT
@given(back_s=st.floats(0.01, 3.0), client=st.sampled_from([once, one, ordinary]))
def test_loop_is_stopped_soon_with_few_copies_whatever_circulates(back_s: float, client: Client) -> None:
    world = simulate(client, back_s=back_s, lasts_s=200.0)
    assert world.stopped_at is not None, world.events.snapshot()
    round_s = back_s + 3 * STEP_S + COPY_S
    assert world.stopped_at < 15 + 40 * round_s, f"round {round_s:.2f} s"
    (first, copies) = world.log[0], world.log.count(world.log[0])
    assert copies <= 12 + 8 / round_s, f"{first} was written {copies} times, one round lasts {round_s:.2f} s"
    assert "was written to t-0 again, last at offset" in world.stopped["t"]


@SHORT
@given(back_s=st.floats(0.02, 0.5), every_s=st.floats(0.3, 2.0))
def test_loop_beside_a_client_that_repeats_records_is_stopped_too(back_s: float, every_s: float) -> None:
    """Records that were written in a silence prove nothing any more."""

    async def both(world: World) -> None:
        world.log.extend(Content(number, BEGAN_MS + number) for number in range(20))
        while True:
            world.log.append(Content(-1, BEGAN_MS))
            await asyncio.sleep(every_s)

    world = simulate(both, back_s=back_s, lasts_s=300.0)
    assert world.stopped_at is not None, world.events.snapshot()


def test_topic_that_was_stopped_is_stopped_in_every_lane_of_the_flow() -> None:
    async def run() -> World:
        world = World()
        world.stopped["t"] = "it returns"
        world.log.append(Content(1, BEGAN_MS))
        await world.copy(1.0)
        return world

    with asyncio.Runner(loop_factory=SimulatedTime) as runner:
        world = runner.run(run())
    assert (world.stream.parked, world.stream.mirrored) == ("it returns", 0)


def test_claim_that_ends_in_a_trial_holds_nothing_back_and_reports_nothing() -> None:
    async def run() -> World:
        world = World(0.1)
        writing = asyncio.create_task(once(world))
        copying = asyncio.create_task(world.copy(100.0))
        await asyncio.sleep(1.0)
        assert world.stream.held
        await asyncio.sleep(0)
        assert [e.name for e in world.events.snapshot() if e.resolved_ms is None] == ["ReturnSuspected"]
        world.watcher.end()
        assert not world.stream.held
        for task in (writing, copying):
            task.cancel()
        await asyncio.gather(writing, copying, return_exceptions=True)
        return world

    with asyncio.Runner(loop_factory=SimulatedTime) as runner:
        world = runner.run(run())
    assert world.stopped_at is None
