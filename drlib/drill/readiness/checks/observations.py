"""What was observed of a flow: the answers that readiness is judged by, free of judgement.

Rules: a question without an answer is `Unanswered` with the reason, never an empty answer. Values of the clusters and of
the mirror are handed on as they were received. Offsets are Kafka offsets, times milliseconds since the epoch.
Not for: judging (`drlib.drill.readiness.checks.checks`), asking (`drlib.drill.readiness.observe`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from drlib.client.bootstrap.rules import CertificateName
from drlib.drill.inventory.rules import Inventory
from drlib.drill.producer_ids.rules import ComparedIds
from drlib.drill.writers.rules import StandbyWriters, TopicWritten
from drlib.errors import DrlibError
from drlib.kafka.admin.descriptions import ConfigChange, ConfigValue, Quota, Range, Stretch
from drlib.kafka.net.cluster_client import TopicMetadata
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.status.event_log import Event
from drlib.model import GroupTranslation, TranslationKind

NO_APPLICATIONS: Final = Inventory(())
TopicSettings = Mapping[str, tuple[ConfigValue, ...] | DrlibError]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why a question has no answer; `fix` is what to do about that."""

    why: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """A cluster asked for its metadata. `address` is its bootstrap list; `error` is empty where it answered. `refused`: it, or
    some of its brokers, answer and this host cannot use them, so that nothing is known of what it is to others."""

    alias: str
    address: str
    brokers: int = 0
    error: str = ""
    fix: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """`pinned` is the expected cluster ID, "" where none is; `answered` is "" where the cluster did not answer, `silence`
    then why, where more is known."""

    alias: str
    answered: str
    pinned: str
    fix: str = ""
    silence: str = ""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps the mirror from working, for the whole flow or one topic: a missing right, too few brokers, a bad journal."""

    entity: str
    detail: str
    fix: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A right that the mirror works without: `missing` says which and what it costs, `fix` has the command that grants it."""

    entity: str
    missing: str
    fix: str


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """The flow as clusters and workers report it.

    `unmapped` are events for partitions whose offset map could not be built. `source_error` and `target_error` are empty
    where the cluster answered.
    """

    view: FlowView
    unmapped: tuple[Event, ...] = ()
    source_error: str = ""
    target_error: str = ""


@dataclass(frozen=True, slots=True)
class LastHeartbeat:
    """The newest heartbeat on the target. `at_ms` None: none was found; `interval_s` 0: the file switches them off."""

    at_ms: int | None
    interval_s: int


