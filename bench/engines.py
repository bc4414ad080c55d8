"""The engines: how each is configured, started on a site, and stopped.

Rules: every run of an engine has source and target aliases of its own, so its mirror topics, groups and positions are
new; all engines read the same properties except those in `TUNED`; processes are in the lab's registry, so a
benchmark that dies leaves none behind. Not for: measuring.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.mirror_maker import MirrorMaker2
from bench.site import SOURCE, Site, python_path
from bench.workloads import BOTH_WAYS, ONE_WAY, Link, Shape, Workload
from drlib.config.replication_policy import IDENTITY
from drlib.config.settings import load_mirror_settings
from drlib.files import write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import ONE_BROKER
from drlib.mirror.sync.internal_topics import journal_topic
from drlib.model import Flow


class Running(Protocol):
    """An engine that was started."""

    @property
    def pids(self) -> tuple[int, ...]: ...

    @property
    def file(self) -> Path | None:
        """The properties file that drlib's commands can be asked about; None for an engine that they do not know."""
        ...

    def log_tail(self) -> str: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Engine:
    """`markers`: control records it leaves in each mirror partition. `keeps_names`: topics have one name on both clusters.
    `start(site, workload, tag, number)`: one more process of the same run for each `number`."""

    name: str
    title: str
    markers: int
    start: Callable[[Site, Workload, str, int], Running]
    keeps_names: bool = False

    def mirror(self, tag: str, topic: str) -> str:
        """The name on the target of the source's `topic` in the run `tag`."""
        return topic if self.keeps_names else f"{alias(tag)}.{topic}"


def alias(tag: str) -> str:
    """The source's alias in a run, and so the prefix of its mirror topics."""
    return f"{SOURCE}{tag}"


def properties(site: Site, workload: Workload, tag: str, more: Mapping[str, str]) -> dict[str, str]:
    """The file of one run: what a person writes for one flow, on clusters of one broker each.

    `more`: keys of the consumer on the source, the producer on the target, and tasks.max.
    """
    source, target = alias(tag), f"TO{tag}"
    flow = f"{source}->{target}"
    scope = {"consumer": f"{source}.", "producer": f"{target}.", "tasks": f"{flow}."}
    return {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": site.source,
        f"{target}.bootstrap.servers": site.target,
        f"{flow}.enabled": "true",
        f"{target}->{source}.enabled": "false",
        "topics": "bench.*",
        **({"refresh.topics.interval.seconds": "5"} if workload.changing else {}),
        **ONE_BROKER,
        **{scope[key.partition(".")[0]] + key: value for key, value in more.items()},
    }


# -- ours ----------------------------------------------------------------------------------------------------------


@dataclass
class _Workers:
    site: Site
    file: Path
    names: tuple[str, ...]
    pids: tuple[int, ...]
    logs: tuple[Path, ...]

    def log_tail(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self.logs)

    def stop(self) -> None:
        for name in self.names:
            self.site.lab.registry.stop(name, deadline_s=15.0)


More = Callable[[Path, Mapping[str, str], str], Mapping[str, str]]


def _drlib(
    workers: int, profile: Path | None = None, more: More = lambda *_: {}
) -> Callable[[Site, Workload, str, int], Running]:
    """`more(file, entries, tag)`: further entries of `file`, beside `entries`, for the run `tag`."""

    def start(site: Site, workload: Workload, tag: str, first: int) -> Running:
        file = site.root / f"drlib{tag}.properties"
        entries = properties(site, workload, tag, {})
        _write(file, {**entries, **more(file, entries, tag)})
        names, pids, logs = [], [], []
        for number in range(first, first + workers):
            name = f"drlib{tag}-{number}"
            log = site.root / f"{name}.log"
            how = ["-m", "drlib.cli"]
            if profile is not None:
                how = ["-m", "cProfile", "-o", str(profile.with_suffix(f".{number}.prof")), *how]
            argv = [sys.executable, *how, "mirror", str(file)]
            record = site.lab.registry.start(name, argv, log=log, env={"PYTHONPATH": python_path()["PYTHONPATH"]})
            names.append(name)
            pids.append(record.pid)
            logs.append(log)
        return _Workers(site, file, tuple(names), tuple(pids), tuple(logs))

    return start


def drlib(workers: int = 1, profile: Path | None = None) -> Engine:
    """Our engine with its defaults; `profile` is where cProfile writes, one file per worker."""
    return Engine(
        "drlib" if workers == 1 else f"drlib-{workers}",
        "drlib" if workers == 1 else f"drlib, {workers} workers",
        1,
        _drlib(workers, profile),
    )


