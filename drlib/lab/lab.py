"""A lab: real clusters, the link between them, and the folder that holds both.

Rules: any process that can read `state.json` (0600) can attach; `down` leaves no process and, without `keep`, no data; what
`up` started before it failed is stopped; of two processes that start one at the same moment the second waits, and finds it; a
folder that holds anything else is neither used nor removed.
Not for: what runs on the clusters (`lab.workload`).
Longer than most modules: a lab's life from its start to its end, and what its clients get of it.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Final, Self

import javaproperties
from pydantic import TypeAdapter

from drlib.errors import UsageError
from drlib.files import file_lock, read_json, write_whole
from drlib.lab import jars
from drlib.lab.brokers.broker import BrokerSpec, bootstrap_checkpoint
from drlib.lab.brokers.cluster import Cluster, broker_names, link_names, new_specs
from drlib.lab.brokers.security import ADMIN, DRILL, LabSecurity, Vault, as_state
from drlib.lab.link.remote import LinkProxy
from drlib.lab.processes import ProcessRegistry, ProcessStatus


def replication_factors(brokers: int) -> dict[str, str]:
    """MirrorMaker 2's replication factors for clusters of `brokers` brokers: 3 at most."""
    topics = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    storage = ("offset.storage", "status.storage", "config.storage")
    named = ("replication.factor", *(f"{name}.replication.factor" for name in (*topics, *storage)))
    return dict.fromkeys(named, str(min(3, brokers)))


ONE_BROKER: Final[Mapping[str, str]] = MappingProxyType(replication_factors(1))
STATE_NAME: Final = "state.json"
PROXY: Final = "proxy"  # its name among the processes
_PROXY_STATE: Final = "proxy.json"
_LOG: Final = ".log"
_MARK: Final = ".drlib-lab"  # marks the lab's own folder, which `down` may remove


