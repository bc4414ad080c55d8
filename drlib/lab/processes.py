"""The register of a lab's processes: any process can signal exactly those, and no other.

Rules: a process is identified by its pid *and* its start time (in ticks of 10 ms, of this boot), so a recycled pid is never
signalled; signals go through a pidfd opened before that check, so the pid cannot be recycled in between; each child has its
own session, so Ctrl-C for the parent does not reach it; the register is one 0600 file, changed under a lock and replaced
atomically. Linux only (`/proc`, pidfd). Not for: the purpose of a process, or whether it is ready to serve.
"""

import atexit
import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib.errors import UsageError
from drlib.files import file_lock, read_json, stored_descriptor, write_whole
from drlib.outgoing.environment import child_environment, whole

_PR_SET_PDEATHSIG: Final = 1
# Of pidfd_open. The last two: a thread of another process has the number now.
_NO_PROCESS: Final = (errno.ESRCH, errno.ENOENT, errno.EINVAL)
_PRCTL: Final = ctypes.CDLL(None, use_errno=True).prctl  # resolved here: nothing may be loaded between fork and exec
_STATE_NAME: Final = "processes.json"
_LISTEN: Final = "0A"  # TCP_LISTEN of the kernel, as /proc/net/tcp prints it

# The kernel delivers the parent-death signal when the *thread* that forked ends. All children that ask for it are
# therefore forked by this one thread, which lives as long as the process does.
_SPAWNER: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drlib-spawn")

# Children may outlive their registry within this process; dropping the handle of a running process would warn, and its exit
# status could not be collected.
_OUTLIVING: Final[list[subprocess.Popen[bytes]]] = []


@atexit.register
def _reap_outliving() -> None:
    """Collect the exit status of those that another registry stopped: their handles would warn that they still run."""
    for child in _OUTLIVING:
        child.poll()


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One process of a lab. `started_ticks` is field 22 of /proc/PID/stat, `boot_id` the boot that it counts from."""

    name: str
    pid: int
    started_ticks: int
    boot_id: str
    log: str


_RECORDS: Final = TypeAdapter(dict[str, ProcessRecord])


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A record with its state in /proc: the kernel's letter (T: stopped by a signal), "" when it has ended."""

    name: str
    pid: int
    alive: bool
    state: str
    log: Path

    @property
    def paused(self) -> bool:
        return self.state == "T"


