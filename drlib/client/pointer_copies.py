"""Every copy of the pointer beside the others: the topic on each cluster and, where applications follow one, a file.

Rules: each application's pointer, and that of all of them (`*`), is compared by itself over all places, unless a newer pointer
for all has replaced it. A place that does not answer may have a newer pointer, so that copies are said to agree only when every
place answered. A repair writes the newest pointer of an application, with its version, to places that miss it or have an
older one, and decides nothing: of two pointers with one version a person chooses by a move, which gets a version above every
other. Where no topic has a pointer, a file is the only place; a topic that cannot be read may have one.
Not for: following changes (`pointer_watch`, `pointer_file.PointerWatcher`); groups, which a drill translates before it moves.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from drlib.client import pointer_file
from drlib.client.history.entries import History, Past, readable
from drlib.client.pointer import OPEN, Pointer, PointerConflict, compact, document, newest
from drlib.client.pointer_topic import EVERYONE, TOPIC, Held, ask_each, publish, read_topic
from drlib.config.both_ways.shared_topics import shared_between
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault
from drlib.model import Flow, TopicPartition

READ_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Copy:
    """What one place holds for one application. `at_ms`: when it was written there. `problem`: why it is no pointer; `claimed`:
    the version that it names then, as far as one can be found."""

    pointer: Pointer | None
    at_ms: int | None
    problem: str = ""
    claimed: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """`was` was written, first at its time; `places` have it now."""

    was: Past
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PointerCopies:
    """`held` is by place (a cluster's alias, or the path of a file), then by application; `silent` has the places that gave
    no answer, and why. `topics`: the aliases whose topic counts as a place; where only a file is followed, those in `silent`.
    `past`: earlier pointers, by alias; a file has none."""

    held: Mapping[str, Mapping[str, Copy]]
    silent: Mapping[str, str]
    topics: tuple[str, ...]
    file: Path | None = None
    past: Mapping[str, History] = field(default_factory=dict)

    @property
    def applications(self) -> tuple[str, ...]:
        """Those that have a pointer anywhere, `*` first."""
        names = {name for copies in self.held.values() for name in copies}
        return tuple(sorted(names, key=lambda name: (name != EVERYONE, name)))

    def newest(self, application: str) -> Pointer | None:
        """The newest pointer written for exactly this application. Raises `PointerConflict`."""
        return newest(self._pointers(application))

    def effective(self, application: str) -> Pointer | None:
        """The pointer that the application follows: its own or that of all, whichever is newer. Raises `PointerConflict`."""
        return newest([*self._pointers(application), *(self._pointers(EVERYONE) if application != EVERYONE else ())])

    def undisputed(self, application: str) -> Pointer | None:
        """The same; None where two are in conflict."""
        try:
            return self.effective(application)
        except PointerConflict:
            return None

    def replaced(self, application: str) -> bool:
        """Has the pointer of all applications replaced this one's own?"""
        own, common = self._version(application), self._version(EVERYONE)
        return application != EVERYONE and own is not None and common is not None and common > own

    def differing(self, application: str) -> dict[str, str]:
        """The places that answered and do not hold the newest pointer of this application, and how they differ."""
        version = self._version(application)
        if self.replaced(application):
            return {}
        try:
            wanted = self.newest(application)
        except PointerConflict:
            wanted = None
        found = {}
        for place, copies in self.held.items():
            copy = copies.get(application)
            if copy is None:
                found[place] = "missing"
            elif copy.pointer is None:
                found[place] = f"not a pointer: {copy.problem}"
            elif version is not None and copy.pointer.version < version:
                found[place] = f"older: version {copy.pointer.version}, the newest is {version}"
            elif wanted is None:
                found[place] = f"conflict: another place has another pointer of version {version}"
        return found

    def written_ms(self, application: str) -> int | None:
        """When the newest pointer was first written: the earliest time of its copies."""
        version = self._version(application)
        copies = [c[application] for c in self.held.values() if application in c]
        return min(
            (c.at_ms for c in copies if c.pointer is not None and c.pointer.version == version and c.at_ms is not None),
            default=None,
        )

    def moves(self, application: str) -> list[Move]:
        """The pointers of the application and of all, newest first, those that are still there among them; holds are left out.

        With `EVERYONE` those of every application. Of two different ones with one version both are there.
        """
        held = [
            (place, Past(name, copy.pointer, copy.at_ms or 0))
            for place, copies in self.held.items()
            for name, copy in copies.items()
            if copy.pointer is not None and not copy.pointer.hold
        ]
        kept = [(place, past) for place, history in self.past.items() for past in readable(history)]
        found: dict[tuple[str, bytes], dict[str, Past]] = {}
        for place, past in [*kept, *held]:
            if application in (EVERYONE, past.application) or past.application == EVERYONE:
                same = (past.key, compact(document(replace(past.pointer, by=""))))
                found.setdefault(same, {}).setdefault(place, past)
        moves = [Move(min(at.values(), key=lambda past: past.written_ms), tuple(at)) for at in found.values()]
        return sorted(moves, key=lambda each: (each.was.pointer.version, each.was.key, each.places), reverse=True)

    @property
    def unreadable(self) -> list[str]:
        """Why entries of the history cannot be read."""
        return [
            f"{e.what}: {e.why}"
            for history in self.past.values()
            for e in history.values()
            if isinstance(e, UsageError)
        ]

    @property
    def agree(self) -> bool:
        """Did every place answer, with the newest pointer of every application, at least one?"""
        return bool(self.applications) and not self.silent and not any(map(self.differing, self.applications))

    @property
    def next_version(self) -> int:
        """A version above every pointer that was read, of any application."""
        copies = [copy for held in self.held.values() for copy in held.values()]
        return 1 + max((c.claimed if c.pointer is None else c.pointer.version for c in copies), default=0)

    def _pointers(self, application: str) -> list[Pointer]:
        copies = [held[application] for held in self.held.values() if application in held]
        return [copy.pointer for copy in copies if copy.pointer is not None]

    def _version(self, application: str) -> int | None:
        return max((pointer.version for pointer in self._pointers(application)), default=None)


@dataclass(frozen=True, slots=True)
class Written:
    """`where`: the places that hold `pointer` now; `missing`: why the others do not."""

    pointer: Pointer
    where: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)


