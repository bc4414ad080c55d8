"""Valid inputs of the decoders, from which `fuzz.mutate` makes others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final
from uuid import UUID

from repository_root import ROOT

from drlib.client.pointer import Pointer
from drlib.client.pointer import encode as encode_pointer
from drlib.drill.plan.lease_record import Holder, LeaseRecord
from drlib.drill.plan.states import DrillState
from drlib.kafka.protocol.batch import compose
from drlib.kafka.protocol.recode import Record, rebuild
from drlib.lab.checker import history
from drlib.mirror.engine.fencing import assignment
from drlib.mirror.journal import entries as e
from drlib.mirror.journal.producers.kinds import KeptProducer
from drlib.mirror.journal.transactions import TransactionCommitted, TransactionEvent
from drlib.mirror.mm2.records import Checkpoint, Heartbeat, OffsetSync
from drlib.mirror.offsets.unreplicated.ledger import Closing, Progress
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.mirror.status.worker_status import (
    Event,
    FlowStatus,
    LaneStatus,
    PartitionStatus,
    Spread,
    WorkerStatus,
)
from drlib.mirror.status.worker_status import encode as encode_status
from drlib.model import Segment, TopicPartition
from fuzz.mutate import Case

T1, T2 = UUID(int=1), UUID(int=2)
P0 = e.SourcePartition(T1, 0)
C1, C2 = e.ClaimId(9, 0), e.ClaimId(9, 1)
SEGMENTS = (Segment(10, 1, 5), Segment(16, 6, 2), Segment(400, 300, 200))

ENTRIES: Final[tuple[e.Entry, ...]] = (
    e.Claim(C1, 3, 1_700_000_000_000, "worker-1"),
    e.Clusters("abc", "def"),
    e.Sealed(P0, C1, 7, True),
    e.Covered(P0, 18),
    e.TopicIdentified(T1, T2, 5),
    e.Folded(P0, 1, (C1, C2)),
    e.RemirrorRequested("LEFT.orders", T2, 5),
    e.TopicNames(T1, "orders", "LEFT.orders", T2),
    e.Placement(P0, C1, 0, 1),
    e.Run(P0, C1, 0, 10),
    e.Run(P0, C1, 5, 16),
    e.Ack(P0, C1, 7, 8),
    e.SourceEpoch(P0, 4, 16),
    e.SourceLoss(P0, 18, 30, 1_700_000_000_000),
    e.SourceTruncated(P0, 17, 40, 1_700_000_000_000),
    e.Incarnation("orders", T1, T2, 5),
    e.Parked(P0, 50, "it is corrupt", 5),
    e.Foreign(P0, 9, 3, 5),
    e.Unsure(P0, C2, 1, 4, 5),
    e.MirrorRefused(P0, "no", 5),
    e.Takeover(P0, 100, 90, 99, 3, 5, ((10, 9), (60, 55))),
    e.Compared(P0, 0, 10, 9, SEGMENTS),
    e.Chunk(P0, 0, SEGMENTS),
    e.Expired(P0, 10, 1, 15, 6, 5),
    e.Thinned(P0, 600, 500, 207, SEGMENTS),
    e.Remirrored("LEFT.orders", T2, 5),
    e.Transactions(
        P0, 3, 67, (TransactionEvent(300, 1, 5, 8, 2), TransactionEvent(300, 2, 9, 10, 0, 1_700_000_000_000))
    ),
    e.CommittedTransactions(
        1, 257, (TransactionCommitted((4, 9), "app-0", 300, 2, 2, 1_700_000_000_000, (("orders", (0, 1)),)),)
    ),
    e.CommittedTransactions(
        2,
        258,
        (
            TransactionCommitted((4, 9), "a", 300, 2, 0, 1_700_000_000_000, (("orders", (0, 1)),), 2, (1, 2)),
            TransactionCommitted((4, 12), "a", 300, 2, 0, 1_700_000_000_000, (("orders", (0,)),), early=True),
        ),
    ),
    e.Producers(
        P0, 3, (KeptProducer(300, 0, 1_700_000_000_000), KeptProducer(301, 2, 1_700_000_000_128, True, "app-0"))
    ),
    e.ProducersKnown(1_700_000_000_000, 1_700_000_000_128, 4),
)
JOURNAL: Final[tuple[Case, ...]] = tuple((entry.key(), entry.value()) for entry in ENTRIES)

_RECORDS: Final = tuple(
    Record(number, 1_700_000_000_000 + number, key, value, headers)
    for number, (key, value, headers) in enumerate(
        [(b"k", b"value " * 20, ()), (None, b"v", (("trace", b"1"), ("none", None))), (b"k2", None, ())]
    )
)


def _batch(codec: int) -> bytes:
    built = rebuild(_RECORDS, codec=codec, producer_id=9, producer_epoch=0, base_sequence=0)
    return bytes(built.head) + bytes(built.body)


BATCHES: Final[tuple[Case, ...]] = (
    *((_batch(codec),) for codec in range(5)),
    *((bytes.fromhex(v["bytes"]),) for v in json.loads((ROOT / "tests/vectors/batches.json").read_text()).values()),
)
_MARKER: Final = bytes.fromhex("2000000008") + bytes(4) + b"\x0c" + bytes(7)


def _control_batch() -> bytes:
    """The marker of an aborted transaction."""
    times = {"base_timestamp": 5, "max_timestamp": 5}
    batch = compose(_MARKER, codec=0x30, count=1, producer_id=9, producer_epoch=0, base_sequence=-1, **times)
    return bytes(batch.head) + _MARKER


CONTROL_BATCHES: Final[tuple[Case, ...]] = ((_control_batch(),), (_batch(0) + _control_batch(),))
PLAIN_BATCHES: Final[tuple[Case, ...]] = ((_batch(0),), (_batch(0) + _batch(0),), (_batch(0) * 30,))

MM2_RECORDS: Final = (
    Heartbeat("LEFT", "RIGHT", 1_700_000_000_000),
    Checkpoint("arrivals", TopicPartition("LEFT.orders", 3), 500, 490, "m"),
    OffsetSync(TopicPartition("orders", 3), 500, 490),
)
CONSUMER_OFFSETS: Final[tuple[Case, ...]] = (
    (b"\0\1\0\1g\0\6orders\0\0\0\2", b"\0\3" + bytes(8) + b"\0\0\0\1" + b"\0\1m" + bytes(8)),
    (b"\0\1\0\1g\0\6orders\0\0\0\2", b"\0\4" + bytes(8) + b"\0\0\0\1" + b"\2m" + bytes(8) + b"\0"),
    (b"\0\1\0\1g\0\6orders\0\0\0\2", b"\0\1" + bytes(8) + b"\0\0" + bytes(16)),
    (b"\0\2\0\1g", b"\0\3" + bytes(30)),
)
ASSIGNMENTS: Final[tuple[Case, ...]] = ((assignment.encode("journal", [0, 3, 7]),), (assignment.encode("j", []),))

_PREPARED: Final = (
    "0001000000000000000000030000ea600203046f6e650200000000000474776f020000000000000001a218db33e8000001a218db3357"
)
TRANSACTION_STATE: Final[tuple[Case, ...]] = (
    (b"\0\0\0\x08java-app", bytes.fromhex(f"{_PREPARED}020008000000000000000002020002")),
    (b"\0\0\0\x03rdk", bytes.fromhex(f"{_PREPARED}0100080000000000000001")),
    (b"\0\0\0\x01x", b"\0\0" + bytes(14) + b"\x02\0\0\0\x01\0\x01a\0\0\0\x01\0\0\0\x05" + bytes(16)),
)

CONNECT_OFFSETS: Final[tuple[Case, ...]] = (
    (b'["MirrorSourceConnector",{"cluster":"LEFT","partition":3,"topic":"orders"}]', b'{"offset":499}'),
    (b'["LEFT->RIGHT.MirrorSourceConnector",{"cluster":"LEFT","partition":0,"topic":"o"}]', b'{"offset":1}'),
    (b'["other",{"file":"x"}]', b'{"position":1}'),
)
CONNECT_CONFIG: Final[tuple[Case, ...]] = (
    (b"connector-MirrorSourceConnector", b'{"properties":{"enabled":"false","topics":".*"}}'),
)

POINTERS: Final[tuple[Case, ...]] = (
    (encode_pointer(Pointer(7, "RIGHT", "127.0.0.1:9092", "LEFT.", {"LEFT.orders": (5, 6)}, True, 30.0)),),
    (encode_pointer(Pointer(1, "LEFT", "127.0.0.1:9092")),),
)
LEASES: Final[tuple[Case, ...]] = (
    (LeaseRecord(state=DrillState.READY, run="r1", holder=Holder(host="h", pid=3, user="u"), since_ms=5).encode(),),
)
LEDGER: Final[tuple[Case, ...]] = (
    (Progress(next=5, how=next(iter(Settle)), run="r1", recovered=3).encode(),),
    (Closing(run="r1", how=next(iter(Settle)), at_ms=4).encode(),),
)

STATUS: Final = WorkerStatus(
    pid=4,
    at_ms=1_700_000_000_000,
    state="running",
    flows=(
        FlowStatus(
            flow="LEFT->RIGHT",
            lanes=(LaneStatus(0, "running", 9, 0, 100),),
            partitions=(
                PartitionStatus("orders", 0, "LEFT.orders", 0, 5, 5, 9, 9, latency=Spread(1.0, 0.5, 1.0, 2.0)),
            ),
            records=5,
            bytes=500,
        ),
    ),
    events=(
        Event("LaneLost", "lane 0", "its coordinator moved", 1_700_000_000_000, flow="LEFT->RIGHT", entities=("a",)),
    ),
    worker="w1",
    address="127.0.0.1:9464",
    brief=(("LEFT->RIGHT", "LaneLost", 2),),
)
STATUSES: Final[tuple[Case, ...]] = ((encode_status(STATUS),),)

HISTORIES: Final[tuple[Case, ...]] = (
    (
        history.encode(history.Produced("i1", "k", 0, "LEFT", "t", 0, 5, 1, 2, history.ProducedStatus.ACKED, 77))
        + history.encode(history.Consumed("g", "LEFT", "t", 0, 5, "i1", "k", 0, 9))
        + history.encode(history.Consumed("g", "LEFT", "t", 0, 6, "i2", "k", 1, 9, 12))
        + history.encode(history.Committed("g", "LEFT", "t", 0, 6, 9))
        + history.encode(history.Mirrored("LEFT.t", 0, 5, "i1", "k", 0, 9, None))
        + history.encode_end(),
    ),
)

PROPERTIES: Final[tuple[Case, ...]] = tuple(
    (text.encode(),)
    for text in (
        """clusters = LEFT, RIGHT
