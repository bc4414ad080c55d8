"""Applications move in waves on clusters of a file: each is served on the target before the next one is moved."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from fix_engine import Engine, commit, create_topic, produce, wait_for
from fix_lab import LabFactory
from repository_root import ROOT
from testbed_applications import Application, stage
from testbed_switchover import Following, Moving

import drlib
from drlib.client import pointer_file, pointer_topic
from drlib.client.pointer import OPEN, Pointer
from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.run import request
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, UsageError
from drlib.kafka.admin.descriptions import Record
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.checker.history import ProducedStatus
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.status import worker_status as status
from drlib.model import Flow
from drlib.runbook import plans
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict
from drlib.runs.journal import JOURNAL
from drlib.runs.scorecard import Scorecard
from drlib.ui.report import markdown

PARTITIONS = 3


class Site:
    """A flow that is mirrored, a reader and a writer that follow the pointer's topic, and runbooks with them in two waves."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.home, self.away, self.topic = engine.source, engine.target, engine.topics
        self.group, self.reader, self.writer = f"{self.topic}.g", f"{self.topic}.reader", f"{self.topic}.writer"

    def mirrored(self) -> bool:
        """Do workers have all lanes of both flows?"""
        try:
            flows = status.read(self.engine.status_path(0)).flows
        except UsageError:
            return False
        return [{lane.state for lane in flow.lanes} for flow in flows] == [{"running"}] * 2

    def pointer(self, application: str) -> Pointer:
        found = read_pointer(tuple(load_mirror_settings(self.engine.properties).clusters.values()), application).pointer
        assert found is not None
        return found

    def book(self, of: str, *readers: dict[str, Any], within_s: float = 60.0) -> Path:
        """The shipped runbook `of` with the reader in the first wave and the writer in the last one."""
        book = yaml.safe_load((ROOT / "runbooks" / f"{of}.yaml").read_text())
        reads = {"name": self.reader, "groups": [self.group.replace(".", "\\.")]}
        book["drill"]["waves"] = [
            {"name": "readers", "applications": [reads, *readers], "within_s": within_s},
            {"name": "writers", "applications": [{"name": self.writer, "written": [self.topic]}]},
        ]
        book["objectives"] = {}  # no cluster fails here
        book["notebook"] = str(ROOT / "notebooks" / "10_run_a_drill.ipynb")
        path = self.folder / f"{of}-waves.yaml"
        path.write_text(yaml.safe_dump(book, sort_keys=False))
        return path

    def writers_first(self) -> Path:
        """The emergency of `book` with the waves the other way round."""
        path = self.book("emergency-failover")
        book = yaml.safe_load(path.read_text())
        book["drill"]["waves"].reverse()
        path.write_text(yaml.safe_dump(book, sort_keys=False))
        return path

    def open(self, book: Path, run: str, **parameters: Any) -> Any:
        flow = f"{self.home}->{self.away}"
        return drlib.open_drill(book, self.folder / run, properties=self.engine.properties, flow=flow, **parameters)

    @contextmanager
    def working(self) -> Iterator[Following]:
        """The reader and the writer, which have read some records."""
        with Following(self.engine.properties, self.topic, self.group, self.writer, self.reader) as applications:
            wait_for("it works", lambda: len(applications.read) > 50)
            yield applications

    def in_order(self, applications: Following) -> None:
        """Every record was read once, each key in order."""
        wait_for("it has read everything", lambda: len(applications.read) >= len(applications.sent))
        assert applications.failed == []
        assert sorted(applications.read) == applications.sent
        for key in range(7):
            of_key = [n for n in applications.sent if n % 7 == key]
            assert [n for n in applications.read if n % 7 == key] == of_key


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Site:
    engine.extra = {
        "emit.heartbeats.enabled": "false",
        "groups": f"{engine.topics}.*",
        f"{engine.target}->{engine.source}.enabled": "true",
    }
    for bootstrap in (engine.left, engine.right):
        create_topic(bootstrap, engine.topics, PARTITIONS)
    found = Site(engine, tmp_path)
    engine.start()
    wait_for("the mirror runs", found.mirrored)
    drlib.publish_pointer(engine.properties, found.home)
    return found


