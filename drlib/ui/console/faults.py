"""The faults a console can inject into a lab and repair, as data: the button, what it changes, and how.

Rules: a fault that takes a cluster or its link away is dangerous, and shows its plan before anything is done; each has a
button that repairs it. Applications connect directly and the mirror through the link, so link faults never affect
applications. Only a lab's own processes, links and clocks are changed: brokers keep the machine's clock, applications have
clocks of the lab's. Records keep wrong timestamps for good, so skewed clocks are dangerous as well.
Not for: clusters outside a lab.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from drlib.errors import UsageError
from drlib.lab import clocks
from drlib.lab.disk import Disk
from drlib.lab.lab import Lab
from drlib.lab.workload import mirrors
from drlib.lab.workload.mirrors import MirrorWorker
from drlib.model import Flow

DELAY_MS: Final = 200.0
BANDWIDTH: Final = 1_000_000.0  # bytes per second
BEHIND_MIN: Final = 20  # what most alarms and none of the usual retention times would notice


@dataclass(frozen=True, slots=True)
class Fault:
    """`changes` has one place for the alias; `undo` names the button that reverts it, empty for one that does."""

    name: str
    label: str
    changes: str
    act: Callable[[Lab, str], None]
    dangerous: bool = False
    undo: str = ""

    def plan(self, alias: str) -> str:
        """One sentence on what pressing the button will change."""
        back = f" {self.undo} reverts it." if self.undo else ""
        return f"{self.changes.format(alias=alias)}{back}"


def _kill(lab: Lab, alias: str) -> None:
    _needs_running(lab, alias, "killed")
    lab.clusters[alias].kill()


def _start(lab: Lab, alias: str) -> None:
    """Leaves running brokers alone; a paused one is resumed first, because it would not answer."""
    if not lab.clusters[alias].alive and Disk(lab, alias).full:
        raise UsageError(f"{alias} was not started", "its disk is full", "Press Free disk first.")
    lab.clusters[alias].resume()
    lab.clusters[alias].start()


def _pause(lab: Lab, alias: str) -> None:
    _needs_running(lab, alias, "paused")
    lab.clusters[alias].pause()


def _fill(lab: Lab, alias: str) -> None:
    Disk(lab, alias).fill()


def _free(lab: Lab, alias: str) -> None:
    Disk(lab, alias).free()


def _resume(lab: Lab, alias: str) -> None:
    _needs_running(lab, alias, "resumed")
    lab.clusters[alias].resume()


def _needs_running(lab: Lab, alias: str, done: str) -> None:
    if not any(broker.alive for broker in lab.clusters[alias].brokers):
        raise UsageError(f"{alias} was not {done}", "none of its brokers is running", "Press Start first.")


FAULTS: Final = (
    Fault(
        "kill",
        "Kill",
        "Every broker of {alias} gets SIGKILL, as when a site is lost. Data on disk stays.",
        _kill,
        dangerous=True,
        undo="Start",
    ),
    Fault(
        "start",
        "Start",
        "Every stopped broker of {alias} is started with its data and ports; a paused one is resumed.",
        _start,
    ),
    Fault(
        "pause",
        "Pause",
        "Every broker of {alias} gets SIGSTOP: connections stay open and nothing answers.",
        _pause,
        dangerous=True,
        undo="Resume",
    ),
    Fault("resume", "Resume", "Every broker of {alias} gets SIGCONT.", _resume),
    Fault(
        "fill",
        "Fill disk",
        "No log of {alias}'s first broker can grow beyond 16 KB: the first append that would fails, and the broker shuts down.",
        _fill,
        dangerous=True,
        undo="Free disk, then Start,",
    ),
    Fault("free", "Free disk", "{alias}'s disk has room again; start a broker that shut down.", _free),
    Fault(
        "cut",
        "Cut link",
        "The mirror's connections to {alias} are reset, and new ones refused. Applications are not on the link.",
        lambda lab, alias: lab.proxy.set(alias, cut=True),
        dangerous=True,
        undo="Heal link",
    ),
    Fault(
        "delay",
        f"Delay {DELAY_MS:g} ms",
        f"Data over the link to {{alias}} takes {DELAY_MS:g} ms longer, each way.",
        lambda lab, alias: lab.proxy.set(alias, delay_ms=DELAY_MS),
        undo="Heal link",
    ),
    Fault(
        "throttle",
        f"Throttle to {BANDWIDTH / 1e6:g} MB/s",
        f"The link to {{alias}} carries {BANDWIDTH / 1e6:g} MB/s at most, each way.",
        lambda lab, alias: lab.proxy.set(alias, bandwidth=BANDWIDTH),
        undo="Heal link",
    ),
    Fault(
        "skew",
        "Skew clocks",
        f"Machines of applications that work with {{alias}} have clocks {BEHIND_MIN} minutes behind: what they write is "
        "stamped with that time, and stays so. Brokers keep the right time.",
        lambda lab, alias: clocks.set_back(lab.root, alias, BEHIND_MIN * 60_000),
        dangerous=True,
        undo="Set clocks",
    ),
    Fault(
        "set",
        "Set clocks",
        "Clocks of machines that work with {alias} are right again; records keep their timestamps.",
        lambda lab, alias: clocks.set_back(lab.root, alias, 0),
    ),
    Fault(
        "heal",
        "Heal link",
        "The link to {alias} is healthy again: no delay, no throttle, not cut.",
        lambda lab, alias: lab.proxy.clear(alias),
    ),
    Fault(
        "cut-applications",
        "Cut applications",
        "The applications' connections to {alias} are reset, and new ones refused. The mirror and this console still reach it.",
        lambda lab, alias: lab.proxy.cut_applications(alias),
        dangerous=True,
        undo="Reconnect applications",
    ),
    Fault(
        "reconnect-applications",
        "Reconnect applications",
        "The applications reach {alias} again.",
        lambda lab, alias: lab.proxy.cut_applications(alias, False),
    ),
)


def fault(name: str) -> Fault:
    """Raises `UsageError` for an unknown name."""
    for candidate in FAULTS:
        if candidate.name == name:
            return candidate
    raise UsageError(f"fault {name}", "there is no such fault", f"The faults are: {', '.join(f.name for f in FAULTS)}.")


def carry_out(lab: Lab, name: str, alias: str, typed: str = "") -> str:
    """Inject the fault and return a description of it. Raises `UsageError` when a dangerous one is not confirmed by name."""
    chosen = fault(name)
    if alias not in lab.clusters:
        raise UsageError(
            f"cluster {alias}", "the lab has no such cluster", f"Its clusters are {', '.join(lab.clusters)}."
        )
    if chosen.dangerous and typed.strip() != alias:
        raise UsageError(
            f"{chosen.label} of {alias} was not done",
            f"the name typed is '{typed.strip()}'" if typed.strip() else "its name was not typed",
            f"Type {alias} into the field, or leave it.",
        )
    chosen.act(lab, alias)
    return f"{chosen.label} of {alias}: done."


def start_mirror(lab: Lab, flow: str) -> str:
    """Start the worker of `flow` again that the lab has the file of. Raises `UsageError` where it never had one."""
    source, _, target = flow.partition("->")
    file = mirrors.file_of(lab, Flow(source, target))
    if file is None:
        raise UsageError(
            f"the mirror of {flow} was not started",
            "the lab never had a worker of it",
            "Run the notebook that starts one.",
        )
    MirrorWorker(lab, file.stem, file, file.with_name(f"{file.stem}.status.json")).launch()
    return f"Start the mirror of {flow}: done. It resumes at the exact record."
