"""Which worker runs a lane: the workers of a flow are a consumer group on the journal topic; partition k is lane k.

Rules: Kafka's own group protocol (classic: JoinGroup, SyncGroup, Heartbeat, LeaveGroup) does membership, rebalance and
takeover. `may_send()` is a monotonic deadline shorter than the session, counted from the *sending* of the last
heartbeat, or request for an assignment, that was answered without error: a worker that was suspended (SIGSTOP, a long pause)
stops by itself before the group could have reassigned its lanes. It has passed at once when the group no longer knows us.
During a rebalance lanes continue: the claim of the next owner fences the former one. Heartbeats wait for nothing, also not
for lanes that end. A lost connection costs no generation: the next heartbeat goes over a new one. Whatever a broker answers,
the worker tries again to be a member: a missing right, or a setting of the broker, may be corrected.
Not for: exactly-once. The group only says who should claim; the claim and its fence decide (`claim`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.net import group_requests
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import ClusterClient, WrongCluster
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import (
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    BrokerError,
)
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fencing import assignment
from drlib.mirror.engine.fencing.lanes import assign

_REJOIN = frozenset({UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS})

NEVER = float("-inf")
DEADLINE_SHARE = 0.6  # of the session: what is left covers a send that was checked just before the deadline


@dataclass
class Membership:
    """One worker's membership; `on_change` is called with the lanes owned after each change, and waits for nothing.

    `on_refused` is called with an answer that only an operator can change, and with None once the worker is a member;
    `on_differing` with the members that mirror something else (by `digest`), after each assignment.
    """

    target: ClusterClient
    group: str
    journal_topic: str
    lanes: int
    session_timeout_ms: int
    on_change: Callable[[Collection[int]], None]
    on_refused: Callable[[BrokerError | UnsupportedRequest | None], None]
    digest: bytes = b""  # of what this worker mirrors
    worker: bytes = b""  # the same in the groups of all its flows
    on_differing: Callable[[Sequence[str]], None] = lambda members: None
    member_id: str = ""
    generation: int = -1
    owned: frozenset[int] = frozenset()
    _answered_at: float = NEVER  # when the last request that was answered was sent
    _joined: bool = False
    _valid: asyncio.Event = field(default_factory=asyncio.Event)

    def may_send(self) -> bool:
        """True while the group cannot have assigned our lanes to another member."""
        return time.monotonic() < self._answered_at + DEADLINE_SHARE * self.session_timeout_ms / 1000

    async def until_may_send(self) -> None:
        """Wait until a heartbeat is answered again; cancelled with the lane when it is reassigned."""
        while not self.may_send():
            self._valid.clear()
            await self._valid.wait()

    async def run(self) -> None:
        """Be a member until cancelled, then leave the group."""
        delay = 0.1
        try:
            while True:
                before = self._answered_at
                try:
                    connection = await self._coordinator()
                    if not self._joined:
                        await self._join(connection)
                    await self._beat(connection)
                except BrokerError as error:
                    self._refused(error.code)
                    if error.code in _REJOIN:
                        continue
                    if not error.retriable:
                        self.on_refused(error)
                except UnsupportedRequest as too_old:  # until it is upgraded, or another broker coordinates the group
                    self.on_refused(too_old)
                except (Unreachable, SecurityFault, WrongCluster, TimeoutError, OSError):
                    pass
                delay = 0.1 if self._answered_at > before else delay
                await asyncio.sleep(delay)
                delay = min(2.0, delay * 2)
        finally:
            await self._leave()

    def _refused(self, code: int) -> None:
        if code in _REJOIN:
            self._joined = False
        if code in (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION):
            self._answered_at = NEVER  # others may own our lanes already
        if code == UNKNOWN_MEMBER_ID:
            self.member_id = ""
            self._set_owned(frozenset())

    async def _coordinator(self) -> Connection:
        node = await self.target.coordinator(self.group, "group")
        return await self.target.connection(node, "group")

    async def _join(self, connection: Connection) -> None:
        try:
            joined = await self._join_request(connection)
        except BrokerError as error:
            if error.code != MEMBER_ID_REQUIRED:
                raise
            joined = await self._join_request(connection)
        self.member_id, self.generation = joined.member_id, joined.generation
        assignments: dict[str, bytes] = {}
        if joined.leader == joined.member_id:
            shares = assign(self.lanes, sorted(joined.members), assignment.workers(joined.members))
            others = assignment.differing(joined.members)
            assignments = {
                member: assignment.encode(self.journal_topic, lanes, others[member]) for member, lanes in shares.items()
            }
        sent = time.monotonic()
        assigned = await group_requests.sync_group(
            connection,
            group=self.group,
            generation=self.generation,
            member_id=self.member_id,
            protocol_type=assignment.PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
            rebalance_timeout_ms=self.session_timeout_ms,
        )
        self._joined = True
        self._answered(sent)
        self._set_owned(frozenset(assignment.decode(assigned).get(self.journal_topic, ())))
        self.on_differing(assignment.decode_differing(assigned))

    async def _join_request(self, connection: Connection) -> group_requests.JoinedGroup:
        try:
            return await group_requests.join_group(
                connection,
                group=self.group,
                member_id=self.member_id,
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=self.session_timeout_ms,
                protocol_type=assignment.PROTOCOL_TYPE,
                protocols={
                    assignment.BY_WORKER: assignment.subscription(self.journal_topic, self.digest, self.worker),
                    assignment.BY_MEMBER: assignment.subscription(self.journal_topic, self.digest),
                },
            )
        except group_requests.MemberIdRequired as required:
            self.member_id = required.member_id
            raise

    async def _beat(self, connection: Connection) -> None:
        interval = self.session_timeout_ms / 1000 / 6
        while True:
            sent = time.monotonic()
            await group_requests.heartbeat(
                connection, group=self.group, generation=self.generation, member_id=self.member_id
            )
            self._answered(sent)
            await asyncio.sleep(interval)

    def _answered(self, sent: float) -> None:
        self._answered_at = sent
        self._valid.set()
        self.on_refused(None)

    def _set_owned(self, lanes: frozenset[int]) -> None:
        if lanes != self.owned:
            self.owned = lanes
            self.on_change(lanes)

    async def _leave(self) -> None:
        if not self.member_id:
            return
        with contextlib.suppress(DrlibError, OSError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(2):
                await group_requests.leave_group(await self._coordinator(), group=self.group, member_id=self.member_id)
