"""On secured clusters each role works with exactly the rights that `drlib doctor --rights` prints, and needs every one of them.

One lab; a user of its own for each role. Each case has aliases, topics and groups of its own, so that journals and IDs are new.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)
from deadline import crowding
from fix_engine import wait_for

from drlib import open_drill
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.client.pointer_topic import TOPIC as POINTER
from drlib.client.pointer_topic import publish
from drlib.config.replication_policy import IDENTITY
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.actions.applications.producer_ids import _compare, refuse_by_hand
from drlib.drill.actions.clients.members import members
from drlib.drill.actions.moving.listed_groups import unlisted
from drlib.drill.inventory.left_behind import Stand, compare, unanswered
from drlib.drill.inventory.rules import Kind
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.observe.applications.applications import take_inventory
from drlib.drill.readiness.required_rights import Grant, required_rights
from drlib.drill.readiness.role import Role
from drlib.drill.readiness.score import Finding, Severity
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster as Handle
from drlib.kafka.admin.connect import blocking, librdkafka
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.java_formats.properties import read as read_properties
from drlib.lab.apps import specs
from drlib.lab.brokers.acls import grant, grant_application, revoke
from drlib.lab.brokers.security import MODES
from drlib.lab.lab import Lab
from drlib.lab.processes import wait_until
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics, place_group
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status import worker_status
from drlib.mirror.transactions.transaction_state import TRANSACTIONS_TOPIC
from drlib.model import Flow, TopicPartition
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.journal import JOURNAL

SHARED = ("heartbeats", "drlib.active.internal", "drlib.drills.internal")  # topics whose names no alias is part of
WORKS_S = 12.0
DAY_MS = "86400000"
_tags = itertools.count(1)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("rights") / "lab", ("paris", "lyon"), security=MODES["scram"]) as lab:
        yield lab


@dataclass
class Site:
    """A flow between the lab's clusters under aliases of its own."""

    lab: Lab
    folder: Path
    tag: int
    admins: dict[str, AdminClient] = field(default_factory=dict)

    @property
    def flow(self) -> Flow:
        return Flow(f"p{self.tag}", f"l{self.tag}")

    @property
    def topic(self) -> str:
        return f"orders{self.tag}"

    @property
    def copy(self) -> str:
        return f"{self.flow.source}.{self.topic}"

    @property
    def group(self) -> str:
        return f"billing{self.tag}"

    def file(self, role: Role) -> Path:
        """The flow's file with the login of `role`."""
        keys = {
            "clusters": f"{self.flow.source}, {self.flow.target}",
            f"{self.flow}.enabled": "true",
            "topics": f"{self.topic}.*",
            "groups": self.group,
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "sync.topic.configs.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
            "drlib.lanes": "1",
            "drlib.session.timeout.ms": "3000",
            **{k: v for k, v in self.lab.mirror_keys(self.lab.aliases).items() if k.endswith("factor")},
        }
        for alias, name in zip((self.flow.source, self.flow.target), ("paris", "lyon"), strict=True):
            settings = self.lab.clusters[name].settings(user=role)
            keys[f"{alias}.bootstrap.servers"] = ",".join(settings.bootstrap_servers)
            keys |= {f"{alias}.{key}": value for key, value in settings.security.items()}
        path = self.folder / f"{role}-{self.tag}.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        return path

    @cached_property
    def settings(self) -> MirrorSettings:
        return load_mirror_settings(self.file(Role.MIRROR))

    def required(self, role: Role) -> tuple[Grant, ...]:
        """What every use needs, one operation each."""
        flow = self.settings.flow(self.flow.source, self.flow.target)
        return tuple(
            replace(each, right=replace(each.right, operations=(operation,)))
            for each in required_rights(self.settings, flow, role).grants
            if not each.only
            for operation in each.right.operations
        )

    def name_of(self, alias: str) -> str:
        return "paris" if alias == self.flow.source else "lyon"

    @contextlib.contextmanager
    def granted(self, role: Role, without: Grant | None = None) -> Iterator[None]:
        """The required rights but one."""
        wanted = [each for each in self.required(role) if each != without]
        for each in wanted:
            grant(self.lab.clusters[self.name_of(each.alias)], role, [each.right])
        for name in ("paris", "lyon"):
            count = sum(self.name_of(each.alias) == name for each in wanted)
            wait_for("the ACLs are in effect", lambda name=name, count=count: self._rules(name, role) == count)
        try:
            yield
        finally:
            for each in wanted:
                revoke(self.lab.clusters[self.name_of(each.alias)], role, [each.right])

    def _rules(self, name: str, role: Role) -> int:
        any_rule = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            f"User:{role}",
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return len(self.admin(name).describe_acls(any_rule).result(10))

    def admin(self, name: str) -> AdminClient:
        """Held, as its requests end with it."""
        if name not in self.admins:
            self.admins[name] = AdminClient({**librdkafka(self.lab.clusters[name].settings()), "log_level": 0})
        return self.admins[name]

    def handle(self, name: str) -> Handle:
        return Handle(self.lab.clusters[name].settings())

    def prepare(self) -> None:
        """A topic with records and a group in it; topics of shared names are new."""
        self.forget(*SHARED)
        create_topics(self.lab.clusters["paris"].settings(), [TopicSpec(self.topic, 1)])
        local = TopicSpec(self.topic, 2, {"retention.ms": DAY_MS})  # as the source's will be when the mirror has run
        create_topics(self.lab.clusters["lyon"].settings(), [local])
        with acknowledged(self.lab.clusters["paris"]) as producer:
            for number in range(10):
                producer.produce(self.topic, b"%d" % number)
        place_group(self.lab.clusters["paris"], self.group, {TopicPartition(self.topic, 0): 4})

    def forget(self, *topics: str) -> None:
        for name in ("paris", "lyon"):
            admin = self.admin(name)
            there = [topic for topic in topics if topic in admin.list_topics(timeout=10).topics]
            for done in admin.delete_topics(there).values() if there else ():
                done.result(10)
            wait_for("they are gone", lambda admin=admin: not {*topics} & {*admin.list_topics(timeout=10).topics})

    def end(self, name: str, topic: str) -> int:
        """Records and markers in all partitions of `topic`, 0 where there is none."""
        with self.handle(name) as cluster:
            found = cluster.topics([topic])
            if topic not in found:
                return 0
            partitions = [TopicPartition(topic, number) for number in range(found[topic].partitions)]
            return sum(cluster.log_ends(partitions).values())