class ProcessRegistry:
    """The processes of the lab in `root`. Two registries on one root, in any processes, see the same records."""

    def __init__(self, root: Path) -> None:
        self.root = root  # created when the first process is started, not by reading
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        die_with_parent: bool = True,
        foreign: bool = False,
    ) -> ProcessRecord:
        """Start `argv` with both outputs appended to `log` and register it as `name`.

        `env` is added to this process's own environment, or, for a `foreign` program that is not drlib's Python, to what
        any program needs. With `die_with_parent` the kernel kills it when this process
        ends for whatever reason. Raises `UsageError` when a process of that name is alive, `OSError` when argv[0]
        cannot run.
        """
        with self._locked():
            records = self._read()
            known = records.get(name)
            if known is not None and _state(known):
                raise UsageError(
                    f"{name} is running already", f"pid {known.pid} is alive", "Stop it before starting another"
                )
            log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            environment = child_environment(env) if foreign else whole(env)
            child = _SPAWNER.submit(_spawn, list(argv), log, environment, cwd, die_with_parent).result()
            previous = self._children.pop(name, None)
            if previous is not None:
                previous.wait()  # it has ended, as checked above; this collects its exit status
            self._children[name] = child
            _OUTLIVING[:] = [*(process for process in _OUTLIVING if process.poll() is None), child]
            stat = _stat(child.pid)
            # A child that ended already is a zombie until waited for, so it has a stat.
            assert stat is not None
            record = ProcessRecord(name, child.pid, stat[1], _boot_id(), str(log))
            self._write({**records, name: record})
        return record

    def records(self) -> tuple[ProcessRecord, ...]:
        """Processes that were started and not stopped through a registry, in order of their start, including dead ones."""
        return tuple(self._read().values())

    def status(self) -> tuple[ProcessStatus, ...]:
        """`records`, each with its current state."""
        statuses = []
        for record in self.records():
            state = _state(record)
            statuses.append(ProcessStatus(record.name, record.pid, bool(state), state, Path(record.log)))
        return tuple(statuses)

    def alive(self, name: str) -> bool:
        """Whether the process registered as `name` runs; False for an unknown name."""
        record = self._read().get(name)
        return record is not None and bool(_state(record))

    def ports(self, name: str) -> frozenset[int]:
        """TCP ports on which the registered process listens; none for a process that has ended or that is another user's."""
        record = self._read().get(name)
        return frozenset() if record is None or not _state(record) else _listening_ports(record.pid)

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Signal the registered process. False when it has ended or its pid belongs to another process."""
        record = self._read().get(name)
        if record is None:
            return False
        with _opened(record) as pidfd:
            if pidfd is None or _ended(pidfd, 0):
                return False
            signal.pidfd_send_signal(pidfd, number)
        return True

    def kill(self, name: str, *, deadline_s: float = 10.0) -> bool:
        """SIGKILL, and wait for its end; False when it had ended. The record stays, for its log."""
        record = self._read().get(name)
        killed = record is not None and _end(record, (signal.SIGKILL,), deadline_s)
        self._reap_all()
        return killed

    def stop(self, *names: str, deadline_s: float = 10.0) -> None:
        """SIGTERM (with SIGCONT for a paused process), SIGKILL at the deadline for all, and remove them from the register."""
        self._stop(names, deadline_s)

    def stop_all(self, *, deadline_s: float = 10.0) -> None:
        """`stop` for every registered process, with one deadline for all."""
        self.stop(*(record.name for record in self.records()), deadline_s=deadline_s)

    def _stop(self, names: Sequence[str], deadline_s: float) -> None:
        records = self._read()
        wanted = [records[name] for name in names if name in records]
        if not wanted:
            self._reap_all()
            return
        for record in reversed(wanted):  # in reverse order, as later processes depend on earlier ones
            with _opened(record) as pidfd:
                if pidfd is not None:
                    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
                    signal.pidfd_send_signal(pidfd, signal.SIGCONT)
        end = time.monotonic() + deadline_s
        for record in wanted:
            if not _gone_by(record, end):
                _end(record, (signal.SIGKILL,), 10.0)
        self._reap_all()
        with self._locked():
            current = self._read()
            # Only these processes: one restarted under the same name meanwhile keeps its record.
            self._write({name: record for name, record in current.items() if record not in wanted})

    def _reap_all(self) -> None:
        """Collect the exit status of children that ended."""
        self._children = {name: child for name, child in self._children.items() if child.poll() is None}

    def _read(self) -> dict[str, ProcessRecord]:
        try:
            return read_json(self.root / _STATE_NAME, _RECORDS, "See which processes run, then delete it.")
        except FileNotFoundError:
            return {}

    def _write(self, records: Mapping[str, ProcessRecord]) -> None:
        write_whole(
            self.root / _STATE_NAME, json.dumps({name: asdict(record) for name, record in records.items()}, indent=1)
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(self.root / "processes.lock"):
            yield


def wait_until(holds: Callable[[], bool], deadline_s: float, *, every_s: float = 0.05) -> bool:
    """Poll `holds` until it is true or `deadline_s` seconds have passed; returns whether it became true."""
    end = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() >= end:
            return False
        time.sleep(every_s)
    return True


def _spawn(
    argv: list[str], log: Path, environment: Mapping[str, str], cwd: Path | None, die_with_parent: bool
) -> subprocess.Popen[bytes]:
    descriptor = stored_descriptor(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=bind_to(os.getpid()) if die_with_parent else None,  # noqa: PLW1509  # two system calls, no Python locks
        )
    finally:
        os.close(descriptor)


def bind_to(parent: int) -> Callable[[], None]:
    """For `preexec_fn` of a child that the kernel is to end with the thread of `parent` that forks it."""

    def bind() -> None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)  # not SIGTERM, which a paused process would not handle
        if os.getppid() != parent:  # the parent ended before the line above took effect
            os._exit(1)

    return bind


def _end(record: ProcessRecord, numbers: Sequence[signal.Signals], deadline_s: float) -> bool:
    """Send the signals to the registered process and wait for its end. False when it had ended before."""
    with _opened(record) as pidfd:
        if pidfd is None or _ended(pidfd, 0):
            return False
        for number in numbers:
            signal.pidfd_send_signal(pidfd, number)
    if not _gone_by(record, time.monotonic() + deadline_s):
        raise TimeoutError(f"{record.name} (pid {record.pid}) outlived SIGKILL by {deadline_s} s")
    return True


def _gone_by(record: ProcessRecord, end: float) -> bool:
    with _opened(record) as pidfd:
        return pidfd is None or _ended(pidfd, max(0.0, end - time.monotonic()))


def _ended(pidfd: int, wait_s: float) -> bool:
    """Whether the process ends within `wait_s`. Its first thread may be a zombie while others still hold its ports."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)  # readable once the last thread is gone, child of ours or not
    return bool(poller.poll(wait_s * 1000))


@contextlib.contextmanager
def _opened(record: ProcessRecord) -> Iterator[int | None]:
    """A pidfd of the registered process, or None when it has ended; a zombie has one."""
    try:
        pidfd = os.pidfd_open(record.pid)
    except OSError as error:
        if error.errno not in _NO_PROCESS:
            raise
        yield None
        return
    try:
        # Opened first and checked second: the descriptor refers to this process even if the pid is recycled.
        yield pidfd if _is(record, _stat(record.pid)) else None
    finally:
        os.close(pidfd)


def _listening_ports(pid: int) -> frozenset[int]:
    """The ports of /proc/PID/net/tcp and tcp6 (proc(5)) whose sockets are among the open files of the process."""
    proc = Path(f"/proc/{pid}")
    ports: set[int] = set()
    with contextlib.suppress(OSError):  # it has ended, or is not ours
        sockets = set()
        for file in (proc / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                sockets.add(file.readlink().name.removeprefix("socket:").strip("[]"))
        for table in ("tcp", "tcp6"):
            for line in (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and fields[9] in sockets:
                    ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return frozenset(ports)


def _state(record: ProcessRecord) -> str:
    stat = _stat(record.pid)
    return stat[0] if stat is not None and _is(record, stat) and stat[0] not in "ZX" else ""


def _is(record: ProcessRecord, stat: tuple[str, int] | None) -> bool:
    return stat is not None and stat[1] == record.started_ticks and record.boot_id == _boot_id()


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time in ticks since boot of a process, from /proc/PID/stat (proc(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the command name before it may itself hold spaces and brackets
    return fields[0], int(fields[19])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
