"""The registry stops what it started, from any process, and never anything else."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.files import write_whole
from drlib.lab.processes import ProcessRegistry, wait_until

SLEEPER = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
]


def started(registry: ProcessRegistry, name: str, argv: list[str]) -> int:
    log = registry.root / f"{name}.log"
    record = registry.start(name, argv, log=log)
    assert wait_until(lambda: "up" in log.read_text(), 10)
    return record.pid


def started_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def ticks_since_boot() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_registry_stop_ends_and_unregisters(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path / "lab")
    pid = started(registry, "one", SLEEPER)
    assert registry.alive("one")
    assert os.getsid(pid) == pid

    registry.stop("one")

    assert not exists(pid)
    assert registry.records() == ()


def test_registry_stop_kills_at_deadline(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path / "lab")
    pid = started(registry, "stubborn", STUBBORN)
    registry.stop("stubborn", deadline_s=0.2)
    assert not exists(pid)


def test_registry_paused_process_is_reported_and_stopped(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path / "lab")
    pid = started(registry, "one", SLEEPER)
    assert registry.signal("one", signal.SIGSTOP)
    assert wait_until(lambda: registry.status()[0].paused, 5)

    registry.stop("one", deadline_s=5)

    assert not exists(pid)


def test_registry_recycled_pid_is_not_signalled(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path / "lab")
    bystander = subprocess.Popen(SLEEPER, stdout=subprocess.DEVNULL)
    try:
        # Both would otherwise start in one tick of 10 ms now and then, and no recycled pid ever does.
        assert wait_until(lambda: ticks_since_boot() > started_ticks(bystander.pid), 5)
        gone = started(registry, "one", SLEEPER)
        registry.kill("one")
        records = json.loads((tmp_path / "lab" / "processes.json").read_text())
        assert records["one"]["pid"] == gone
        records["one"]["pid"] = bystander.pid  # the kernel gave the number to another process
        write_whole(tmp_path / "lab" / "processes.json", json.dumps(records))

        assert not registry.alive("one")
        assert not registry.signal("one", signal.SIGKILL)
        assert not registry.kill("one")
        registry.stop_all(deadline_s=0.2)

        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_registry_record_of_earlier_boot_is_not_signalled(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path / "lab")
    pid = started(registry, "one", SLEEPER)
    state = tmp_path / "lab" / "processes.json"
    true = json.loads(state.read_text())
    write_whole(state, json.dumps({"one": {**true["one"], "boot_id": "another"}}))

    assert not registry.kill("one")
    assert exists(pid)

    write_whole(state, json.dumps(true))
    assert registry.kill("one")


def test_registry_stop_all_from_another_process(tmp_path: Path) -> None:
    root = tmp_path / "lab"
    registry = ProcessRegistry(root)
    pids = [started(registry, name, SLEEPER) for name in ("one", "two")]
    program = (
        "import sys; from pathlib import Path; from drlib.lab.processes import ProcessRegistry;"
        "ProcessRegistry(Path(sys.argv[1])).stop_all()"
    )
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    subprocess.run([sys.executable, "-c", program, str(root)], check=True, env={**os.environ, "PYTHONPATH": path})

    assert not registry.status()
    registry.stop_all()  # nothing left to do but to collect the exit statuses
    assert not any(exists(pid) for pid in pids)


@pytest.mark.parametrize(("family", "address"), [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")])
def test_registry_ports_are_those_of_the_process_alone(tmp_path: Path, family: str, address: str) -> None:
    program = (
        f"import socket, time; s = socket.socket(socket.{family}); s.bind(({address!r}, 0)); s.listen()\n"
        "print('up', s.getsockname()[1], flush=True); time.sleep(60)"
    )
    registry = ProcessRegistry(tmp_path / "lab")
    log = tmp_path / "one.log"
    with socket.create_server(("127.0.0.1", 0)) as other:
        registry.start("one", [sys.executable, "-c", program], log=log)
        assert wait_until(lambda: log.read_text().endswith("\n"), 10)
        assert registry.ports("one") == {int(log.read_text().split()[1])}
        assert other.getsockname()[1] not in registry.ports("one")
    registry.kill("one")
    assert registry.ports("one") == registry.ports("unknown") == frozenset()


def test_registry_process_that_another_registry_stopped_leaves_no_warning(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from drlib.lab.processes import ProcessRegistry; root = Path(sys.argv[1])\n"
        "ProcessRegistry(root).start('one', sys.argv[2:], log=root / 'one.log')\n"
        "ProcessRegistry(root).stop_all()\n"
    )
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", program, str(tmp_path / "lab"), *SLEEPER],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stderr == ""


def test_registry_children_die_with_parent_from_any_thread(tmp_path: Path) -> None:
    root = tmp_path / "lab"
    # The thread that asks ends at once: were the child bound to it, it would be dead before `alive` is printed.
    program = (
        "import sys, threading; from pathlib import Path; from drlib.lab.processes import ProcessRegistry\n"
        "registry = ProcessRegistry(Path(sys.argv[1]))\n"
        "thread = threading.Thread(target=registry.start, args=('one', sys.argv[2:]),"
        " kwargs={'log': Path(sys.argv[1]) / 'one.log'})\n"
        "thread.start(); thread.join()\n"
        "print(registry.alive('one'), flush=True); sys.stdin.read()\n"
    )
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(
        [sys.executable, "-c", program, str(root), *SLEEPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"True\n"
        observer = ProcessRegistry(root)
        assert wait_until(lambda: "up" in (root / "one.log").read_text(), 10)
        assert observer.alive("one")
        parent.kill()
    assert wait_until(lambda: not observer.alive("one"), 5)


def test_registry_name_in_use_is_refused(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path / "lab")
    started(registry, "one", SLEEPER)
    try:
        with pytest.raises(UsageError, match="running already"):
            registry.start("one", SLEEPER, log=tmp_path / "log")
        registry.kill("one")
        assert started(registry, "one", SLEEPER)
    finally:
        registry.stop_all()


def test_registry_files_are_private(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path / "lab")
    started(registry, "one", SLEEPER)
    registry.kill("one")
    assert stat.S_IMODE((tmp_path / "lab").stat().st_mode) == 0o700
    for path in (tmp_path / "lab").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_stop_of_a_process_whose_number_is_a_thread_of_another_one_now_passes_it_over(tmp_path: Path) -> None:
    registry, over = ProcessRegistry(tmp_path), threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        record = {"name": "gone", "pid": other.native_id, "started_ticks": 1, "boot_id": "", "log": "gone.log"}
        write_whole(tmp_path / "processes.json", json.dumps({"gone": record}))
        assert not registry.alive("gone")
        assert not registry.kill("gone")
        registry.stop_all()
        assert registry.records() == ()
        assert other.is_alive()
    finally:
        over.set()
        other.join()