@contextlib.contextmanager
def worker(site: Site, file: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    arguments = [str(file or site.file(Role.MIRROR)), "--status", str(site.folder / f"{site.tag}.json")]
    process = subprocess.Popen(
        [sys.executable, "-m", "drlib.cli", "mirror", *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def mirror_fails(site: Site, *, settled: bool = False) -> str:
    """What does not work while the mirror runs, or is reported; "" where everything does. `settled`: what is reported for a
    moment, while its topics are being created, does not count."""
    status = site.folder / f"{site.tag}.json"
    changed = False

    def done() -> list[str]:
        nonlocal changed
        flow, left = site.flow, []
        if site.end("lyon", site.copy) < 10:
            return ["records"]
        if not changed:
            changed = True
            _grow(site)
            _set(site, "retention.ms", DAY_MS)
        with site.handle("lyon") as target:
            left += ["partitions"] * (target.topics([site.copy])[site.copy].partitions != 2)
            left += ["settings"] * (target.topic_config([site.copy])[site.copy].get("retention.ms") != DAY_MS)
        wanted = {
            "lyon": ("heartbeats", f"{flow.source}.heartbeats", f"{flow.source}.checkpoints.internal"),
            "paris": ("heartbeats", f"mm2-offset-syncs.{flow.target}.internal"),
        }
        return left + [
            f"{topic} on {name}" for name, topics in wanted.items() for topic in topics if not site.end(name, topic)
        ]

    def reported() -> str:
        with contextlib.suppress(DrlibError):
            for event in worker_status.read(status).events:
                says = ("authoriz", " may not ", "does not allow")
                if event.resolved_ms is None and any(each in event.detail.lower() for each in says):
                    return f"{event.name}: {event.detail}"
        return ""

    with worker(site) as process:
        wait_until(
            lambda: (
                process.poll() is not None
                or (bool(reported()) and not settled)
                or (not done() and not (settled and reported()))
            ),
            (60 if settled else WORKS_S) * crowding(),
        )
        if process.poll() is not None:
            return process.stderr.read() if process.stderr else "it ended"
        return reported() or ", ".join(done())


def _grow(site: Site) -> None:
    for asked in site.admin("paris").create_partitions([NewPartitions(site.topic, 2)]).values():
        asked.result(10)


def _set(site: Site, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, site.topic, incremental_configs=[entry])
    for asked in site.admin("paris").incremental_alter_configs([wanted]).values():
        asked.result(10)


def findings(site: Site) -> frozenset[tuple[str, str, str]]:
    (readiness,) = doctor(load_mirror_settings(site.file(Role.DOCTOR)), runs=site.folder)
    return frozenset((each.check, each.entity, each.severity.name) for each in readiness.findings)


def runbook(site: Site, name: str, mode: str, steps: Sequence[dict[str, object]]) -> Path:
    document = {"name": name, "title": name, "notebook": "n.ipynb"}
    drill = {"flow": str(site.flow), "mode": mode, "steps": list(steps)}
    (site.folder / "n.ipynb").write_text("{}")
    path = site.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**document, "drill": drill}))
    return path


