"""Load a `connect-mirror-maker.properties` file, unchanged, as typed settings with MirrorMaker 2's defaults.

Rules: option > `A->B.key` > `key` > default, as `MirrorMakerConfig` reads the keys of its connectors; drlib's own keys
(`drlib.`) may also be set under `B.` and `A.`, the target first. A cluster's own keys: `A.key` > `key`. No key is ignored
silently: a key without effect becomes a `Notice` with its line; a misspelt key or an invalid value is a `UsageError`.
References (`${env:NAME}`, `${file:/path:key}`) are resolved only for keys that are used. A file of one client, as Kafka's tools
take it with `--command-config`, has Java's keys without a prefix, of which those of TLS and logins count; of the files of
`kafka-mirror-maker.sh` also the addresses and where its consumer begins.
Not for: connecting to clusters (`drlib.kafka.admin`, `drlib.kafka.net`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from drlib import decoding
from drlib.config import keys
from drlib.config.flow_settings import FlowSettings, read_flow
from drlib.config.notices import Notice, check_keys
from drlib.config.patterns.selection import split_list
from drlib.config.replication_policy import ALIAS_LETTERS
from drlib.config.start_rule import EARLIEST, RESET, StartRule, read_reset
from drlib.config.values import Lookup, Values
from drlib.errors import UsageError
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.properties import Entry, PropertiesFile
from drlib.kafka.java_formats.references import as_declared, only_references
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow

MOST_CLUSTERS = 30
MOST_SERVERS = 100  # addresses in a cluster's bootstrap.servers
MOST_ITEMS = 20_000  # of all lists of a file; a value that is no list is one
NOT_SECURITY = "in this file only keys that begin with security., ssl. or sasl. have an effect"
Recorder = Callable[[str, Sequence[Lookup]], None]  # (a cluster's alias or a flow, its look-ups)


@dataclass(frozen=True, slots=True)
class WitnessKeys:
    """How witnesses are asked: `token`, a reference as written, at `where` in the file, and `ca`, a path; each "" for none."""

    token: str = ""
    where: str = ""
    ca: str = ""


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """One file. `flows` holds every ordered pair of clusters, enabled or not; `notices` the keys without effect."""

    path: Path
    clusters: Mapping[str, ClusterSettings]
    flows: tuple[FlowSettings, ...]
    notices: tuple[Notice, ...] = ()
    witness: WitnessKeys = WitnessKeys()

    @property
    def enabled_flows(self) -> tuple[FlowSettings, ...]:
        return tuple(flow for flow in self.flows if flow.enabled)

    def flow(self, source: str, target: str) -> FlowSettings:
        """The settings of source->target. Raises `UsageError` when the file does not have both clusters."""
        for settings in self.flows:
            if settings.flow == Flow(source, target):
                return settings
        raise UsageError(
            f"{self.path} has no flow {source}->{target}",
            f"its clusters are {', '.join(self.clusters)}",
            "Name two of these clusters, the source first.",
        )


def load_mirror_settings(path: str | Path) -> MirrorSettings:
    """The settings in the file at `path`. Raises `UsageError`, with the line, for an invalid key or value."""
    return from_file(properties.read(path))


def from_file(file: PropertiesFile, recorded: Recorder | None = None, *, lenient: bool = False) -> MirrorSettings:
    """The settings of a parsed file. `recorded` is called with the look-ups of each cluster and flow.

    With `lenient`, a reference that cannot be resolved here counts as the default.
    """
    file = as_declared(file)
    entries = file.effective()
    _refuse_too_many_items(file, entries)
    aliases = _aliases(file, entries)
    notices = check_keys(file, aliases)
    clusters = {}
    flows = []
    for alias in aliases:
        values = Values(file, entries, (f"{alias}.", ""), lenient=lenient)
        clusters[alias] = _cluster(values, alias)
        if recorded is not None:
            recorded(alias, values.lookups)
    _refuse_shared_servers(file, clusters)
    for pair in permutations(aliases, 2):
        values = Values(file, entries, (), lenient=lenient)
        flows.append(read_flow(values, Flow(*pair)))
        if recorded is not None:
            recorded(str(flows[-1].flow), values.lookups)
    return MirrorSettings(file.path, clusters, tuple(flows), notices, _witness(file, entries))


def _witness(file: PropertiesFile, entries: Mapping[str, Entry]) -> WitnessKeys:
    """A token that is written out is refused: the file is read by more people than decide on a failover."""
    token, ca = entries.get(keys.WITNESS_TOKEN), entries.get(keys.WITNESS_CA)
    if token is not None and token.value.strip() and not only_references(token.value.strip()):
        raise UsageError(
            f"{file.where(token)}: {token.key} cannot be used",
            "the token is written out in this file",
            "Write a reference: ${file:/path:key} or ${env:NAME}.",
        )
    where = "" if token is None else file.where(token)
    return WitnessKeys("" if token is None else token.value.strip(), where, "" if ca is None else ca.value.strip())


def _refuse_too_many_items(file: PropertiesFile, entries: Mapping[str, Entry]) -> None:
    """Joined to one pattern, 20,000 names take 5 s and 200 MB; nothing else of a file takes more."""
    items = sum(entry.value.count(",") + 1 for entry in entries.values())
    if items > MOST_ITEMS:
        longest = max(entries, key=lambda key: entries[key].value.count(","))
        raise UsageError(
            f"{file.path} has too many values",
            f"its lists have {items:,} items together, most of them {longest}, and drlib reads up to {MOST_ITEMS:,}",
            "Write a regular expression in place of single names.",
        )


def _aliases(file: PropertiesFile, entries: Mapping[str, Entry]) -> tuple[str, ...]:
    values = Values(file, entries, ("",))
    aliases = split_list(values.text("clusters", ""))
    example = "Write clusters = LEFT, RIGHT, then LEFT.bootstrap.servers and RIGHT.bootstrap.servers."
    if not aliases:
        values.refuse("clusters", "drlib needs to know the clusters of this file", example)
    for alias in aliases:
        if not alias or not set(alias) <= ALIAS_LETTERS:
            values.refuse("clusters", "an alias cannot be part of a topic name", "Use letters, digits, `.`, `_`, `-`.")
    if len(aliases) > MOST_CLUSTERS:
        values.refuse(
            "clusters",
            f"it names {len(aliases)} clusters, and drlib reads up to {MOST_CLUSTERS}, as every pair of them is a flow",
            "Write several files, each with the clusters of some flows.",
        )
    if len(set(aliases)) < len(aliases):
        values.refuse("clusters", "an alias is listed twice", "List every cluster once.")
    return aliases


def _servers(values: Values, key: str) -> tuple[str, ...]:
    """The addresses of brokers in `bootstrap.servers`; `key`: as it is written in this file."""
    servers = tuple(server.rpartition("://")[2] for server in split_list(values.text("bootstrap.servers", "")))
    example = f"Write {key} = host:9092."
    if not servers:
        raise UsageError(f"{values.file.path}: {key} is not set", "drlib cannot connect to the cluster", example)
    if len(servers) > MOST_SERVERS:
        values.refuse(
            "bootstrap.servers",
            f"it has {len(servers)} addresses, and drlib reads up to {MOST_SERVERS}, as a client has a thread for each",
            "List a few brokers: the others are learned from them.",
        )
    for server in servers:
        try:
            host, _ = decoding.address(server)
        except decoding.Undecodable:
            host = ""
        if not host or "@" in host:
            values.refuse("bootstrap.servers", "an address is not host:port", example)
    return servers


def _cluster(values: Values, alias: str) -> ClusterSettings:
    entries = values.entries
    servers = _servers(values, f"{alias}.bootstrap.servers")
    secured = {
        name: entries[prefix + name].value
        for prefix in ("", f"{alias}.")
        for name in (key.removeprefix(prefix) for key in entries if key.startswith(prefix))
        if name.startswith(keys.SECURITY_PREFIXES)
    }
    return ClusterSettings(alias, servers, secured, values.text("drlib.cluster.id", ""))


def _refuse_shared_servers(file: PropertiesFile, clusters: Mapping[str, ClusterSettings]) -> None:
    owners: dict[str, str] = {}
    for alias, cluster in clusters.items():
        for server in cluster.bootstrap_servers:
            if (owner := owners.setdefault(server.lower(), alias)) != alias:
                Values(file, file.effective(), (f"{alias}.", "")).refuse(
                    "bootstrap.servers",
                    f"{owner} and {alias} have the same address, and a cluster cannot be mirrored to itself",
                    f"Give {alias} the addresses of its own brokers.",
                )


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of `kafka-mirror-maker.sh`: its `--consumer.config` or `--producer.config`. `start`: None where it has none."""

    cluster: ClusterSettings
    start: StartRule | None
    notices: tuple[Notice, ...]


