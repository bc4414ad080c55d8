"""The secured lab of a lesson: clusters paris and lyon, a properties file and rights for each role, a worker, drlib's commands.

Rules: the worker and the commands log in as their roles, with the rights that `drlib doctor --rights` prints, and no others.
A command is a process of the lab with its output in a file, so that a restarted kernel finds it again, and it ends with the
lab. Kafka's own tools log in as the lab's admin.
Not for: what a lesson teaches.
"""

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.states import DrillState, unfinished
from drlib.drill.readiness.role import Role
from drlib.drill.session.declare_serving import declare_serving
from drlib.drill.session.unfinished_runs import read_state
from drlib.drill.testbed.lab_roles import grant_roles
from drlib.errors import UsageError
from drlib.files import read_stored
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import jars
from drlib.lab.brokers.acls import grant_application
from drlib.lab.brokers.security import MODES
from drlib.lab.clients.runtimes import JVM
from drlib.lab.workload.mirrors import MirrorWorker
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow, TopicPartition
from drlib.outgoing.environment import child_environment
from drlib.training.academy.testbed import WORKER, LessonLab, LessonTestbed

FLOW: Final = Flow("paris", "lyon")
SECURED: Final = LessonLab(FLOW, "-secured", MODES["scram"])
COMMAND_S: Final = 180.0
_TOOL_S: Final = 60.0
_STOP_S: Final = 20.0
_ACLS: Final = "kafka-acls.sh"
_DOCUMENT: Final[TypeAdapter[Mapping[str, object]]] = TypeAdapter(Mapping[str, object])