def drills_fail(site: Site, *, pointer: bool = False) -> str:
    """Why a rehearsal or an emergency as far as the pointer's move does not succeed; "" where both do.

    `pointer`: there is one on both clusters, which has to be read; else its topic has to be created.
    """
    site.forget(*SHARED[1:])
    if pointer:
        both = {site.flow.source: "paris", site.flow.target: "lyon"}
        clusters = [replace(site.lab.clusters[name].settings(), alias=alias) for alias, name in both.items()]
        published = publish(clusters, Pointer(1, site.flow.source, site.lab.clusters["paris"].bootstrap))
        assert not published.missing
    with contextlib.suppress(KafkaException):
        site.admin("lyon").delete_consumer_groups([site.group])[site.group].result(10)
    groups = [site.group]
    rehearsal: list[dict[str, object]] = [
        {
            "name": "decide",
            "title": "d",
            "action": "failover.triage",
            "arguments": {"expect": "serving"},
            "danger": "none",
        },
        {"name": "shadow", "title": "s", "action": "groups.shadow", "arguments": {"groups": groups}},
        {"name": "read", "title": "r", "action": "canary.read", "arguments": {"records": 3}, "danger": "none"},
    ]
    emergency: list[dict[str, object]] = [
        {
            "name": "decide",
            "title": "d",
            "action": "failover.triage",
            "arguments": {"force_reason": "t"},
            "danger": "none",
        },
        {"name": "fence", "title": "f", "action": "source.fence"},
        {"name": "translate", "title": "t", "action": "groups.translate", "arguments": {"groups": groups}},
        {"name": "move", "title": "m", "action": "pointer.move"},
    ]
    serial = next(_tags)
    for name, mode, steps in (("rehearse", "practice", rehearsal), ("emergency", "emergency", emergency)):
        place = site.folder / f"{name}-{serial}"
        try:
            with open_drill(runbook(site, name, mode, steps), place, properties=site.file(Role.DRILL)) as drill:
                drill.finish()
        except DrlibError as error:
            if "not measured" in str(error):  # an objective of what no application did here
                continue
            return f"{name}: {error}"
        for line in journal.read(place / JOURNAL):  # copies of the pointer that may not be read or written
            said = f"{line.data.get('not_told', '')} {line.data.get('not_read', '')}"
            if "authoriz" in said.lower():
                return f"{name}: {said}"
    return ""


@pytest.fixture
def site(secured: Lab, tmp_path: Path) -> Site:
    made = Site(secured, tmp_path, next(_tags))
    made.prepare()
    return made


def test_roles_with_exactly_the_printed_rights_work(site: Site) -> None:
    with site.granted(Role.MIRROR):
        assert mirror_fails(site, settled=True) == ""
        with site.granted(Role.DOCTOR), site.granted(Role.DRILL), worker(site):
            wait_for("the doctor finds nothing wrong", lambda: not unwell(site))
            assert drills_fail(site) == ""


@pytest.mark.long
def test_doctor_advises_to_grant_the_state_of_transactions_until_it_is_granted(site: Site) -> None:
    def advice() -> list[Finding]:
        (readiness,) = doctor(load_mirror_settings(site.file(Role.MIRROR)), runs=site.folder)
        return [each for each in readiness.findings if each.severity is Severity.ADVICE]

    right = Right("topic", TRANSACTIONS_TOPIC, ("READ",))
    with site.granted(Role.MIRROR):
        (found,) = advice()
        assert (found.check, found.entity) == ("rights", TRANSACTIONS_TOPIC)
        assert "transactions.list determines few of them" in found.evidence
        assert found.fix.startswith("kafka-acls.sh")
        assert "--operation Read --topic __transaction_state" in found.fix
        grant(site.lab.clusters["paris"], Role.MIRROR, [right])
        try:
            wait_for("it is granted", lambda: not advice())
        finally:
            revoke(site.lab.clusters["paris"], Role.MIRROR, [right])