def read_copies(
    clusters: Sequence[ClusterSettings],
    file: Path | None = None,
    *,
    application: str = EVERYONE,
    topic: str = TOPIC,
) -> PointerCopies:
    """Read every copy; `file` counts as the pointer that `application` follows. Raises `Unreachable` when nothing was read."""
    found, errors = ask_each(clusters, lambda cluster: read_topic(cluster, topic, READ_S))
    answers = {alias: _copies(held) for alias, held in found.items()}
    past = {alias: held.history for alias, held in found.items()}
    silent = {alias: f"{error.what}: {error.why}" for alias, error in errors.items()}
    if file is None:
        if not answers:
            raise Unreachable(
                "the pointer cannot be read",
                "; ".join(f"{a}: {why}" for a, why in silent.items()),
                " ".join(dict.fromkeys(error.remedy for error in errors.values())),
            )
        return PointerCopies(answers, silent, tuple(cluster.alias for cluster in clusters), past=past)
    in_topics = {name for held in answers.values() for name in held}
    of_file = {str(file): _read_file(file, EVERYONE if in_topics and application not in in_topics else application)}
    if in_topics:
        return PointerCopies({**answers, **of_file}, silent, tuple(cluster.alias for cluster in clusters), file, past)
    return PointerCopies(of_file, silent, tuple(silent), file)


def repair(
    clusters: Sequence[ClusterSettings], copies: PointerCopies, application: str, *, topic: str = TOPIC
) -> Written | None:
    """Write the newest pointer of `application` to every place that does not hold it; None when there is none to write.

    Raises `PointerConflict` when two pointers have the newest version, or another writer was first.
    """
    pointer = copies.newest(application)
    if pointer is None or copies.replaced(application):
        return None
    return _write(clusters, copies, pointer, application, topic, repairing=True)


def move(
    clusters: Sequence[ClusterSettings],
    copies: PointerCopies,
    pointer: Pointer,
    application: str,
    *,
    topic: str = TOPIC,
) -> Written:
    """Write `pointer`, whose version is `copies.next_version`, to every place. Raises `PointerConflict`, `Unreachable`."""
    return _write(clusters, copies, pointer, application, topic, repairing=False)


def moved_pointer(
    settings: MirrorSettings, flow: Flow, target: ClusterSettings, version: int, *, cutover: bool = True
) -> Pointer:
    """The pointer that names the flow's target: the remote topics up to where they end now, then the local ones.

    Of topics that both directions copy it has where these end now, and readers have nothing to wait for. Without `cutover`
    the target is not asked, and no topic has an end; a partition without a leader has none yet (`OPEN`). Raises `Unreachable`,
    `UsageError` for a flow that the file does not have.
    """
    bootstrap = ",".join(target.bootstrap_servers)
    prefix = settings.flow(flow.source, flow.target).policy.remote_prefix(flow.source)
    ended = topics_with_ends(settings, flow)
    if ended is None or not cutover:
        return Pointer(version, flow.target, bootstrap, prefix or None)
    with Cluster(target) as cluster:
        remote = {name: topic.partitions for name, topic in cluster.topics().items() if ended(name)}
        led = cluster.led(TopicPartition(name, n) for name, count in remote.items() for n in range(count))
        ends = cluster.log_ends(partition for partition, is_led in led.items() if is_led)
    by_topic = {
        name: tuple(ends.get(TopicPartition(name, n), OPEN) for n in range(remote[name])) for name in sorted(remote)
    }
    return Pointer(version, flow.target, bootstrap, prefix or None, by_topic)


