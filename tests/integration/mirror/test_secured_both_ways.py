"""On secured clusters flows that copy topics both ways, each with a user of its own, work with the documented rights alone."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from fix_engine import wait_for
from fix_two_way import IDENTITY

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.readiness.required_rights import required_rights
from drlib.drill.readiness.role import Role
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka, wire_client
from drlib.kafka.admin.descriptions import Range
from drlib.lab.brokers.acls import grant, revoke
from drlib.lab.brokers.security import MODES
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics
from drlib.mirror.preflight.checks import NotAuthorized, Preflight
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status import worker_status
from drlib.model import TopicPartition

CLUSTERS = ("paris", "lyon", "nice")
USERS = ("mirror", "drill", "doctor")  # of the flow from the cluster at the same place
TOPIC = "orders"
PARTITIONS = 2
ONE_FLOW = """
import asyncio, sys
from pathlib import Path
from drlib.config.settings import load_mirror_settings
from drlib.mirror.worker import Reporting, Worker

async def main(file: str, source: str, status: str) -> None:
    settings = load_mirror_settings(file)
    flow = next(each for each in settings.enabled_flows if each.flow.source == source)
    await Worker(settings, [flow], Reporting(Path(status))).run()

asyncio.run(main(*sys.argv[1:]))
"""


@dataclass
class Round:
    """Flows from each cluster to the next one and from the last to the first, by a worker and a user each."""

    lab: Lab
    folder: Path

    def file(self, source: str) -> Path:
        """The file of all flows, with the login of the one from `source`."""
        names = self.lab.aliases
        user = USERS[names.index(source)]
        keys = {
            "clusters": ", ".join(names),
            **{f"{a}->{b}.enabled": "true" for a, b in zip(names, (*names[1:], names[0]), strict=True)},
            "replication.policy.class": IDENTITY,
            "topics": TOPIC,
            "groups": "billing",
            "drlib.lanes": "1",
            "drlib.session.timeout.ms": "3000",
            **{key: each for key, each in self.lab.mirror_keys(names).items() if key.endswith("factor")},
        }
        for name in names:
            settings = self.lab.clusters[name].settings(user=user)
            keys[f"{name}.bootstrap.servers"] = ",".join(settings.bootstrap_servers)
            keys |= {f"{name}.{key}": value for key, value in settings.security.items()}
        path = self.folder / f"{source}.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        return path

    def settings(self, source: str) -> MirrorSettings:
        return load_mirror_settings(self.file(source))

    def rights(self, source: str) -> list[tuple[str, Right]]:
        """What is documented for the flow from `source`, by cluster, one operation each."""
        settings = self.settings(source)
        flow = next(each for each in settings.enabled_flows if each.flow.source == source)
        return [
            (each.alias, replace(each.right, operations=(operation,)))
            for each in required_rights(settings, flow, Role.MIRROR).grants
            if not each.only
            for operation in each.right.operations
        ]

    def allow(self, source: str, rights: Sequence[tuple[str, Right]]) -> None:
        """Let the user of the flow from `source` do this and nothing else, as every broker knows."""
        user = USERS[self.lab.aliases.index(source)]
        for name, cluster in self.lab.clusters.items():
            revoke(cluster, user, [right for alias, right in self.rights(source) if alias == name])
            wanted = [right for alias, right in rights if alias == name]
            grant(cluster, user, wanted)
            every = AclBindingFilter(
                ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
            )  # fmt: skip
            admin, count = AdminClient({**librdkafka(cluster.settings()), "log_level": 0}), len(wanted)

            def done(admin: AdminClient = admin, every: AclBindingFilter = every, count: int = count) -> bool:
                return len(admin.describe_acls(every).result(10)) == count

            wait_for("the ACLs are in effect", done)

    def running(self, source: str) -> bool:
        """Does the worker of this flow copy every partition?"""
        with contextlib.suppress(UsageError):
            (flow,) = worker_status.read(self.folder / f"{source}.json").flows
            copied = [each for each in flow.partitions if each.topic == TOPIC]
            return {lane.state for lane in flow.lanes} == {"running"} and len(copied) == PARTITIONS
        return False

    @contextlib.contextmanager
    def workers(self) -> Iterator[None]:
        running: list[subprocess.Popen[str]] = []
        try:
            for name in self.lab.aliases:
                (self.folder / f"{name}.json").unlink(missing_ok=True)
                arguments = [str(self.file(name)), name, str(self.folder / f"{name}.json")]
                running.append(
                    subprocess.Popen([sys.executable, "-c", ONE_FLOW, *arguments], stderr=subprocess.PIPE, text=True)
                )

            def all_run() -> bool:
                ended = [each for each in running if each.poll() is not None]
                assert not ended, ended[0].communicate()[1]
                return all(map(self.running, self.lab.aliases))

            wait_for("all flows copy", all_run)
            yield
        finally:
            for each in running:
                each.terminate()
            for each in running:
                each.communicate(timeout=60)

    def values(self, name: str) -> list[bytes]:
        """The records that a cluster has."""
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        with Cluster(self.lab.clusters[name].settings()) as cluster:
            ends = cluster.log_ends(partitions)
            return sorted(record.value or b"" for record in cluster.read({p: Range(0, ends[p]) for p in partitions}))

    def wait_for_values(self, name: str, written: list[bytes]) -> None:
        wait_for(f"{name} has all", lambda: len(self.values(name)) >= len(written))
        assert self.values(name) == written  # each record once

    def write(self, what: str) -> list[bytes]:
        """Ten records to each cluster; what they are."""
        for name, cluster in self.lab.clusters.items():
            with acknowledged(cluster) as producer:
                for number in range(10):
                    producer.produce(TOPIC, f"{name} {what} {number}".encode(), partition=number % PARTITIONS)
        return [f"{name} {what} {number}".encode() for name in self.lab.clusters for number in range(10)]

    def refusal(self, source: str) -> NotAuthorized:
        """What is said before the flow from `source` starts."""

        async def check() -> DrlibError | None:
            settings = self.settings(source)
            flow = next(each for each in settings.enabled_flows if each.flow.source == source)
            clusters = [settings.clusters[name] for name in (flow.flow.source, flow.flow.target)]
            clients = [wire_client(each, client_id="check") for each in clusters]
            try:
                await Preflight(flow, clusters[0], clusters[1], clients[0], clients[1], settings.flows).run()
            except DrlibError as error:
                return error
            finally:
                for client in clients:
                    await client.close()
            return None

        error = asyncio.run(check())
        assert isinstance(error, NotAuthorized), error
        return error


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.long)])
def test_each_flow_with_its_documented_rights_copies_every_record_once_and_a_missing_one_is_named(
    count: int, tmp_path: Path
) -> None:
    with Lab(tmp_path / "lab", CLUSTERS[:count], security=MODES["scram"]) as lab:
        flows = Round(lab, tmp_path)
        for cluster in lab.clusters.values():
            create_topics(cluster.settings(), [TopicSpec(TOPIC, PARTITIONS)])
        for name in lab.aliases:
            flows.allow(name, flows.rights(name))
        written: list[bytes] = []
        for what in ("new", "again"):
            with flows.workers():
                written = sorted([*written, *flows.write(what)])
                for name in lab.aliases:
                    flows.wait_for_values(name, written)
            for name in lab.aliases:  # what exists needs no right to create it
                flows.allow(name, [each for each in flows.rights(name) if each[1].operations != ("CREATE",)])

        journal, bootstrap = f"__drlib-journal.{lab.aliases[-1]}.internal", lab.clusters["paris"].bootstrap
        unread = Right("topic", journal, ("READ",))
        flows.allow("paris", [each for each in flows.rights("paris") if each != ("paris", unread)])
        refused = flows.refusal("paris")
        assert f"User:mirror may not READ on topic {journal} of paris" in str(refused)
        assert refused.remedy == (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --command-config paris-admin.properties --add "
            f"--allow-principal User:mirror --operation Read --topic {journal}"
        )