def test_producers_in_a_topic_that_may_not_be_described_are_not_taken_for_none(site: Site) -> None:
    create_topics(site.lab.clusters["lyon"].settings(), [TopicSpec(site.copy, 1)])
    producer = Producer(
        {**librdkafka(site.lab.clusters["paris"].settings()), "enable.idempotence": True, "log_level": 0}
    )
    producer.produce(site.topic, b"x", partition=0)
    assert producer.flush(30) == 0
    settings = load_mirror_settings(site.file(Role.DOCTOR))
    with site.granted(Role.DOCTOR):
        assert " on 1 partitions is another producer's" in refuse_by_hand(settings, site.flow, allowed=False)
    for alias in (site.flow.source, site.flow.target):
        (without,) = (
            each
            for each in site.required(Role.DOCTOR)
            if (each.alias, each.right.kind, each.right.operations) == (alias, "topic", ("READ",))
            and each.right.name.startswith(site.topic)
        )
        with site.granted(Role.DOCTOR, without):
            found = refuse_by_hand(settings, site.flow, allowed=False)
        assert f"{site.topic} was not checked: {alias} does not describe it to this user: TOPIC_AUTHORIZ" in found


def test_lanes_of_the_flow_back_are_no_clients_although_their_transactional_ids_may_not_be_described(
    site: Site,
) -> None:
    """Under identical names they write to the topics whose producers are asked for."""
    source, target = site.flow.source, site.flow.target
    both_ways = f"replication.policy.class = {IDENTITY}\n{target}->{source}.enabled = true\n"
    files = {role: site.file(role) for role in (Role.MIRROR, Role.DOCTOR)}
    admin = site.folder / "admin.properties"
    lines = [
        line
        for line in files[Role.MIRROR].read_text().splitlines()
        if not line.startswith((f"{source}.", f"{target}."))
    ]
    for alias in (source, target):
        super_user = site.lab.clusters[site.name_of(alias)].settings()
        lines.append(f"{alias}.bootstrap.servers = {','.join(super_user.bootstrap_servers)}")
        lines += [f"{alias}.{key} = {value}" for key, value in super_user.security.items()]
    admin.write_text("\n".join(lines) + f"\n{both_ways}")
    files[Role.DOCTOR].write_text(files[Role.DOCTOR].read_text() + both_ways)
    settings = load_mirror_settings(files[Role.DOCTOR])
    flow = settings.flow(source, target)
    before = site.end("paris", site.topic)
    with worker(site, admin):
        wait_for("the flow is mirrored", lambda: site.end("lyon", site.topic) >= before)
        producer = Producer(
            {**librdkafka(site.lab.clusters["lyon"].settings()), "enable.idempotence": False, "log_level": 0}
        )
        producer.produce(site.topic, b"x", partition=0)
        assert producer.flush(30) == 0
        wait_for("and back", lambda: site.end("paris", site.topic) > before + 1)
        journal_of_back = Right("topic", flow.policy.journal_topic(target), ("READ",))
        with site.granted(Role.DOCTOR):
            grant(site.lab.clusters["paris"], Role.DOCTOR, [journal_of_back])
            try:
                seen, _ = take_inventory(settings, [flow], only=[source])
                compared = blocking(_compare(settings, site.flow, planned=True))
            finally:
                revoke(site.lab.clusters["paris"], Role.DOCTOR, [journal_of_back])
    assert [each.name for each in seen.applications if each.kind is Kind.TRANSACTIONAL] == []
    assert (compared.producers, compared.missing) == (1, ())  # of the records that were there before