@dataclass(frozen=True, slots=True)
class SecuredTestbed(LessonTestbed):
    """`LessonTestbed` for the flow paris -> lyon."""

    @property
    def file(self) -> Path:
        """The operator's properties file."""
        return self.role_file(Role.DRILL)

    @property
    def worker(self) -> MirrorWorker:
        name = f"{WORKER}{self.prefix}mirror"
        return MirrorWorker(self.lab, name, self.role_file(Role.MIRROR), self.lab.root / f"{name}.status.json")

    @property
    def workers(self) -> tuple[str, ...]:
        return (self.worker.name,)

    @property
    def runbooks(self) -> Path:
        """The folder of the learner's own runbooks."""
        return self.lab.root / f"{WORKER}{self.prefix}runbooks"

    @property
    def runs_dir(self) -> Path:
        return self.lab.root / f"{WORKER}{self.prefix}runs"

    def copy(self, topic: str, flow: Flow = FLOW) -> str:
        return LessonTestbed.copy(self, topic, flow)  # `super()` does not know a dataclass with slots

    def role_file(self, role: Role) -> Path:
        return self.lab.root / f"{WORKER}{self.prefix}{role}.properties"

    def prepare_users(self) -> None:
        """Write each role's file, and grant its rights; let applications use all topics. Repeating it changes nothing."""
        for user in self.lab.users:
            self.lab.client_file(user)
        keys = {
            "groups": f"{self.prefix}.*",
            "drlib.metrics.address": "127.0.0.1:0",
            "drlib.session.timeout.ms": "6000",
        }
        files = {role: self.role_file(role) for role in Role}
        for role, file in files.items():
            self.lab.write_properties(file, topics=f"{self.prefix}.*", user=role, **keys)
        grant_roles(files, FLOW, self.lab.clusters)
        for cluster in self.lab.clusters.values():
            grant_application(cluster)

    def begin_flow(self) -> None:
        """Declare that paris serves, if an attempt before has moved its applications."""
        if self.state().state is not DrillState.READY:
            declare_serving(self._lyon, FLOW, FLOW.source)

    def state(self) -> LeaseRecord:
        """What lyon knows of the flow's drills."""
        return read_state(self._lyon, FLOW)

    def start_mirror(self, flow: Flow = FLOW) -> None:
        """Start the worker, as the user of its role, and wait until all lanes run."""
        self.worker.launch()
        self.wait("the worker mirrors paris->lyon", self._mirrors)

    def stop_mirror(self, flow: Flow = FLOW) -> None:
        self.worker.stop()

    def open_events(self) -> frozenset[str]:
        """The names of the events that the worker reports as open."""
        status = self.worker.status()
        return frozenset(event.name for event in (status.events if status else ()) if event.resolved_ms is None)

    def known_on_lyon(self, group: str, partition: TopicPartition) -> int:
        """The offset on paris of the group's newest checkpoint; 0 before the first."""
        known = checkpointed_positions(self.settings, FLOW).get((group, partition))
        return 0 if known is None else known.offset

    def run(self, name: str, *arguments: str) -> str:
        """Run a `drlib` command to its end, or wait for the one of that name which runs; returns what it has printed."""
        self.launch(name, *arguments)
        self.wait(f"drlib {arguments[0]} ends", lambda: not self.runs(name), COMMAND_S)
        return self.output(name)

    def launch(self, name: str, *arguments: str) -> None:
        """Start a `drlib` command unless the one of that name runs."""
        if not self.runs(name):
            self._log(name).unlink(missing_ok=True)
            self.lab.start_module(self._process(name), "drlib.cli", *arguments)

    def runs(self, name: str) -> bool:
        return self.lab.registry.alive(self._process(name))

    def output(self, name: str) -> str:
        """What the command of that name has printed so far, both outputs; empty if there was none."""
        with suppress(FileNotFoundError):
            return read_stored(self._log(name)).decode(errors="replace")
        return ""

    def documents(self, name: str) -> Iterator[Mapping[str, object]]:
        """The JSON documents of a command with `--json` as they come, until it has ended."""
        seen = 0
        ended = False
        while not ended:
            ended = not self.runs(name)
            lines = [line for line in self.output(name).splitlines(keepends=True) if line.endswith("\n")]
            for line in lines[seen:]:
                with suppress(Undecodable):  # what it says of its progress is in the same file
                    yield decoding.json_as(_DOCUMENT, line.encode())
            seen = len(lines)
            self.abort.wait(0.0 if ended else 0.1)

    def stop_everything(self) -> None:
        """Stop this attempt's commands, applications and worker."""
        for process in self.lab.status():
            if process.alive and process.name.startswith(self._process("")):
                self.lab.registry.stop(process.name, deadline_s=_STOP_S)

    def supersede(self) -> tuple[str, ...]:
        """The option that gives up a run that was left unfinished; none where there is no such run."""
        record = self.state()
        return ("--supersede", record.run) if unfinished(record.state) and record.run else ()

    def kafka_acls(self, alias: str, command: str) -> str:
        """Run Kafka's `kafka-acls.sh` on a cluster, with a command as drlib prints it; returns what it prints.

        Raises `UsageError` for another program, or where the tool fails.
        """
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError("this is no command", str(error), f"Give a line that begins with {_ACLS}.") from None
        if words[:1] != [_ACLS]:
            raise UsageError(
                "this is no command of kafka-acls.sh", f"it begins with {command[:20]!r}", f"Begin with {_ACLS}."
            )
        options = list(_without(words[1:], "--bootstrap-server", "--command-config"))
        login = ["--bootstrap-server", self.lab.clusters[alias].bootstrap]
        login += ["--command-config", str(self.lab.client_file(self.lab.admin))]
        classpath = os.pathsep.join(map(str, jars.classpath("kafka")))
        argv = [str(jars.java().path), *JVM, "-cp", classpath, "org.apache.kafka.tools.AclCommand", *login, *options]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_TOOL_S, check=False, env=child_environment()
        )
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[0]
            raise UsageError(f"{_ACLS} failed on {alias}", last, "Correct the command, and run it again.")
        return done.stdout.strip()

    @property
    def _lyon(self) -> ClusterSettings:
        return self.lab.clusters[FLOW.target].settings()

    def _mirrors(self) -> bool:
        status = self.worker.status()
        flows = () if status is None or status.state != "running" else status.flows
        return bool(flows) and all(lane.state == "running" for flow in flows for lane in flow.lanes)

    def _process(self, name: str) -> str:
        return f"{WORKER}{self.prefix}{name}"

    def _log(self, name: str) -> Path:
        return self.lab.root / f"{self._process(name)}.log"


def _without(words: list[str], *options: str) -> Iterator[str]:
    """The words without these options and the values behind them."""
    skipped = False
    for word in words:
        if skipped or word in options:
            skipped = not skipped
        else:
            yield word