@pytest.mark.long
def test_waves_move_a_reader_before_its_writer_and_keep_every_key_in_order(site: Site) -> None:
    home, away = site.home, site.away
    with site.working() as applications:
        with site.open(site.book("planned-switchover"), "planned", stopped_seconds=30.0) as drill:
            planned = " ".join(repr(drill.plan()).split())
            assert planned.index("go-home-readers-served") < planned.index("go-home-writers-served")
            assert f"active cluster of {site.writer}, as topic drlib.active.internal says" in planned
            drill.until("go-home-readers-served")
            assert applications.places == {site.reader: away, site.writer: home}
            assert site.pointer(site.reader).cutover[f"{home}.{site.topic}"] == (OPEN,) * PARTITIONS
            assert site.pointer("*").active == home
            sent = len(applications.sent)
            wait_for("what is written at home is read over there", lambda: len(applications.read) > sent + 50)
            drill.finish()
        assert site.pointer("*").active == away
        ends = site.pointer(site.reader).cutover[f"{home}.{site.topic}"]
        assert all(0 < end < OPEN for end in ends)
        sent = len(applications.sent)
        wait_for("it works over there", lambda: len(applications.read) > sent + 50)
        assert applications.places == {site.reader: away, site.writer: away}
        applications.stop_writing()
        site.in_order(applications)
    card = Scorecard.read(site.folder / "planned" / "scorecard.json")
    assert card.verdict is Verdict.PASS, card.checks
    names = {check.name for check in card.checks}
    assert {f"wave {n} of 2, {name}: applications are served" for n, name in ((1, "readers"), (2, "writers"))} <= names
    assert "wave 2 of 2, writers: served" in {mark.name for mark in card.marks}
    assert "wave 1 of 2, readers" in markdown.render(card, journal.read(site.folder / "planned" / JOURNAL), ())


@pytest.mark.long
def test_waves_stop_where_an_application_is_not_served_and_are_resumed_once_it_is(site: Site) -> None:
    """The ledger is to move and has no member: the writers stay, and nothing is held."""
    home, away, ledger = site.home, site.away, f"{site.topic}.ledger"
    commit(site.engine.left, ledger, site.topic, 0)
    book = site.book("planned-switchover", {"name": ledger, "groups": [ledger]}, within_s=8.0)
    with site.working() as applications:
        with site.open(book, "stopped", stopped_seconds=30.0) as drill:
            drill.plan()
            with pytest.raises(Deviated) as stopped:
                drill.finish()
        said = str(stopped.value)
        assert f"wave 1 of 2, readers: {ledger} is not as expected on {away}" in said
        assert f"expected: group {ledger} reads on on {away}; seen within 8 s: it has no members" in said
        assert f"not moved yet, at {home}: writers ({site.writer})" in said
        assert (site.pointer(site.writer).active, site.pointer(site.writer).hold) == (home, False)
        assert site.pointer(site.reader).active == away
        sent = len(applications.sent)
        wait_for("both work where they are", lambda: len(applications.read) > sent + 50)

        late = drlib.OrderedConsumer(
            {"bootstrap.servers": site.engine.right},
            ledger,
            site.topic,
            remote=f"{home}.{site.topic}",
            cutover=(OPEN,) * 3,
        )
        with late, site.open(book, "stopped", stopped_seconds=30.0) as drill:
            wait_for("the ledger reads", lambda: late.poll(0.1) is not None)
            late.commit()
            drill.finish()
        assert site.pointer("*").active == away
        applications.stop_writing()
        site.in_order(applications)


EMERGENCY: dict[str, Any] = {"force_reason": "a test", "approve": ["fence"], "skip_gate": "a test"}


@pytest.mark.long
def test_waves_in_an_emergency_move_each_wave_while_the_fence_holds_the_others(site: Site) -> None:
    home, away = site.home, site.away
    with site.working() as applications:
        with site.open(site.writers_first(), "emergency", **EMERGENCY) as drill:
            drill.plan()
            drill.until("move-writers-served")
            assert (site.pointer(site.writer).active, site.pointer(site.writer).hold) == (away, False)
            assert (site.pointer(site.reader).active, site.pointer(site.reader).hold) == (home, True)
            drill.finish()
        assert {site.pointer(name).active for name in ("*", site.reader, site.writer)} == {away}
        sent = len(applications.sent)
        wait_for("it works over there", lambda: len(applications.read) > sent + 50)
        assert applications.places == {site.reader: away, site.writer: away}
        applications.stop_writing()
        site.in_order(applications)