def test_groups_that_may_not_be_described_are_neither_gone_nor_none(site: Site) -> None:
    paris, hidden = site.lab.clusters["paris"], f"hidden{site.tag}"
    place_group(paris, hidden, {TopicPartition(site.topic, 0): 1})
    settings, alias = load_mirror_settings(site.file(Role.DOCTOR)), site.flow.source
    flows = [settings.flow(alias, site.flow.target)]
    with site.granted(Role.DOCTOR):
        before, _ = take_inventory(settings, flows, only=[alias])
    assert not unanswered(before, alias)
    assert {site.group, hidden} <= {each.name for each in before.applications}
    (without,) = (
        each
        for each in site.required(Role.DOCTOR)
        if (each.alias, each.right.kind, each.right.operations) == (alias, "cluster", ("DESCRIBE",))
    )
    with site.granted(Role.DOCTOR, without):
        now, _ = take_inventory(settings, flows, only=[alias])
        user = replace(paris.settings(user=Role.DOCTOR), alias=alias)
        with (
            Handle(user) as cluster,
            pytest.raises(ClusterRefused, match="it lists only groups that this user may descr"),
        ):
            members(cluster)
        with Handle(user) as cluster:
            (condition,) = unlisted(cluster)
    with site.granted(Role.DOCTOR), Handle(user) as cluster:
        assert unlisted(cluster) == ()
    assert condition.verdict is Verdict.CONDITIONS
    assert hidden not in {each.name for each in now.applications}
    assert unanswered(now, alias)[0].startswith(f"groups: {alias} lists only those that this user may describe")
    moved = compare(before.applications, now, alias, 0, 1)
    assert {each.application.name: each.stand for each in moved}[hidden] is Stand.NOT_KNOWN


def test_application_with_exactly_its_rights_follows_the_pointer_and_writes_to_no_topic_of_drlib(
    secured: Lab, tmp_path: Path
) -> None:
    lyon = secured.clusters["lyon"]
    grant_application(lyon)
    create_topics(lyon.settings(), [TopicSpec("flights", 2), TopicSpec("drlib.test", 1)])
    pointer = tmp_path / "pointer.json"
    pointer_file.write_atomic(pointer, Pointer(1, "lyon", lyon.bootstrap))
    running = LabApplications(secured, tmp_path / "history")
    paths = ("flights", "arrivals")
    history, status = ([str(path(name)) for name in paths] for path in (running.history_path, running.status_path))
    running.start("flights", specs.ProducerSpec(str(pointer), history[0], records_per_second=200.0, status=status[0]))
    running.start("arrivals", specs.ConsumerSpec(str(pointer), history[1], "arrivals", status=status[1]))
    try:
        for name in paths:
            wait_for(f"{name} works", lambda name=name: running.done(name) > 50)
        words = [entry.value for entry in read_properties(secured.root / "passwords.properties").effective().values()]
        shown = [
            path.read_bytes().decode(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()
        ]
        shown += [running.spec_path(name).read_text() for name in paths]
        shown += [path.read_text() for path in (secured.root / "clients").iterdir()]
        assert not [word for word in words for text in shown if word in text]
    finally:
        running.stop(*paths)
    refused: list[KafkaError | None] = []
    producer = Producer({**librdkafka(lyon.settings(user="application")), "log_level": 0})
    producer.produce("drlib.test", b"x", on_delivery=lambda error, _: refused.append(error))
    producer.flush(30)
    assert [error.code() for error in refused if error is not None] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def unwell(site: Site) -> set[tuple[str, str, str]]:
    """Findings other than those of a worker without a metrics address and of drills that never ran."""
    return {
        each for each in findings(site) if each[2] not in ("OK", "ADVICE") and each[0] not in ("events", "drill-age")
    }


@pytest.mark.long
def test_mirror_without_any_single_right_fails_or_reports_it(secured: Lab, tmp_path: Path) -> None:
    count = len(Site(secured, tmp_path, 0).required(Role.MIRROR))
    needless = []
    for number in range(count):
        site = Site(secured, tmp_path, next(_tags))
        site.prepare()
        without = site.required(Role.MIRROR)[number]
        with site.granted(Role.MIRROR, without):
            if not mirror_fails(site):
                needless.append(str(without))
    assert count > 15
    assert not needless


@pytest.mark.long
def test_doctor_and_drill_without_any_single_right_fail_or_report_it(site: Site) -> None:
    needless = []
    with site.granted(Role.MIRROR):
        assert mirror_fails(site) == ""
        with worker(site):
            with site.granted(Role.DOCTOR):
                wait_for("the doctor finds nothing wrong", lambda: not unwell(site))
                well = findings(site)
            for without in site.required(Role.DOCTOR):
                with site.granted(Role.DOCTOR, without):
                    if findings(site) == well:
                        needless.append(f"doctor: {without}")
            shared = {*site.required(Role.DOCTOR)}  # for the gate, which is open without some of them
            for without in (each for each in site.required(Role.DRILL) if each not in shared):
                with site.granted(Role.DRILL, without):
                    creates = without.right.operations == ("CREATE",)
                    if not drills_fail(site, pointer=without.right.name == POINTER and not creates):
                        needless.append(f"drill: {without}")
    assert not needless
