"""Stop the holder of a flow's lease where a more urgent run supersedes it, and say who is in the way where none does.

Rules: a holder is stopped by removing it from the group, on any machine: its heartbeat reports that within a second, its step
is ended within two more, and it begins nothing. No two runs act at once: on this host that is seen by the lock of the folder,
and a process that keeps it is killed. Nothing is rolled back, because what supersedes is urgent.
Not for: which run may supersede (`drlib.drill.plan.supersede`), and holding the flow (`drlib.drill.run.lease`).
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from drlib import clock
from drlib.drill.flow_state.flow_record import read_opposite, read_record
from drlib.drill.plan import lease_record as drill_lease
from drlib.drill.plan import supersede
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.states import unfinished
from drlib.drill.plan.supersede import Beginning, Entered, Refusal
from drlib.errors import LeaseHeld, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net import group_requests
from drlib.kafka.protocol.error_codes import RETRIABLE, UNKNOWN_MEMBER_ID, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow
from drlib.runs import lock

REMOVAL_S: Final = 5.0  # a member that was removed is out of the group
STOPPED_S: Final = 4.0  # a removed holder knows by its heartbeat (1 s), and what it does is stopped (2 s)
RUNNING: Final = ".lock"  # in a run's folder, held by the process that runs its plan
_COORDINATOR_S: Final = 15.0
_ANSWER_S: Final = 5.0  # of a coordinator that removes members
_POLL_S: Final = 0.05


def held(flow: Flow, record: LeaseRecord, new: Beginning | None, run: str) -> LeaseHeld:
    """The error that names the holder of `flow` and its run to the run named `run`."""
    who = str(record.holder) if record.holder else "a run that has not written its name yet"
    unfinished_run = unfinished(record.state) and record.run not in ("", run)
    more, since = "", ""
    if unfinished_run:
        since = f" for {supersede.age(record, clock.now_ms())}"
        more = f" Or stop it: drlib abort {supersede.where(record)}."
        more += "" if new is None else " " + supersede.supersede_remedy(record, new, alive=True)
    return LeaseHeld(
        f"{flow} is held",
        f"{who} holds it for run {record.run or 'that begins'}, and it is {record.state}{since}",
        f"Wait for it to end. A holder that died is out after {record.session_ms / 1000:g} s.{more}",
    )


def refuse_unfinished(target: ClusterSettings, source: ClusterSettings | None, flow: Flow, new: Beginning) -> None:
    """Raise what taking the lease of `flow` on `target` for `new` would, without taking it; the holder of a run that `new`
    supersedes is stopped. Raises `UsageError` where it may not begin, `LeaseHeld` while another run is held, `Unreachable`."""
    with Cluster(target) as cluster:
        until_free(cluster, flow, new.run, new)
        record = read_record(cluster, flow)
    entered(flow, record, new, lambda: read_opposite(source, flow))


def entered(flow: Flow, record: LeaseRecord, new: Beginning, opposite: Callable[[], LeaseRecord | None]) -> Entered:
    """Where `flow` is once `new` has begun on it. `opposite` reads the opposite flow's record, and is asked only where this
    one's refuses. Raises `UsageError` where it may not begin."""
    found = supersede.enter(flow, record, new, clock.now_ms())
    if isinstance(found, Refusal) and (other := opposite()) is not None:
        found = supersede.enter(flow, supersede.after_opposite(record, other), new, clock.now_ms())
    if isinstance(found, Refusal):
        raise UsageError(found.what, found.why, found.remedy)
    return found


def until_free(
    cluster: Cluster,
    flow: Flow,
    run: str,
    new: Beginning | None,
    *,
    wait_s: float = 0.0,
    folder: Path | None = None,
) -> None:
    """Return once the lease of `flow` has no holder; one whose run `new` supersedes is stopped. Raises `LeaseHeld` where that
    is not so in `wait_s`, `Unreachable`.

    `folder`: of the run: an earlier process of it that was killed on this host is removed.

    The client of a stopped holder may join once more: for `REMOVAL_S` it is removed again, as it may stay without a process
    that polls it. A cluster that has just started has no coordinator for a moment; it is asked again for a while.
    """
    stopped = new is not None and new.supersede != "" and stop_superseded(cluster, flow, new)
    end = time.monotonic() + max(wait_s, REMOVAL_S if stopped else 0.0)
    group, loaded_by = drill_lease.group(flow), time.monotonic() + _COORDINATOR_S
    while True:
        try:
            if not (members := cluster.group_members(group)):
                return
            if folder is not None and _ended_here(read_record(cluster, flow), run, folder):
                folder = None
                remove_members(cluster.settings, group, [member.member_id for member in members])
                continue
            if time.monotonic() >= end:
                raise held(flow, read_record(cluster, flow), new, run)
            if stopped and new is not None:
                stop_superseded(cluster, flow, new)
        except Unreachable:
            if time.monotonic() >= loaded_by:
                raise
        time.sleep(_POLL_S * 2)