def same_names(name: str, title: str, *, both_ways: bool) -> Engine:
    """Our engine under IdentityReplicationPolicy, with the flow back enabled or not.

    What is on the source before is its own: the journal of the flow back exists, and is named for that.
    """

    def more(file: Path, entries: Mapping[str, str], tag: str) -> dict[str, str]:
        back = Flow(f"TO{tag}", alias(tag))
        added = {"replication.policy.class": IDENTITY, f"{back}.enabled": str(both_ways).lower()}
        if both_ways:
            _write(file, {**entries, **added})
            settings = load_mirror_settings(file)
            journal = journal_topic(settings.flow(back.source, back.target))
            with Cluster(settings.clusters[back.target]) as source:
                source.create_topic(journal.name, journal.partitions, journal.replication_factor, journal.config)
                found = source.topics([journal.name])[journal.name]
            added[f"{back}.drlib.own.records.journal"] = str(found.topic_id)
        return added

    return Engine(name, title, 1, _drlib(1, more=more), keeps_names=True)


# -- MirrorMaker 2 -------------------------------------------------------------------------------------------------

HEAP: Final = "2g"  # connect-mirror-maker.sh's own default

# Large fetches, full batches, no waiting for them. Tried and no better, or worse: more records per poll, a linger of
# 20 ms, batches of 256 KB, one task, fetches of 16 or 64 MB over the link, larger requests.
# Written under the clusters' names (`A.consumer.`, `B.producer.`): without one MM2 passes them over in silence
# (`MirrorMakerConfig.connectorBaseConfig`).
_FULL_BATCHES: Final = {
    "consumer.fetch.max.bytes": "52428800",
    "consumer.max.partition.fetch.bytes": "8388608",
    "consumer.receive.buffer.bytes": "-1",
    "producer.batch.size": "1000000",
    "producer.linger.ms": "0",
    "producer.buffer.memory": "134217728",
    "producer.max.request.size": "4194304",
    "producer.send.buffer.bytes": "-1",
}
# Connect allows one request under way; more than one keeps the order only with idempotence.
_IN_FLIGHT: Final = {
    "producer.max.in.flight.requests.per.connection": "5",
    "producer.enable.idempotence": "true",
}
_LONG_FETCHES: Final = {
    "consumer.fetch.max.bytes": "33554432",
    "consumer.max.partition.fetch.bytes": "33554432",
}


def tuned(workload: Workload, tasks: int) -> dict[str, str]:
    """MirrorMaker 2's settings at its best for a workload, as far as we found it by trying."""
    found = {"tasks.max": str(tasks), **_FULL_BATCHES, **_IN_FLIGHT}
    if workload.codec != "none":
        found["producer.compression.type"] = workload.codec
    if workload.link is Link.SOURCE:
        found |= _LONG_FETCHES
    return found


@dataclass
class _Mm2:
    process: MirrorMaker2
    pids: tuple[int, ...]
    file: None = None

    def log_tail(self) -> str:
        return self.process.log_tail()

    def stop(self) -> None:
        self.process.kill()  # its order of shutting down is not what is measured


def mm2(name: str, title: str, settings: Callable[[Workload], Mapping[str, str]]) -> Engine:
    """The real MirrorMaker 2, one process with a heap of `HEAP`."""

    def start(site: Site, workload: Workload, tag: str, number: int) -> Running:
        root = site.root / f"mm2{tag}-{number}"
        root.mkdir(mode=0o700)
        more = dict(settings(workload))
        if workload.shape is Shape.TRANSACTIONAL:
            more["consumer.isolation.level"] = "read_committed"  # else it would copy what was aborted
        _write(root / "mm2.properties", properties(site, workload, tag, more))
        process = MirrorMaker2(root, root / "mm2.properties", heap=HEAP)
        process.start()
        return _Mm2(process, (process.pid,) if process.pid else ())

    return Engine(name, title, 0, start)


def _write(path: Path, entries: Mapping[str, str]) -> None:
    from javaproperties import join_key_value

    write_whole(path, "".join(f"{join_key_value(key, value)}\n" for key, value in entries.items()))


ENGINES: Final[Mapping[str, Engine]] = {
    engine.name: engine
    for engine in (
        drlib(),
        drlib(2),
        drlib(4),
        same_names(ONE_WAY, "drlib, same names, one way", both_ways=False),
        same_names(BOTH_WAYS, "drlib, same names, both ways", both_ways=True),
        mm2("mm2", "MM2, defaults", lambda _: {}),
        mm2("mm2-tuned", "MM2, tuned", lambda w: tuned(w, 2)),
        mm2("mm2-tuned-1", "MM2, tuned, 1 task", lambda w: tuned(w, 1)),
    )
}