LEFT.bootstrap.servers = 127.0.0.1:9092
RIGHT.bootstrap.servers = 127.0.0.1:9093
LEFT->RIGHT.enabled = true
LEFT->RIGHT.topics = orders.*, flights
topics.exclude = .*[\\\\-\\\\.]internal, .*\\\\.replica
LEFT.security.protocol = SASL_SSL
LEFT.sasl.mechanism = SCRAM-SHA-256
LEFT.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="u" password="${env:HOME}";
drlib.lanes = 3
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
replication.factor = -1
sync.topic.acls.enabled = false
auto.offset.reset = by_duration:P1DT2H
""",
        """bootstrap.servers=127.0.0.1:9092
security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url=https://127.0.0.1/token
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="a" clientSecret="b";
auto.offset.reset=latest
""",
    )
)
JAAS: Final[tuple[Case, ...]] = (
    (
        b'org.apache.kafka.common.security.plain.PlainLoginModule required username="a\\"b" password=\'c\\101\' /* x */ ;',
    ),
    (b"X sufficient a=b c=d; // end",),
)

PATTERNS: Final[tuple[Case, ...]] = tuple(
    (text,)
    for text in (
        rb".*[\-\.]internal, .*\.replica, __.*",
        rb"orders|flights\d{2,4}+, (?i)a[b-d&&[^c]]*?\p{L}",
        rb"(?<name>a|b)\k<name>, \Qa.b\E, [[:alpha:]], \w+\s?, (?!x)y(?<=z)",
        rb"(a|aa)+b, (x+x+)+y, a{0,50}{2}",
    )
)
NAMES: Final[tuple[Case, ...]] = tuple((*pattern, b"orders-internal") for pattern in PATTERNS)

SCRAM: Final[tuple[Case, ...]] = (
    (b"r=nonceserver,s=c2FsdHNhbHQ=,i=4096", b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="),
    (b"e=other-error,r=nonceX,s=,i=1", b"e=invalid-proof"),
)
TOKENS: Final[tuple[Case, ...]] = (
    (b'{"access_token":"eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1IiwiZXhwIjoxNzAwMDAwMDAwfQ.","expires_in":3600}',),
    (b'{"access_token":"opaque","expires_in":"60"}',),
)

OFFSETS_FILES: Final[tuple[Case, ...]] = (
    (b'[{"topic":"orders","partition":0,"offset":42,"job":"a"}]',),
    (b'{"orders":{"0":42,"1":7}}',),
)
CHECKPOINTS: Final[tuple[Case, ...]] = (
    (b'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":42}}\n-\n', b'v1\n{}\n{"orders":{"0":50}}\n'),
)

CONNECTORS: Final = {
    "name": "source",
    "config": {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "LEFT",
        "target.cluster.alias": "RIGHT",
        "source.cluster.bootstrap.servers": "127.0.0.1:9092",
        "target.cluster.bootstrap.servers": "127.0.0.1:9093",
        "source.cluster.sasl.jaas.config": 'X required password="p";',
        "topics": "orders.*",
        "replication.factor": 3,
        "tasks.max": 4,
    },
}
STRIMZI: Final = {
    "apiVersion": "kafka.strimzi.io/v1beta2",
    "kind": "KafkaMirrorMaker2",
    "metadata": {"name": "m"},
    "spec": {
        "version": "4.0.0",
        "replicas": 2,
        "connectCluster": "RIGHT",
        "clusters": [
            {
                "alias": "LEFT",
                "bootstrapServers": "127.0.0.1:9092",
                "tls": {"trustedCertificates": [{"secretName": "s", "certificate": "ca.crt"}]},
                "authentication": {
                    "type": "scram-sha-512",
                    "username": "u",
                    "passwordSecret": {"secretName": "s", "password": "p"},
                },
                "config": {"ssl.cipher.suites": "X"},
            },
            {"alias": "RIGHT", "bootstrapServers": "127.0.0.1:9093"},
        ],
        "mirrors": [
            {
                "sourceCluster": "LEFT",
                "targetCluster": "RIGHT",
                "sourceConnector": {"tasksMax": 2, "config": {"replication.factor": -1}},
                "heartbeatConnector": {"config": {}},
                "checkpointConnector": {"config": {"sync.group.offsets.enabled": True}},
                "topicsPattern": ".*",
                "groupsPattern": "a|b",
            }
        ],
    },
}
STRIMZI_V1: Final = {
    "apiVersion": "kafka.strimzi.io/v1",
    "kind": "KafkaMirrorMaker2",
    "spec": {
        "target": {"alias": "RIGHT", "bootstrapServers": "127.0.0.1:9093", "groupId": "g"},
        "mirrors": [
            {
                "source": {"alias": "LEFT", "bootstrapServers": "127.0.0.1:9092", "authentication": {"type": "tls",
                    "certificateAndKey": {"secretName": "s", "certificate": "c", "key": "k"}}},
                "sourceConnector": {"config": {}},
            }
        ],
    },
}  # fmt: skip


def as_json(*values: object) -> tuple[Case, ...]:
    return tuple((json.dumps(value, indent=1).encode(),) for value in values)


YAML_TEXT: Final = b"a: &x [1, 2.5, 'three', 2001-01-01]\nb: *x\nc: |\n  text\n--- \n- {k: v}\n- !!str 5\n- 0x1F\n"
IMPORTED: Final[tuple[Case, ...]] = as_json(CONNECTORS, [CONNECTORS], STRIMZI, STRIMZI_V1)


def read(*names: str) -> tuple[Case, ...]:
    """Files of this repository."""
    return tuple(((ROOT / name).read_bytes(),) for name in names)


def all_of(pattern: str) -> tuple[Case, ...]:
    return tuple((path.read_bytes(),) for path in sorted(Path(ROOT).glob(pattern)))


SEEN: Final = {
    "paris": {"answer": "no answer", "age_s": 0.5, "since_s": 61.0},
    "lyon": {"answer": "answers", "age_s": 0, "since_s": 3600},
}
PROVEN: Final = {"proof": "0f" * 32, "said": json.dumps(SEEN)}
WITNESS_LOGINS: Final[tuple[Case, ...]] = ((b"DrlibWitness " + b"0f" * 16 + b":" + b"a1" * 32,),)
