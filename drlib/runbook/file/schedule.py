"""A runbook's schedule as a file for a scheduler: cron, systemd, Airflow.

Rules: a file is printed, never installed. Commands are argument lists joined by `shlex`, paths are whole, output goes where
the scheduler keeps it, and the exit code is the run's own, so a missed objective is a failed job. No secret is in it: what
a runbook needs is referred to and looked up where it runs.
"""

import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from drlib.errors import UsageError
from drlib.runbook.file import calendar
from drlib.runbook.file.calendar import Cron
from drlib.runbook.file.model import Runbook


class Scheduler(StrEnum):
    CRON = "cron"
    SYSTEMD = "systemd"
    AIRFLOW = "airflow"


def emit(book: Runbook, scheduler: Scheduler, *, runs_dir: Path, more: Sequence[str] = ()) -> str:
    """The file as text. `more` are further arguments of `drlib run`. Raises `UsageError` where the times cannot be said."""
    argv = [sys.executable, "-m", "drlib.cli", "run", str(book.file), "--runs-dir", str(runs_dir.absolute()), *more]
    match scheduler:
        case Scheduler.CRON:
            return _cron(book, argv)
        case Scheduler.SYSTEMD:
            return _systemd(book, argv)
        case Scheduler.AIRFLOW:
            return _airflow(book, argv)


def times(book: Runbook) -> Cron:
    """When it runs, as a cron expression. Raises `UsageError` for a runbook without a schedule."""
    if book.schedule is None:
        raise UsageError(
            f"runbook {book.name} has no schedule",
            "it does not say how often to run",
            "Add `schedule: {every: 30d}` to it.",
        )
    cron = calendar.parse_cron(book.schedule.cron) if book.schedule.cron else None
    cron = cron or calendar.usual_cron(calendar.every_hours(book.schedule.every))
    if cron is None:
        raise UsageError(
            f"runbook {book.name}: every {book.schedule.every}",
            "a scheduler's calendar cannot say that",
            "Add the times: `schedule: {every: ..., cron: '0 3 1 * *'}`.",
        )
    return cron


def _cron(book: Runbook, argv: Sequence[str]) -> str:
    command = shlex.join(argv).replace("%", r"\%")  # crontab(5): a bare % is a line end
    folder = shlex.quote(str(_home(book)))
    return (
        f"# {book.title}\n"
        "# Add it with: crontab -e. Times are the machine's; CRON_TZ=UTC is for cronie and others that know it.\n"
        f"CRON_TZ=UTC\n{times(book)} cd {folder} && {command}\n"
    )


def _systemd(book: Runbook, argv: Sequence[str]) -> str:
    try:
        when = calendar.on_calendar(times(book))
    except ValueError as error:
        raise UsageError(f"runbook {book.name}: its schedule", str(error), "Restrict one of the two days.") from None
    unit = f"drlib-{book.name}"
    command = " ".join(_word(part) for part in argv)
    return f"""\
# {book.title}
# Two files. Put them into /etc/systemd/system/, then: systemctl daemon-reload && systemctl enable --now {unit}.timer
# --- {unit}.service ---
[Unit]
Description={_escaped(book.title)}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
WorkingDirectory={_word(str(_home(book)))}
ExecStart={command}
# A run stops within seconds of SIGTERM, with its folder finished.
TimeoutStopSec=60
TimeoutStartSec=infinity
KillMode=mixed
UMask=0077
NoNewPrivileges=yes
ProtectClock=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes

# --- {unit}.timer ---
[Unit]
Description=When to run: {_escaped(book.title)}

[Timer]
OnCalendar={when}
Persistent=yes
RandomizedDelaySec=60

[Install]
WantedBy=timers.target
"""


def _airflow(book: Runbook, argv: Sequence[str]) -> str:
    name = f"drlib_{book.name}".replace("-", "_").replace(".", "_")
    return f'''\
"""{_plain(book.title)}

For Airflow 2.4 and later: put this file into its dags folder. The task's state is the run's exit code.
"""

from __future__ import annotations

import datetime

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # Airflow 2
    from airflow.operators.bash import BashOperator

with DAG(
    dag_id={name!r},
    description={book.title!r},
    schedule={str(times(book))!r},
    start_date=datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
    catchup=False,
    max_active_runs=1,
    tags=["drlib", "drill"],
):
    # A drill that failed is looked at by a person, not repeated.
    BashOperator(task_id="run", bash_command={shlex.join(argv)!r}, cwd={str(_home(book))!r}, retries=0)
'''


def _home(book: Runbook) -> Path:
    return book.file.parent.parent


def _escaped(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")


def _word(text: str) -> str:
    """systemd.syntax(7): quoted where needed, and no specifier or variable in it."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if any(c in text for c in " '\t;") else text


def _plain(text: str) -> str:
    return text.replace("\\", "").replace('"', "'")