def topics_with_ends(settings: MirrorSettings, flow: Flow) -> Callable[[str], bool] | None:
    """Of which topics on the flow's target a moved pointer has the ends: remote ones, and those that both directions copy.

    None where it has none, as of topics that one direction copies under their own names: there is one topic for records from
    before and after the move, and no way back that would ask where it was.
    """
    policy, shared = settings.flow(flow.source, flow.target).policy, shared_between(settings, flow)
    prefix = policy.remote_prefix(flow.source)
    if not prefix and shared is None:
        return None

    def ended(name: str) -> bool:
        return (
            (policy.source_of(name) == flow.source if shared is None else shared(name))
            and name.startswith(prefix)
            and not policy.is_internal(name)
            and not policy.is_heartbeats(name)
        )

    return ended


def refuse_unknown(settings: MirrorSettings, alias: str) -> None:
    """Raises `UsageError` for an alias that is not in the file."""
    if alias not in settings.clusters:
        known = ", ".join(settings.clusters)
        raise UsageError(f"cluster {alias}", f"{settings.path} has {known}", "Name one of them.")


def pointer_by_hand(
    settings: MirrorSettings, copies: PointerCopies, alias: str, application: str, *, force_reason: str = ""
) -> Pointer | None:
    """The pointer of a move to `alias` that a person decides; None when it names that cluster already, without a hold.

    Where two pointers are in conflict, the move is from none of them: it says nothing of remote topics. Raises `UsageError` for
    an alias that is not in the file, `Unreachable` when the cluster does not answer and there is no `force_reason`.
    """
    refuse_unknown(settings, alias)
    target = settings.clusters[alias]
    (unreachable,) = ask_each([target], _answers)[1].values() or (None,)
    if unreachable is not None and not force_reason:
        raise Unreachable(
            f"the pointer was not moved to {alias}",
            f"{alias} does not answer ({unreachable.why}), so that applications could not work there",
            f"{unreachable.remedy} Or give --force REASON."
            if isinstance(unreachable, SecurityFault)
            else f"Start {alias}, or give --force REASON.",
        )
    by = "drlib pointer move" + (f", forced: {force_reason}" if force_reason else "")
    version = copies.next_version
    now = copies.undisputed(application)
    if now is not None and now.active == alias:
        return replace(now, version=version, hold=False, hold_limit_s=0.0, by=by) if now.hold else None
    enabled = {str(flow.flow) for flow in settings.enabled_flows}
    if now is not None and str(Flow(now.active, alias)) in enabled:
        pointer = moved_pointer(settings, Flow(now.active, alias), target, version, cutover=unreachable is None)
    else:
        pointer = Pointer(version, alias, ",".join(target.bootstrap_servers))
    return replace(pointer, by=by)


def moved_from(settings: MirrorSettings, copies: PointerCopies, alias: str, application: str) -> Flow | None:
    """The flow of such a move: from the cluster that the pointer names now; None where that is not known."""
    now = copies.undisputed(application)
    return None if now is None or now.active not in settings.clusters.keys() - {alias} else Flow(now.active, alias)


def _answers(settings: ClusterSettings) -> str:
    with Cluster(settings, timeout_s=READ_S) as cluster:
        return cluster.cluster_id()


def _write(
    clusters: Sequence[ClusterSettings],
    copies: PointerCopies,
    pointer: Pointer,
    application: str,
    topic: str,
    *,
    repairing: bool,
) -> Written:
    where: tuple[str, ...] = ()
    missing = {alias: why for alias, why in copies.silent.items() if alias in copies.topics}
    answering = [c for c in clusters if c.alias in copies.topics and c.alias not in missing]
    if answering:
        published = publish(answering, pointer, application, topic=topic, repair=repairing)
        where = published.where
        missing |= {alias: f"{error.what}: {error.why}" for alias, error in published.missing.items()}
    if copies.file is not None:
        try:
            pointer_file.write_atomic(copies.file, pointer)
            where += (str(copies.file),)
        except (DrlibError, OSError) as error:
            if not where:
                raise
            missing[str(copies.file)] = str(error)
    return Written(pointer, where, missing)


def _copies(held: Held) -> Mapping[str, Copy]:
    return {
        key: Copy(None, held.written_ms[key], f"{stored.what}: {stored.why}")
        if isinstance(stored, UsageError)
        else Copy(stored, held.written_ms[key])
        for key, stored in held.pointers.items()
    }


def _read_file(file: Path, application: str) -> Mapping[str, Copy]:
    try:
        at_ms = file.stat().st_mtime_ns // 1_000_000
        return {application: Copy(pointer_file.read(file), at_ms)}
    except FileNotFoundError:
        return {}
    except OSError as error:
        return {application: Copy(None, None, error.strerror or type(error).__name__)}
    except UsageError as error:
        claimed = 0
        with contextlib.suppress(OSError):
            claimed = pointer_file.claimed_version(file)
        return {application: Copy(None, None, f"{error.what}: {error.why}", claimed)}
