"""A runbook's schedule as a file for a scheduler: cron, systemd, Airflow, jupyter-scheduler.

Rules: a file is printed, never installed. Commands are argument lists joined by `shlex`, paths are whole, output goes where
the scheduler keeps it, and the exit code is the run's own, so a missed objective is a failed job. No secret is in it: what
a runbook needs is referred to and looked up where it runs. Never as root, unless the caller says so.
Not for: how a value is written in such a file (`drlib.outgoing.service_files`).
"""

import os
import pwd
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from drlib.errors import UsageError
from drlib.outgoing import service_files
from drlib.outgoing.service_files import Escaped, airflow_template, comment, fill, python_text
from drlib.runbook.file import calendar, jupyter_job
from drlib.runbook.file.calendar import Cron
from drlib.runbook.file.drill_section import title
from drlib.runbook.file.model import Runbook

CRONTAB: Final = """\
{title}
# Add it with: crontab -u {user} -e. Times are the machine's; CRON_TZ=UTC is for cronie and others that know it.
CRON_TZ=UTC
{needs}{times} {command}
"""
SYSTEMD: Final = """\
{title}
# Two files. Put them into /etc/systemd/system/, then: systemctl daemon-reload && systemctl enable --now {unit}.timer
# --- {unit}.service ---
[Unit]
Description={description}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
User={user}
WorkingDirectory={folder}
{needs}ExecStart={command}
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
Description=When to run: {description}

[Timer]
OnCalendar={when}
Persistent=yes
RandomizedDelaySec=60

[Install]
WantedBy=timers.target
"""
AIRFLOW: Final = """\
# For Airflow 2.4 and later: put this file into its dags folder. The task's state is the run's exit code.

from __future__ import annotations

import datetime

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # Airflow 2
    from airflow.operators.bash import BashOperator

with DAG(
    dag_id={name},
    description={description},
    schedule={times},
    start_date=datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
    catchup=False,
    max_active_runs=1,
    tags=["drlib", "drill"],
):
    # A drill that failed is looked at by a person, not repeated.
{needs}    BashOperator(task_id="run", bash_command={command}, cwd={folder}, retries=0)
"""


class Scheduler(StrEnum):
    CRON = "cron"
    SYSTEMD = "systemd"
    AIRFLOW = "airflow"
    JUPYTER = "jupyter-scheduler"


def emit(
    book: Runbook,
    scheduler: Scheduler,
    *,
    runs_dir: Path,
    more: Sequence[str] = (),
    user: str | None = None,
    variables: Sequence[str] = (),
) -> str:
    """The file as text. `more` are further arguments of `drlib run`; `user` runs it, by default the caller's. `variables` of
    the environment are what it refers to: a scheduler has others than the shell that this was typed in.

    Raises `UsageError` where the times cannot be said, where a path or an argument cannot be written for the scheduler, and
    for root without `user`: who may edit the runbook, its notebook or a hook would be root.
    """
    argv = [
        sys.executable,
        "-P",
        "-m",
        "drlib.cli",
        "run",
        str(book.file),
        "--runs-dir",
        str(runs_dir.absolute()),
        *more,
    ]
    match scheduler:
        case Scheduler.CRON:
            return _cron(book, argv, _user(user), variables)
        case Scheduler.SYSTEMD:
            return _systemd(book, argv, _user(user), variables)
        case Scheduler.AIRFLOW:
            if user is not None:
                raise UsageError("--user and --as airflow", "tasks run as Airflow's workers do", "Leave --user out.")
            return _airflow(book, argv, variables)
        case Scheduler.JUPYTER:
            if user is not None:
                why = "jobs run as JupyterLab does"
                raise UsageError("--user and --as jupyter-scheduler", why, "Leave --user out.")
            return _jupyter(book, argv, variables)


def _user(given: str | None) -> Escaped:
    if given is not None:
        return service_files.unit_user(given)
    number = os.geteuid()
    if number == 0:
        raise UsageError(
            "a scheduled run would be root's",
            "who may edit the runbook, its notebook or a hook of it would be root",
            "Give --user NAME: a user who may write to the folder of runs.",
        )
    try:
        return service_files.unit_user(pwd.getpwuid(number).pw_name)
    except KeyError:  # as in many containers
        return service_files.unit_user(str(number))


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


def _needs(variables: Sequence[str], where: str, more: Escaped | None = None, indent: str = "") -> Escaped:
    """A comment with the variables that have to be set, or nothing."""
    if not variables:
        return fill("")
    said = comment(f"The run refers to {', '.join(variables)} of its environment: {where}")
    return fill("{indent}{said}\n{more}", indent=fill(indent), said=said, more=more or fill(""))


def _cron(book: Runbook, argv: Sequence[str], user: Escaped, variables: Sequence[str]) -> str:
    return fill(
        CRONTAB,
        title=comment(title(book.title, None)),
        needs=_needs(variables, "a line NAME=value for each, in place of this one."),
        user=user,
        times=service_files.unit_text(str(times(book))),
        command=service_files.cron_command(_home(book), argv),
    )


def _systemd(book: Runbook, argv: Sequence[str], user: Escaped, variables: Sequence[str]) -> str:
    try:
        when = calendar.on_calendar(times(book))
    except ValueError as error:
        raise UsageError(f"runbook {book.name}: its schedule", str(error), "Restrict one of the two days.") from None
    unit = service_files.unit_name(f"drlib-{book.name}")
    read = fill("EnvironmentFile=/etc/{unit}.env\n", unit=unit)
    return fill(
        SYSTEMD,
        title=comment(title(book.title, None)),
        unit=unit,
        needs=_needs(variables, "a file of NAME=value lines, owned by root, mode 0600.", read),
        description=service_files.unit_text(title(book.title, None)),
        user=user,
        folder=service_files.unit_path(_home(book)),
        command=service_files.unit_command(argv),
        when=service_files.unit_text(when),
    )


def _airflow(book: Runbook, argv: Sequence[str], variables: Sequence[str]) -> str:
    return fill(
        AIRFLOW,
        needs=_needs(variables, "set them where Airflow's workers start.", indent="    "),
        name=python_text(f"drlib_{book.name}".replace("-", "_").replace(".", "_")),
        description=python_text(title(book.title, None)),
        times=python_text(str(times(book))),
        command=airflow_template(shlex.join(argv)),
        folder=airflow_template(str(_home(book))),
    )


def _jupyter(book: Runbook, argv: Sequence[str], variables: Sequence[str]) -> str:
    needs = _needs(variables, "set them where JupyterLab starts.")
    return needs + jupyter_job.files(jupyter_job.job_definition(book.name, argv, _home(book), times(book)))


def _home(book: Runbook) -> Path:
    return book.file.parent.parent