@dataclass(frozen=True, slots=True)
class UnmirroredReader:
    """A group of the source with committed offsets in `topics`, which no enabled flow from the source mirrors. `as_mirrors`:
    those of them that no pattern selects, as a cluster of the flow is a part of the name."""

    group: str
    topics: tuple[str, ...]
    as_mirrors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Readers:
    """`groups` were read; `unreadable` pairs the others with the reason; `all_listed`: does the source list every group?
    `of_lines`: groups that are left out because their names have line terminators. `as_heartbeats`: groups with the topics that
    they read and that are mirrored as heartbeats, of a cluster that the file does not have."""

    groups: int
    unmirrored: tuple[UnmirroredReader, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    all_listed: bool | None = True
    of_lines: tuple[str, ...] = ()
    as_heartbeats: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class TargetPosition:
    """A group's committed offset on the target beside its translation. `in_use`: the group has members there. `markers_only`:
    it is further ahead, and no record lies between. `read_on`: it is, and the group has read on on the source since, so that a
    mirror may have synchronized it."""

    translation: GroupTranslation
    committed: int
    log_end: int | None
    in_use: bool
    markers_only: bool = False
    read_on: bool = False

    @property
    def ahead(self) -> Stretch:
        """What lies between the translation and the committed offset, empty where that is not ahead."""
        found = self.translation.translation
        assert found.offset is not None
        translated = found.offset + (found.records if found.kind is TranslationKind.BOUNDED else 0)
        return self.translation.target, Range(translated, max(translated, self.committed))


@dataclass(frozen=True, slots=True)
class MirrorTopics:
    """`names`: source topic -> mirror topic of what the flow mirrors; the topics of both clusters. `unlisted`: those that the
    journal mirrors, whose mirror topic exists, and that the source does not list. `way_back`: the source has mirrors of the
    target's topics, so that a flow without topics of its own has nothing to copy until applications write there. `prefixed`:
    topics that get another name although the flow keeps names."""

    names: Mapping[str, str]
    source: Mapping[str, TopicMetadata]
    target: Mapping[str, TopicMetadata]
    unlisted: tuple[str, ...] = ()
    way_back: bool = False
    prefixed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingsDrift:
    """A mirror topic and the changes that would make its settings its source's; `error` where they were not readable."""

    topic: str
    mirror: str
    changes: tuple[ConfigChange, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class ProducerTopics:
    """Topics that applications write to, by name, on both sides. `names` is None where mirrors keep their names.

    `locked_out`: by topic, principals that may write on the source and, by its ACLs, not on the target. `quotas`: those of
    the source's producers that the target lacks (None) or has lower, with its value there.
    """

    names: tuple[str, ...] | None
    source: Mapping[str, TopicMetadata]
    target: Mapping[str, TopicMetadata]
    source_settings: TopicSettings
    target_settings: TopicSettings
    locked_out: Mapping[str, tuple[str, ...]] | Unanswered
    quotas: tuple[tuple[Quota, float | None], ...] | Unanswered


@dataclass(frozen=True, slots=True)
class AddressCertificates:
    """The names that clients connect to, and what each bootstrap server's certificate says of them, by cluster. `without_tls`:
    clusters that have no certificates; `unasked`: those that could not be asked, each with the reason."""

    hosts: tuple[str, ...]
    compared: Mapping[str, tuple[CertificateName, ...]]
    without_tls: tuple[str, ...] = ()
    unasked: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Durability:
    """Existing mirror topics with their settings. `factor` is the configured replication factor, -1 for the default.

    `source_lost`: the source cannot be asked what else there would be to mirror.
    """

    brokers: int
    factor: int
    topics: tuple[TopicMetadata, ...]
    settings: TopicSettings
    source_lost: bool = False


@dataclass(frozen=True, slots=True)
class PastDrill:
    run: str
    runbook: str
    verdict: str
    finished_ms: int
    flow: str
    rehearsal: bool = False  # shadow groups and a canary: no application was moved


@dataclass(frozen=True, slots=True)
class PastDrills:
    """Newest first; `unverified` are run folders that say nothing to rely on."""

    folder: str
    runs: tuple[PastDrill, ...]
    unverified: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupSeen:
    """A share group. `partitions`: with a start offset; `unset`: without one. `acknowledged`: how many records behind start
    offsets need no delivery, None where that is not known; `known`: is it known which? `here` and `there`: its
    `share.*` settings on both sides, as far as they are known."""

    group: str
    partitions: int
    unset: int
    acknowledged: int | None
    known: bool
    as_of_ms: int
    here: Mapping[str, str] = field(default_factory=dict)
    there: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SharesObserved:
    """The share groups of the source. `refused`: those that cannot be described, and why. `unread`: those with a partition of
    which it is not known what they read, why, and what helps. `states_refused`: why it is not known which records they have
    acknowledged. `supported`: by the target's brokers. `may_write`: may that be written there?"""

    groups: tuple[ShareGroupSeen, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    unread: tuple[tuple[str, str, str], ...] = ()
    states_refused: str = ""
    supported: bool = True
    may_write: bool = True


@dataclass(frozen=True, slots=True)
class WritersObserved:
    """Clients that write: to topics on both clusters, None where no topic is copied in both directions under one name; and to
    the cluster that stands by, None where MirrorMaker 2 mirrors."""

    both: tuple[TopicWritten, ...] | Unanswered | None
    standby: StandbyWriters | Unanswered | None


@dataclass(frozen=True, slots=True)
class FlowObservation:
    """One flow, all questions. `retention_ms` is by source topic, -1 where records are kept for ever. `known_mirrors`: names of
    mirrors on the target, by the source and the journal; empty where neither is known. `inventory`: of the source."""

    flow: str
    at_ms: int
    target: ClusterAnswer
    source: ClusterAnswer
    identities: tuple[ClusterIdentity, ...] | Unanswered
    obstacles: tuple[Obstacle, ...] | Unanswered
    mirror: MirrorStatus | Unanswered
    retention_ms: Mapping[str, int] | Unanswered
    heartbeat: LastHeartbeat | Unanswered
    translations: tuple[GroupTranslation, ...] | Unanswered
    readers: Readers | Unanswered
    target_positions: tuple[TargetPosition, ...] | Unanswered
    topics: MirrorTopics | Unanswered
    settings: tuple[SettingsDrift, ...] | Unanswered
    durability: Durability | Unanswered
    producer_topics: ProducerTopics | Unanswered
    producer_ids: ComparedIds | Unanswered
    certificates: AddressCertificates | Unanswered
    drills: PastDrills | Unanswered
    writers: WritersObserved
    shares: SharesObserved | Unanswered = SharesObserved()
    advice: tuple[Advice, ...] | Unanswered = ()
    inventory: Inventory | Unanswered = NO_APPLICATIONS
    known_mirrors: frozenset[str] = frozenset()


def available(topics: Mapping[str, TopicMetadata], name: str) -> bool:
    """Does the topic exist, with partitions?"""
    topic = topics.get(name)
    return topic is not None and topic.error_code == 0 and bool(topic.partitions)