class Lab:
    """Clusters `aliases` in folder `root`; `extra` is added to every broker's configuration.

    With `security` the listeners of all clusters require TLS, SASL or both, and share one authority and its users.

    A context manager: `with Lab(root) as lab` is up inside and down, data included, after it. With `detach` the
    processes outlive this one (`drlib lab up`); without, the kernel ends them with it. `owner`: who starts it and is to take it
    down; it is kept in `state.json`, so that another process that attaches knows.
    """

    def __init__(
        self,
        root: Path,
        aliases: tuple[str, ...] = ("LEFT", "RIGHT"),
        *,
        brokers: int = 1,
        extra: Mapping[str, str] | None = None,
        security: LabSecurity | None = None,
        detach: bool = False,
        owner: str = "",
        on_event: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.root = root.absolute()
        self.aliases = aliases
        self.owner = owner
        self.registry = ProcessRegistry(self.root)
        self.proxy = LinkProxy(self.root / _PROXY_STATE)
        self._brokers = brokers
        self._extra = dict(extra or {})
        self._security = security
        self._die_with_parent = not detach
        self._on_event = on_event
        self._clusters: dict[str, Cluster] = {}

    @classmethod
    def attach(cls, root: Path, *, on_event: Callable[[str], None] = lambda _: None) -> Self:
        """The lab that another process started in `root`. Processes restarted here outlive this one.

        Raises `UsageError` when there is none.
        """
        state = _read_state(root)
        if state is None:
            raise UsageError(
                "There is no lab", f"{root} holds no {STATE_NAME}", f"Start one: drlib lab up --dir {quote(str(root))}"
            )
        lab = cls(
            root,
            tuple(state.clusters),
            extra=state.extra,
            security=state.security,
            detach=True,
            owner=state.owner,
            on_event=on_event,
        )
        lab._adopt(state.clusters)
        return lab

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """By alias; empty before `up`."""
        return MappingProxyType(self._clusters)

    @classmethod
    def attach_or_up(
        cls,
        root: Path,
        aliases: tuple[str, ...] = ("LEFT", "RIGHT"),
        *,
        needed: Iterable[str] = (),
        extra: Mapping[str, str] | None = None,
        security: LabSecurity | None = None,
        detach: bool = False,
        owner: str = "",
    ) -> tuple[Self, bool]:
        """The lab that runs in `root`, or one with `aliases` and what follows started there, and whether it was now.

        A lab runs while the proxy of its links does: a cluster that a drill killed does not matter, and a worker that outlived
        the process that started the lab is none. Raises `UsageError` when the lab that is there, running or left behind, lacks
        one of the clusters `needed`, or has other security than is asked for, and what `up` raises.
        """
        if root.is_dir():
            with file_lock(root):  # another process may be starting it
                pass
        lab: Self | None = None
        with suppress(UsageError):
            lab = cls.attach(root)
        if lab is not None:  # one that was left behind is started as it was
            lab.require(needed)
            if security is not None and lab._security != security:
                raise UsageError(
                    f"the lab in {lab.root} cannot be used",
                    "its clusters are not secured as they have to be here",
                    f"Take it down (drlib lab down --dir {quote(str(lab.root))}), or name another folder.",
                )
            if lab._runs:
                return lab, False
        started = cls(root, aliases, extra=extra, security=security, detach=detach, owner=owner)
        try:
            return started.up(), True
        except UsageError:
            if not started._runs:
                raise
        return cls.attach_or_up(root, aliases, needed=needed, security=security)  # another process was faster

    def require(self, aliases: Iterable[str]) -> None:
        """Raises `UsageError` when the lab lacks one of the clusters `aliases`."""
        if missing := [alias for alias in aliases if alias not in self._clusters]:
            raise UsageError(
                f"the lab in {self.root} has no cluster {', '.join(missing)}",
                f"it has {', '.join(self._clusters)}",
                f"Take it down (drlib lab down --dir {quote(str(self.root))}), or name another folder.",
            )

    def up(self, *, deadline_s: float = 90.0) -> Self:
        """Start everything and return when every broker serves. Data kept by `down(keep=True)` is used again.

        Raises `MissingDependency` (Java, jars), `UsageError` (already up, no parent folder, or the folder holds other files),
        `BrokerFailed`; what this call started is stopped then.
        """
        jars.java()
        jars.classpath("kafka")
        self._refuse_running()
        self._make_folder()
        with file_lock(self.root):  # of two processes at the same moment one starts it
            self._refuse_running()
            self._claim_folder()
            return self._start(deadline_s)

    def _refuse_running(self) -> None:
        if self._runs:
            raise UsageError(
                "the lab is up already",
                f"processes of {self.root} are alive",
                f"Use it as it is, or first: drlib lab down --dir {quote(str(self.root))}",
            )

    @property
    def _runs(self) -> bool:
        return self.registry.alive(PROXY)

    def _start(self, deadline_s: float) -> Self:
        bootstrap_checkpoint()
        kept = _read_state(self.root)
        for left in self.status():  # started by a process that attached, it outlived the one that started the lab
            self.registry.kill(left.name)
        try:
            self._start_proxy({} if kept is None else _links(kept.clusters))
            if kept is None:
                for name in (name for alias in self.aliases for name in broker_names(alias, self._brokers)):
                    shutil.rmtree(self.root / name, ignore_errors=True)  # of an `up` that failed
                root, ports = str(self.root), self.proxy.ports
                self._adopt({a: new_specs(a, root, ports, self._brokers, self._security) for a in self.aliases})
            else:
                self.aliases = tuple(kept.clusters)
                self._extra = {**kept.extra, **self._extra}
                self._security = kept.security  # clients know the ports of its listeners
                self._adopt(kept.clusters)
            self._publish()
            if (vault := self._vault()) is not None:
                vault.prepare()
            # launched first and awaited in threads, so that they start in parallel
            for cluster in self._clusters.values():
                cluster.launch(self._configuration())
            with ThreadPoolExecutor(len(self._clusters)) as pool:
                for done in [pool.submit(self._await, cluster, deadline_s) for cluster in self._clusters.values()]:
                    done.result()
        except BaseException:
            self.registry.stop_all(deadline_s=1.0)
            if kept is None:  # keep the logs, but leave no lab to attach to
                (self.root / STATE_NAME).unlink(missing_ok=True)
            raise
        return self

    def down(self, *, keep: bool = False, keep_logs: bool = False, deadline_s: float = 10.0) -> None:
        """Stop every registered process and, without `keep`, remove the folder, or all of it but its logs. Safe to repeat."""
        if not keep:  # all others end while brokers and links work; what brokers would save at their own end is removed
            last = {PROXY, *(broker.name for cluster in self._clusters.values() for broker in cluster.brokers)}
            others = [record.name for record in self.registry.records() if record.name not in last]
            self.registry.stop(*others, deadline_s=min(deadline_s, 5.0))
        self.registry.stop_all(deadline_s=deadline_s if keep else 0.0)
        if not keep and (self.root / _MARK).exists():
            if keep_logs:
                _remove_all_but_logs(self.root)
            else:
                shutil.rmtree(self.root, ignore_errors=True)
            self._clusters = {}
        self._on_event("the lab is down")

    def reconfigure(self, alias: str, settings: Mapping[str, str], *, deadline_s: float = 60.0) -> None:
        """Restart the brokers of `alias` with `settings` over their own, which last until the next `up`.

        For settings that a broker reads only at its start. Raises `BrokerFailed`.
        """
        self._clusters[alias].restart({**self._configuration(), **settings}, deadline_s=deadline_s)

    def start_module(self, name: str, module: str, *arguments: str) -> None:
        """Register and start `python -m module`, with its log in the lab's folder. It lives as long as the brokers do."""
        argv = [sys.executable, "-P", "-m", module, *arguments]
        self.registry.start(name, argv, log=self.root / f"{name}.log", die_with_parent=self._die_with_parent)

    def start_program(self, name: str, argv: Sequence[str]) -> None:
        """The same for a program that is not drlib: it gets no variables but those that any program needs."""
        log = self.root / f"{name}.log"
        self.registry.start(name, argv, log=log, die_with_parent=self._die_with_parent, foreign=True)

    def write_properties(
        self, path: Path | None = None, *, topics: str = "flights.*", user: str = "", **overrides: str
    ) -> Path:
        """Write a connect-mirror-maker.properties for first alias -> second over the link, and return where.

        `overrides` are whole keys (`**{"LEFT->RIGHT.topics": "orders"}`); an empty value removes a key. The default
        path is `connect-mirror-maker.properties` in the lab's folder. With `user` it is that user's of a secured lab, without
        the link: an operator's.
        """
        source, target = self.aliases[:2]
        listener = "CLIENT" if user else "LINK"
        wanted = {
            **mirror_properties(source, target, {a: c.at(listener) for a, c in self._clusters.items()}, topics=topics),
            **self.mirror_keys((source, target), listener, user),
            **overrides,
        }
        if wanted.get(f"{target}->{source}.enabled") != "true":  # nothing in a lab reads the source's heartbeats
            wanted.setdefault(f"{target}->{source}.emit.heartbeats.enabled", "false")
        path = path or self.root / "connect-mirror-maker.properties"
        write_whole(path, javaproperties.dumps({key: value for key, value in wanted.items() if value}, timestamp=None))
        return path

    def mirror_keys(self, aliases: Iterable[str], listener: str = "LINK", user: str = "") -> dict[str, str]:
        """The keys of a mirror's file that depend on how the clusters were started: security and replication factors."""
        chosen = [self._clusters[alias] for alias in aliases]
        secured = {
            f"{cluster.alias}.{key}": value
            for cluster in chosen
            for key, value in cluster.settings(listener, user=user).security.items()
        }
        return {**secured, **replication_factors(min(len(cluster.brokers) for cluster in chosen))}

    @property
    def secured(self) -> bool:
        """Whether clients need TLS or a login."""
        return self._security is not None

    @property
    def users(self) -> tuple[str, ...]:
        """The users of clients; none where nothing is secured."""
        return () if self._security is None else self._security.users

    @property
    def operator(self) -> str:
        """The user of drills; "" where all users are one."""
        return "" if self._security is None or not self._security.acls else DRILL

    @property
    def admin(self) -> str:
        """The user who may do everything; "" where all users are one."""
        return "" if self._security is None or not self._security.acls else ADMIN

    def client_file(self, user: str = "") -> Path | None:
        """The properties file of clients that log in as `user`, by default as an application; None where nothing is secured.

        It holds no address and no secret: passwords are references.
        """
        vault = self._vault()
        return None if vault is None else vault.client_file(user or vault.application)

    @property
    def only_logs(self) -> bool:
        """Is what `down(keep_logs=True)` leaves all that there is?"""
        found = [name for _, _, files in os.walk(self.root) for name in files]
        return bool(found) and all(name.endswith(_LOG) for name in found)

    def status(self) -> tuple[ProcessStatus, ...]:
        """Every registered process of the lab, including dead ones."""
        return self.registry.status()

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()

    def _make_folder(self) -> None:
        if not self.root.parent.is_dir():  # most likely a typing error: a lab in an unexpected place would go unnoticed
            raise UsageError(
                f"There is no lab in {self.root}",
                f"no lab is started there because the folder {self.root.parent} does not exist",
                "Correct the path, or create that folder first",
            )
        self.root.mkdir(mode=0o700, exist_ok=True)

    def _claim_folder(self) -> None:
        if (self.root / _MARK).exists():
            return
        others = [path.name for path in self.root.iterdir() if not path.name.startswith("processes.")]
        if others:
            raise UsageError(
                f"{self.root} is not a lab's folder",
                f"it holds {others[0]}, and taking the lab down would remove that",
                "Name a folder that is empty or does not exist",
            )
        with suppress(PermissionError):  # another user's folder, which is that user's to close
            self.root.chmod(0o700)  # it may have been there, open to others
        write_whole(self.root / _MARK, "drlib lab\n")

    def _start_proxy(self, ports: Mapping[str, int]) -> None:
        (self.root / _PROXY_STATE).unlink(missing_ok=True)
        names = [name for alias in self.aliases for name in link_names(alias, self._brokers)]
        links = [f"{name}={port}" for name, port in ports.items()] or names
        argv = [sys.executable, "-P", "-m", "drlib.lab.link.proxy", "--state", str(self.root / _PROXY_STATE), *links]
        log = self.root / "proxy.log"
        # The package may be run from its source tree without being installed.
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.registry.start(PROXY, argv, log=log, env={"PYTHONPATH": path}, die_with_parent=self._die_with_parent)
        self.proxy.wait_ready()

    def _adopt(self, specs: Mapping[str, tuple[BrokerSpec, ...]]) -> None:
        self._clusters = {
            alias: Cluster(those, self.registry, die_with_parent=self._die_with_parent, vault=self._vault())
            for alias, those in specs.items()
        }

    def _vault(self) -> Vault | None:
        return None if self._security is None else Vault(self.root, self._security)

    def _configuration(self) -> dict[str, str]:
        """The configuration of every broker without its addresses."""
        vault = self._vault()
        return {**({} if vault is None else vault.broker_properties()), **self._extra}

    def _publish(self, _: Cluster | None = None) -> None:
        """Write the brokers' addresses to the state file and the proxy."""
        state = {
            "clusters": {a: [asdict(b.spec) for b in cluster.brokers] for a, cluster in self._clusters.items()},
            "extra": self._extra,
            "security": as_state(self._security),
            "owner": self.owner,
        }
        write_whole(self.root / STATE_NAME, json.dumps(state, indent=1))
        for cluster in self._clusters.values():
            for broker in cluster.brokers:
                for name, (_advertised, port) in broker.spec.links.items():
                    self.proxy.target(name, port)

    def _await(self, cluster: Cluster, deadline_s: float) -> None:
        cluster.wait_ready(self._configuration(), deadline_s, on_new_ports=self._publish)
        self._on_event(f"{cluster.alias} serves at {cluster.bootstrap}")


def mirror_properties(source: str, target: str, bootstraps: Mapping[str, str], *, topics: str) -> dict[str, str]:
    """MirrorMaker 2 settings for one flow of a lab, with short intervals."""
    return {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": bootstraps[source],
        f"{target}.bootstrap.servers": bootstraps[target],
        f"{source}->{target}.enabled": "true",
        f"{target}->{source}.enabled": "false",
        "topics": topics,
        "groups": ".*",
        **ONE_BROKER,
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "emit.heartbeats.interval.seconds": "1",
        "sync.group.offsets.enabled": "false",  # a drill translates positions itself, at its own moment
        "drlib.lanes": "2",
    }


def _remove_all_but_logs(root: Path) -> None:
    for data in root.glob("*/data"):  # Kafka's segments have the same ending
        shutil.rmtree(data, ignore_errors=True)
    for folder, folders, files in os.walk(root, topdown=False):
        for name in files:
            if not name.endswith(_LOG):
                with suppress(OSError):
                    os.unlink(Path(folder, name))
        for name in folders:
            with suppress(OSError):  # one with logs is not empty
                os.rmdir(Path(folder, name))


def _links(specs: Mapping[str, tuple[BrokerSpec, ...]]) -> dict[str, int]:
    of_all = (spec.links for those in specs.values() for spec in those)
    return {name: advertised for links in of_all for name, (advertised, _) in links.items()}


@dataclass(frozen=True, slots=True)
class _State:
    """The file of a running lab."""

    clusters: dict[str, tuple[BrokerSpec, ...]]
    extra: dict[str, str]
    security: LabSecurity | None = None
    owner: str = ""


_STATE: Final = TypeAdapter(_State)


def _read_state(root: Path) -> _State | None:
    try:
        return read_json(root / STATE_NAME, _STATE, "Delete it, and start a new lab.")
    except FileNotFoundError:
        return None
