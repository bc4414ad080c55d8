"""What the parts of a lane share: the two clusters and the services of its worker.

Rules: one frozen value per flow, so that a lane's parts do not pass a dozen collaborators on one by one.
Not for: what changes with a claim (its journal, its streams), which is passed beside it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from drlib.config.start_rule import EARLIEST, StartRule
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.engine.fencing.membership import Membership
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.engine.fencing.target_clock import TargetClock
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.reverse.appends import Appends
from drlib.mirror.engine.reverse.journal import ReverseJournal
from drlib.mirror.status.worker_status import EventLog


@dataclass(frozen=True, slots=True)
class LaneContext:
    """`loss_policy`: `drlib.source.loss.policy` of the flow: continue, park or fail. `start`: where a topic without a position
    begins. `rack`: `client.rack` of the flow, "" to read leaders only. `missing_mirrors`: set by a lane that waits for a mirror
    topic to be created again. `reverse`: where both directions may copy a topic under one name; `own_records`: the topic ID of
    the journal for which the records in such mirrors, before the first claim, are the target's own; `two_clusters`: no other
    cluster is in the file, so that nothing else can have brought them. `stopped`: where topics keep their names, by source
    topic why it is not copied any more, because its records return (`engine.returns`). `appends`: what all lanes of the worker
    appended last, of whichever flow."""

    source: ClusterClient
    target: ClusterClient
    membership: Membership
    events: EventLog
    memory: Memory
    expiry: Expiry
    loss_policy: str = "continue"
    start: StartRule = EARLIEST
    rack: str = ""
    reverse: ReverseJournal | None = None
    own_records: str = ""
    two_clusters: bool = False
    stopped: dict[str, str] | None = None
    appends: Appends = field(default_factory=Appends)
    clock: TargetClock = field(default_factory=TargetClock)
    missing_mirrors: asyncio.Event = field(default_factory=asyncio.Event)
