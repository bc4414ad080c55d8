"""Two clusters that copy one topic both ways, and the pointer names paris: what status, the console and the doctor say while
only paris is written to, and once clients write to lyon as well."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from fix_engine import commit, wait_for
from testbed_way_back import FLOW, GROUP, TOPIC, Night, a_shared_night

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import Finding, Readiness, Severity
from drlib.errors import Unreachable
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.survey import GroupStatus, Survey
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.mirror.status.worker_status import PartitionStatus
from drlib.model import Flow, TranslationKind
from drlib.ui.console.state import standing
from drlib.ui.console.watcher import Subject, Watching

FLOW_NAMES = ("paris", "lyon")
ON_LYON = 1 + 20 + 7 + 30 + 50  # what clients write there in all tests


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    with a_shared_night(tmp_path_factory.mktemp("both-ways")) as night:
        yield night


def settings_of(night: Night) -> MirrorSettings:
    return load_mirror_settings(night.file)


def bootstrap(night: Night, alias: str) -> str:
    return night.lab.clusters[alias].bootstrap


def settled(night: Night) -> None:
    wait_for("each side has all records", lambda: all(night.records(a) == night.written for a in ("paris", "lyon")), 60)


def write(night: Night, producer: Producer, count: int) -> None:
    """Write that many numbered records, and wait until they are acknowledged."""
    for number in range(night.written, night.written + count):
        producer.produce(TOPIC, value=b"t", headers=[("n", str(number).encode())], partition=0)
    assert not producer.flush(30)
    night.written += count


def write_in_turns(night: Night) -> None:
    """Both sides write in turns, so that the logs differ in order."""
    here, there = (
        Producer({"bootstrap.servers": bootstrap(night, alias), "enable.idempotence": True, "log_level": 0})
        for alias in FLOW_NAMES
    )
    for _ in range(10):
        write(night, here, 5)
        write(night, there, 5)


def status(night: Night, flow: Flow = FLOW) -> dict[str, object]:
    """As `drlib status --groups --json` shows it."""
    argv = [sys.executable, "-m", "drlib.cli", "status", str(night.file), "--groups", "--json"]
    done = subprocess.run(
        [*argv, "--runs-dir", str(night.runs_dir)], capture_output=True, text=True, timeout=90, check=False
    )
    (found,) = [each for each in json.loads(done.stdout) if each["flow"] == str(flow)]
    assert isinstance(found, dict)
    return found


def orders_in(flow: Survey | FlowView) -> PartitionStatus:
    (found,) = [each for each in flow.partitions if each.topic == TOPIC]
    return found


def group_in(rows: object, name: str) -> dict[str, object]:
    assert isinstance(rows, list)
    (found,) = [each for each in rows if each["group"] == name]
    assert isinstance(found, dict)
    return found


def console_group(night: Night, flow: Flow, name: str) -> GroupStatus:
    """As the live console has it."""
    watching = Watching(Subject(None, night.file, night.runs_dir, str(flow)))
    watching.look()
    (view,) = watching.state().flows
    (found,) = [each for each in view.groups or () if each.group == name]
    return found


def diagnosed(night: Night, flow: Flow = FLOW) -> Readiness:
    (found,) = doctor(settings_of(night), flow=flow, runs=night.runs_dir)
    return found


def of(found: Readiness, check: str) -> list[Finding]:
    return [each for each in found.findings if each.check == check]


def test_group_whose_logs_have_one_order_is_exact_in_status_and_console(night: Night) -> None:
    settled(night)
    group = group_in(status(night)["groups"], GROUP)
    assert (group["partitions"], group["exact"], group["other"], group["read_again"]) == (1, 1, 0, 0)
    assert standing(console_group(night, FLOW, GROUP)) == "exact"
    (doctors,) = of(diagnosed(night), "groups-exact")
    assert doctors.severity is Severity.OK, doctors


def test_only_one_side_is_written_to_and_no_client_is_on_the_other_one(night: Night) -> None:
    settled(night)
    for flow in (FLOW, FLOW.reverse):
        found = diagnosed(night, flow)
        (standby,) = of(found, "standby-writers")
        assert standby.severity is Severity.OK, standby
        assert standby.evidence.startswith(
            "lyon stands by (the pointer names paris): no client wrote to 1 partition there"
        )
        assert "the mirror's" in standby.evidence
        (both,) = of(found, "written-on-both")
        assert both.severity is Severity.OK, both
        assert "clients wrote to 1 of them, on one cluster each" in both.evidence


def test_rate_of_the_flow_back_is_of_what_it_copies_and_not_of_copies_that_it_passes(night: Night) -> None:
    """By the journals and by the worker: of 501 records that come to lyon it copies one."""
    settings = settings_of(night)
    flows = [(settings, settings.flow(*each)) for each in (FLOW_NAMES, FLOW_NAMES[::-1])]
    observer = FlowObserver()
    there, back = map(orders_in, observer.survey_blocking(flows))
    night.write("paris", 500)
    settled(night)
    night.write("lyon", 1)  # what was read is journaled with the next record that is copied

    def passed() -> bool:
        now = [orders_in(each).mirrored for each in observer.survey_blocking(flows)]
        return now[0] > there.mirrored and now[1] > back.mirrored + 500

    wait_for("both flows have passed the records", passed, 60)
    for each in (*map(orders_in, observer.surveys), *map(orders_in, observer.views())):
        print(each.outlook)
    assert (orders_in(observer.surveys[0]).outlook.out_per_s or 0) > 0
    views = observer.views()
    assert all(view.workers for view in views)
    for found in (orders_in(observer.surveys[1]), orders_in(views[1])):
        incoming, copied = found.outlook.in_per_s, found.outlook.out_per_s
        assert incoming is not None
        assert copied is not None
        assert incoming > 100 * copied, (incoming, copied)


def test_clients_of_both_sides_are_counted_and_those_of_the_one_that_stands_by_are_named(night: Night) -> None:
    lyon = bootstrap(night, "lyon")
    shop = Producer({"bootstrap.servers": lyon, "transactional.id": "shop", "log_level": 0})
    shop.init_transactions(30)
    shop.begin_transaction()
    write(night, shop, 20)
    shop.commit_transaction(30)
    write(night, Producer({"bootstrap.servers": lyon, "enable.idempotence": False, "log_level": 0}), 7)
    night.write("lyon", 30)
    settled(night)
    write_in_turns(night)
    settled(night)
    for flow in (FLOW, FLOW.reverse):
        found = diagnosed(night, flow)
        writers = of(found, "standby-writers")
        assert {each.severity for each in writers} == {Severity.WARN}, writers
        said = sorted(each.evidence for each in writers)
        assert len(said) == 5, said  # and those of the test before this one, and of `write_in_turns`
        assert [each for each in said if "20 records, the last" in each and "transactional ID shop" in each], said
        assert [each for each in said if ": 7 records of producers without an ID, the last" in each], said
        assert [each for each in said if ": 30 records, the last" in each and "no transactional ID is known" in each]
        assert all("orders on lyon, which stands by (the pointer names paris), partition 0" in each for each in said)
        assert len([each for each in writers if each.entity.startswith("producer ID ")]) == 4
        (both,) = of(found, "written-on-both")
        assert (both.severity, both.entity) == (Severity.WARN, TOPIC)
        written = {"paris": night.written - ON_LYON, "lyon": ON_LYON}
        rates = " and ".join(f"{written[alias]:,} on {alias}" for alias in (flow.source, flow.target))
        assert f"records in the last hour: {rates}." in both.evidence, both
    argv = [sys.executable, "-m", "drlib.cli", "doctor", str(night.file), "--runs-dir", str(night.runs_dir)]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)
    text = " ".join(shown.stdout.split())
    assert "no client writes to the cluster that stands by" in text, shown
    assert "orders on lyon, which stands by (the pointer names paris), partition 0: 50 records, the last" in text, shown
    assert "and 2 more, all in --json" in text, "the terminal has the newest three"
    done = subprocess.run([*argv, "--json"], capture_output=True, text=True, timeout=90, check=False)
    rows = [each for one in json.loads(done.stdout) for each in one["findings"] if each["id"] == "standby-writers"]
    assert len(rows) == 10, rows


def test_groups_of_both_sides_have_the_positions_in_status_that_the_doctor_has(night: Night) -> None:
    """The logs differ in order: groups read some records again, and status says how many, not that it is unknown."""
    settings = settings_of(night)
    kinds = []
    for flow in (FLOW, FLOW.reverse):
        chosen = settings.flow(flow.source, flow.target)
        end = night.end(flow.source, TOPIC)
        names = [f"{flow.source}-{back}" for back in range(5, 105, 9)]
        for name in names:
            commit(bootstrap(night, flow.source), name, TOPIC, end - int(name.rpartition("-")[2]))
        observer = FlowObserver(groups=True)
        (survey,) = observer.survey_blocking([(settings, chosen)])
        of_groups = {each.group: each for each in survey.groups or ()}
        expected = {each.group: each for each in translate_groups(settings, flow, names, source_alive=True)}
        for name in names:
            (position,), wanted = of_groups[name].positions, expected[name].translation
            found = position.kind, position.target_offset, position.records
            assert found == (wanted.kind, wanted.offset, wanted.records), name
            assert "unknown" not in standing(of_groups[name])
            kinds.append(position.kind)
        assert not [event for event in survey.events if event.name == "GroupsUnseen"]
        assert "unknown" not in standing(console_group(night, flow, names[-1]))
        (again,) = observer.survey_blocking([(settings, chosen)])
        of_groups_again = {each.group: each.positions for each in again.groups or ()}
        assert [of_groups_again[name] for name in names] == [of_groups[name].positions for name in names]
    assert {*kinds} <= {TranslationKind.EXACT, TranslationKind.BOUNDED}, kinds
    assert TranslationKind.BOUNDED in kinds, "the orders are the same: nothing was to be read again"


def test_positions_without_the_source_are_those_of_the_doctor_too(night: Night) -> None:
    """The last test of these clusters: paris is killed."""
    settings = settings_of(night)
    wait_for(
        "a checkpoint of the position",
        lambda: (
            translate_groups(settings, FLOW, [GROUP], source_alive=False)[0].source_offset
            == translate_groups(settings, FLOW, [GROUP], source_alive=True)[0].source_offset
        ),
        60,
    )
    night.kill_worker()
    night.lab.clusters["paris"].kill()
    (expected,) = translate_groups(settings, FLOW, [GROUP], source_alive=False)
    silent = {"paris": "it was killed"}
    (survey,) = FlowObserver(groups=True).survey_blocking([(settings, settings.flow(*FLOW_NAMES))], silent)
    (of_group,) = [each for each in survey.groups or () if each.group == GROUP]
    (position,) = of_group.positions
    found = position.kind, position.target_offset, position.records
    assert found == (expected.translation.kind, expected.translation.offset, expected.translation.records)
    found_silent = {alias: Unreachable(f"{alias} is silent", why, "Start it.") for alias, why in silent.items()}
    (lost,) = doctor(settings, flow=FLOW, runs=night.runs_dir, silent=found_silent)
    (both,) = of(lost, "written-on-both")
    assert (both.severity, both.evidence) == (Severity.UNKNOWN, "paris does not answer")
    writers = of(lost, "standby-writers")
    assert {each.severity for each in writers} == {Severity.WARN}, "lyon answers, and its journal is there"