def _ended_here(record: LeaseRecord, run: str, folder: Path) -> bool:
    """Is the holder an earlier process of `run` on this host, in this folder, that does not live any more?"""
    here = record.host == socket.gethostname() and record.folder == str(folder.resolve())
    if not here or record.run != run or record.holder is None or lock.held(folder, RUNNING):
        return False
    try:
        if record.holder.pid != os.getpid():
            os.kill(record.holder.pid, 0)
            return False
    except ProcessLookupError:
        pass
    except OSError:
        return False
    return True


def stop_superseded(cluster: Cluster, flow: Flow, new: Beginning) -> bool:
    """Remove the holder of `flow` from its group where `new` may supersede its run, and wait until that has stopped.

    Returns whether there was one. A holder on this host has stopped when its folder's lock is free, and is killed where that
    takes longer than `STOPPED_S`; one elsewhere has stopped by then, as it begins no step any more. A holder that may not be
    superseded, or whose run is another one, is left alone. Raises `LeaseHeld` where it cannot be stopped.
    """
    record, group = read_record(cluster, flow), drill_lease.group(flow)
    if record.run != new.supersede or record.run == new.run or not unfinished(record.state):
        return False
    began = time.monotonic()
    removed = False
    while members := cluster.group_members(group):
        if isinstance(supersede.enter(flow, record, new, clock.now_ms(), alive=True), Refusal):
            return removed
        if time.monotonic() - began > REMOVAL_S:
            raise LeaseHeld(f"{flow} is held", f"{record.run} joins its group again and again", "Stop its process.")
        remove_members(cluster.settings, group, [member.member_id for member in members])
        removed = True
    if removed:
        _until_stopped(flow, record)
    return removed


def folder_here(record: LeaseRecord) -> Path | None:
    """The run's folder, where it is on this host."""
    here = bool(record.folder) and record.host == socket.gethostname() and Path(record.folder).is_dir()
    return Path(record.folder) if here else None  # hosts may share a name, as containers do


def _until_stopped(flow: Flow, record: LeaseRecord) -> None:
    folder = folder_here(record)
    until = time.monotonic() + STOPPED_S
    while time.monotonic() < until:
        time.sleep(_POLL_S)
        if folder is not None and not lock.held(folder, RUNNING):
            return
    if folder is None:
        return
    pid = 0 if record.holder is None else record.holder.pid
    try:
        if pid in (0, os.getpid()):
            raise ProcessLookupError
        os.kill(pid, signal.SIGKILL)
        while lock.held(folder, RUNNING) and time.monotonic() < until + STOPPED_S:
            time.sleep(_POLL_S)
    except OSError:
        pass
    if lock.held(folder, RUNNING):
        why = f"the process of run {record.run} (pid {pid or 'unknown'}) still works on a step"
        raise LeaseHeld(f"{flow} is held", why, f"End it: kill -9 {pid}. Then run this again.")


def remove_members(cluster: ClusterSettings, group: str, member_ids: Sequence[str]) -> None:
    """Remove `member_ids` from the classic group `group`, as Kafka's admin client does (KIP-571). Raises `Unreachable`,
    `BrokerError`.

    A member learns of it by its next heartbeat, and may join again. One that has left meanwhile is no error, nor is a
    coordinator that moves just then: whether the members are gone is seen by the next look.
    """

    async def remove() -> None:
        async with wire_client(cluster, client_id="drlib-group-members", timeout_s=_ANSWER_S) as client:
            node = await client.coordinator(group, "group", deadline_s=_ANSWER_S)
            connection = await client.connection(node, "group")
            for member_id in member_ids:
                try:
                    await group_requests.leave_group(connection, group=group, member_id=member_id)
                except BrokerError as error:
                    if error.code != UNKNOWN_MEMBER_ID and error.code not in RETRIABLE:
                        raise

    blocking(remove())