def load_client_file(path: str | Path) -> ClientFile:
    """The cluster that a client's file names, with its security. Raises `UsageError`, with the line."""
    file = as_declared(properties.read(path))
    values = Values(file, file.effective(), ("",))
    servers = _servers(values, "bootstrap.servers")
    start = read_reset(values, RESET, EARLIEST.value) if RESET in values.entries else None
    cluster, notices = load_client_settings(path, ",".join(servers), servers)
    used = ("bootstrap.servers", RESET)
    return ClientFile(cluster, start, tuple(notice for notice in notices if notice.key not in used))


def load_client_settings(
    path: str | Path, alias: str, servers: Sequence[str]
) -> tuple[ClusterSettings, tuple[Notice, ...]]:
    """The cluster at `servers` (host:port each) with the security of the file at `path`. Raises `UsageError`, with the line."""
    file = as_declared(properties.read(path))
    known = {(notice.line, notice.key): notice for notice in check_keys(file, ())}
    notices = []
    for entry in file.entries:
        if entry.key.startswith(keys.SECURITY_PREFIXES):
            if (notice := known.get((entry.line, entry.key))) is not None:
                notices.append(notice)
        else:
            notices.append(Notice(entry.line, entry.key, NOT_SECURITY))
    secured = {key: entry.value for key, entry in file.effective().items() if key.startswith(keys.SECURITY_PREFIXES)}
    return ClusterSettings(alias, tuple(servers), secured), tuple(notices)