class Reader(threading.Thread):
    """An application that reads by its own pointer, until it is told to end; `read`: the numbers of the records."""

    def __init__(self, config: Path, name: str, topic: str) -> None:
        super().__init__(name=name)
        self.config, self.topic, self.over = config, topic, threading.Event()
        self.read: list[int] = []
        self.start()

    def run(self) -> None:
        with (
            drlib.ActiveCluster(self.name, self.config) as active,
            drlib.OrderedConsumer(active, self.name, self.topic, max_batch=20) as consumer,
        ):
            while not self.over.is_set():
                if (record := consumer.poll(0.1)) is not None:
                    self.read.append(int((record.value or b"").rstrip(b"x")))
                    consumer.commit()


@pytest.mark.long
@pytest.mark.timeout(330)
def test_waves_in_an_emergency_whose_source_is_dead_move_one_after_another(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    """Readers follow the pointer's topic, of which the dead source had a copy; each continues at its exact record."""
    lab = lab_factory()
    home, away, topic, names = "PARIS", "LYON", "orders", ("orders.first", "orders.second")
    engine = Engine(tmp_path, lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap, home, away, topic)
    engine.extra = {"emit.heartbeats.enabled": "false", "groups": "orders.*"}
    site, readers = Site(engine, tmp_path), list[Reader]()
    try:
        create_topic(engine.left, topic, 1)
        create_topic(engine.right, topic, 1)
        produce(engine.left, topic, 120, partitions=1)
        for position, name in ((20, names[0]), (50, names[1])):
            commit(engine.left, name, topic, position)
        engine.start()
        engine.wait_caught_up(topic, 1)
        settings = load_mirror_settings(engine.properties)
        flow = Flow(home, away)
        wait_for(
            "the positions are known",
            lambda: set(names) <= {group for group, _ in checkpointed_positions(settings, flow)},
        )
        drlib.publish_pointer(engine.properties, home)
        book = yaml.safe_load(site.book("emergency-failover").read_text())
        book["drill"]["waves"] = [
            {"name": name.rpartition(".")[2], "applications": [{"name": name, "groups": [name.replace(".", "\\.")]}]}
            for name in names
        ]
        path = tmp_path / "dead.yaml"
        path.write_text(yaml.safe_dump(book, sort_keys=False))
        lab.clusters["LEFT"].kill()
        readers += [Reader(engine.properties, name, topic) for name in names]
        with site.open(path, "dead", approve=["fence"], skip_gate="a test") as drill:
            drill.plan()
            drill.until("move-first-served")
            assert (site.pointer(names[0]).active, site.pointer(names[0]).hold) == (away, False)
            assert (site.pointer(names[1]).active, site.pointer(names[1]).hold) == (home, True)
            assert (readers[0].read[:1], readers[1].read) == ([20], [])
            drill.finish()
        assert {site.pointer(name).active for name in ("*", *names)} == {away}
        for reader, position in zip(readers, (20, 50), strict=True):
            wait_for(f"{reader.name} has read everything", lambda r=reader, p=position: len(r.read) >= 120 - p)
            assert reader.read == list(range(position, 120))
    finally:
        for reader in readers:
            reader.over.set()
        for reader in readers:
            reader.join(20)
        engine.close()


@pytest.mark.long
def test_waves_of_a_stopped_emergency_that_are_rolled_back_follow_the_pointer_of_all_again(site: Site) -> None:
    home, away = site.home, site.away
    with site.working() as applications:
        with site.open(site.writers_first(), "rolled-back", **EMERGENCY) as drill:
            drill.plan()
            drill.until("move-writers-served")
            assert applications.places[site.writer] == away
        folder = site.folder / "rolled-back"
        asked = request.find(folder)
        assert asked is not None
        ending = plans.roll_back(folder, asked, plans.Granted())
        assert ending.standing == ()
        for name in ("*", site.reader, site.writer):
            assert (site.pointer(name).active, site.pointer(name).hold) == (home, False)
        sent = len(applications.sent)
        wait_for("both work at home", lambda: len(applications.read) > sent + 50)
        assert applications.places == {site.reader: home, site.writer: home}


@pytest.mark.long
def test_waves_of_pointer_files_hold_and_move_one_application_at_a_time(site: Site) -> None:
    """As on a lab, whose applications follow files."""
    home, away, topic, group = site.home, site.away, site.topic, site.group
    settings = load_mirror_settings(site.engine.properties)
    run = site.folder / "run"
    run.mkdir()
    with stage(site.folder) as on:
        on.point(1, home, site.engine.left)
        producer = on.producer(topic, own="writer", records_per_second=300.0)
        consumer = on.consumer(topic, group, own="reader")
        place = DrillContext(
            clusters=settings.clusters,
            flow=Flow(home, away),
            run_dir=run,
            properties=site.engine.properties,
            pointer=on.pointer,
        )
        moving = Moving(site.engine, on, place)

        def act(name: str, wave: str) -> dict[str, object]:
            waves = ("readers: reader", "writers: writer")
            said = {"waves": waves, "readers": (f"reader={group}",), "writers": (f"writer={topic}",)}
            step = moving.step(name, source=home, target=away, wave=wave, **said)
            return dict(step.act(step.changes(step.observe()), Abort(run)))

        def seen(application: Application, cluster: str) -> int:
            history = application.history()
            clusters = [row.cluster for row in history.produced] + [row.cluster for row in history.consumed]
            return clusters.count(cluster)

        wait_for("traffic", lambda: seen(producer, home) > 300 and seen(consumer, home) > 300)
        act("wave.switchover", "readers")
        act("wave.verify", "readers")
        own = {name: pointer_file.read(on.followed(name)) for name in ("reader", "writer", "")}
        assert {name: (at.active, at.hold) for name, at in own.items()} == {
            "reader": (away, False),
            "writer": (home, False),
            "": (home, False),
        }
        assert seen(producer, away) == 0
        done = act("wave.switchover", "writers")
        assert (done["rpo_records"], done["others"]) == (0, "it is the last wave")
        act("wave.verify", "writers")
        assert {pointer_file.read(on.followed(name)).active for name in ("reader", "writer", "")} == {away}
        wait_for("traffic over there", lambda: seen(producer, away) > 300)
        assert producer.terminate()[0] == 0
        acked = sorted(row.id for row in producer.history().produced if row.status is ProducedStatus.ACKED)
        wait_for("everything is read", lambda: len(consumer.history().consumed) >= len(acked))
        assert sorted(row.id for row in consumer.history().consumed) == acked


@pytest.mark.long
def test_waves_of_a_stopped_run_stay_where_they_are_until_another_run_moves_the_rest(site: Site) -> None:
    home, away = site.home, site.away
    with site.working() as applications:
        with site.open(site.book("planned-switchover"), "there", stopped_seconds=30.0) as drill:
            drill.plan()
            drill.until("go-home-readers-served")
            assert applications.places == {site.reader: away, site.writer: home}
        folder = site.folder / "there"
        asked = request.find(folder)
        assert asked is not None
        with pytest.raises(Deviated, match=rf"no application is held, and at {away} are: readers.*writers"):
            plans.roll_back(folder, asked, plans.Granted())
        assert (site.pointer(site.reader).active, site.pointer(site.writer).hold) == (away, False)

        back = drlib.open_drill(
            site.book("planned-switchover"),
            site.folder / "back",
            properties=site.engine.properties,
            flow=f"{away}->{home}",
            stopped_seconds=30.0,
        )
        with back as drill:
            drill.plan()
            with pytest.raises(Deviated, match=rf"{site.group} cannot move to {home} yet: it has not read"):
                drill.finish()
        assert (site.pointer(site.reader).active, site.pointer(site.reader).hold) == (away, False)
        sent = len(applications.sent)
        wait_for("both work where they are", lambda: len(applications.read) > sent + 50)
        assert applications.places == {site.reader: away, site.writer: home}

        with site.open(site.book("planned-switchover"), "again", stopped_seconds=30.0, supersede="there") as drill:
            drill.plan()
            drill.finish()
        assert {site.pointer(name).active for name in ("*", site.reader, site.writer)} == {away}
        applications.stop_writing()
        site.in_order(applications)


def test_waves_are_planned_with_one_reading_of_the_pointers_of_all_applications(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, real = list[str](), pointer_topic.read_records

    def counted(settings: ClusterSettings, topic: str, timeout_s: float) -> list[Record]:
        read.append(settings.alias)
        return real(settings, topic, timeout_s)

    monkeypatch.setattr(pointer_topic, "read_records", counted)
    idle = [{"name": f"{site.topic}.idle-{n}", "groups": [f"{site.topic}.none-{n}"], "idle": True} for n in range(3)]
    with site.open(site.book("planned-switchover", *idle), "planned"):
        assert sorted(read) == sorted([site.home, site.away] * 3)  # a plan looks at everything twice, and its gate once


def test_waves_that_leave_a_group_out_are_refused_with_the_plan(site: Site) -> None:
    commit(site.engine.left, f"{site.topic}.forgotten", site.topic, 0)
    why = rf"{site.topic}\.forgotten of {site.home} would be left behind: no wave has this group"
    with pytest.raises(UsageError, match=why):
        site.open(site.book("planned-switchover"), "refused")
