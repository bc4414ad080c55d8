"""`drlib service`: print a systemd unit for a worker or a bootstrap address, alert rules, or a dashboard.

Rules: the unit runs as a dynamic user, with a read-only file system and the file as a credential; it is ready when the worker
notifies systemd, restarted when it dies or hangs, and not restarted where the file is wrong (exit code 2). Files and variables
that the file refers to are named in comments, since only the operator knows where they are.
Not for: installing, enabling or starting anything; how a value is written in a unit (`drlib.outgoing.service_files`).
"""

import re
import shlex
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from drlib.errors import UsageError
from drlib.outgoing import service_files
from drlib.outgoing.service_files import Escaped, comment, fill
from drlib.outgoing.terminal import write_document

if TYPE_CHECKING:
    from drlib.kafka.java_formats.properties import PropertiesFile

service_app = typer.Typer(
    help="Run workers as services of the operating system, and monitor them.",
    no_args_is_help=True,
    add_completion=False,
)

_ENVIRONMENT = re.compile(r"\$\{env:([^}:]+)\}")
_FILES = re.compile(r"\$\{file:([^}]+):[^}:]+\}")
_DIRECTORIES = re.compile(r"\$\{directory:([^}]+):[^}:]+\}")
_STORES: Final = ("ssl.keystore.location", "ssl.truststore.location", "drlib.witness.ca")
_HOMES = (("home",), ("root",), ("run", "user"))  # what ProtectHome hides, as the first parts of a path
_HOME_HIDDEN: Final = "ProtectHome=yes"
_HOME_READABLE: Final = """\
# Python is in a home directory, which must stay visible; better install drlib under /opt.
ProtectHome=read-only"""
_CREDENTIAL: Final = """\
{about}
{reference}
# LoadCredential={credential}:{path}
"""
_VARIABLES: Final = """\
{about}
EnvironmentFile=-/etc/{unit}.env
"""
HARDENING: Final = """\
DynamicUser=yes
UMask=0077
WorkingDirectory=/
Environment=PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
{home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
LimitNOFILE=65536
"""
HEAD: Final = """\
# {unit}.service: written by `drlib service {command}`
# For systemd 250 and later. Install:
{install}
#    sudo systemctl daemon-reload && sudo systemctl enable --now {unit}.service
[Unit]
Description=drlib {what}
Documentation=man:systemd.exec(5)
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=20
"""
UNIT: Final = """\
{head}ExecStart={python} -P -m drlib.cli mirror %d/mirror.properties --status %t/{unit}/status.json
# A worker drains in ten seconds; SIGKILL after that is safe, too.
KillMode=mixed
TimeoutStopSec=30
# Ready when every flow runs; a flow whose cluster is down is waited for, while the others mirror.
TimeoutStartSec=infinity
Restart=always
RestartSec=2
# 2: the file is wrong, and a restart would not help.
RestartPreventExitStatus=2
# systemd reads the file and passes it to the worker as a credential, so root may own it with mode 0600.
LoadCredential=mirror.properties:{file}
{hints}RuntimeDirectory={unit}
RuntimeDirectoryMode=0700
{hardening}
[Install]
WantedBy=multi-user.target
"""

BOOTSTRAP: Final = """\
{head}ExecStart={python} -P -m drlib.cli bootstrap %d/mirror.properties --state %S/{unit}/state.json{options}
KillMode=mixed
TimeoutStopSec=30
# Ready when it knows the active cluster and listens.
TimeoutStartSec=60
Restart=always
RestartSec=2
# 2: the file or an address is wrong, and a restart would not help.
RestartPreventExitStatus=2
# systemd reads the file and passes it on as a credential, so root may own it with mode 0600.
LoadCredential=mirror.properties:{file}
{hints}# The last pointer, for a restart while no cluster answers.
StateDirectory={unit}
StateDirectoryMode=0700
{hardening}
[Install]
WantedBy=multi-user.target
"""


@service_app.callback()
def service() -> None:
    """Run workers as services of the operating system, and monitor them."""


@service_app.command("systemd")
def systemd(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    name: Annotated[str, typer.Option(help="The unit's name, without .service.")] = "drlib-mirror",
) -> None:
    """Print a hardened systemd unit that runs `drlib mirror FILE`."""
    write_document(unit_for(file, name))


@service_app.command("bootstrap")
def bootstrap(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    listen: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="As of `drlib bootstrap`; repeat for more.")
    ] = None,
    address: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="As of `drlib bootstrap`; repeat for more.")
    ] = None,
    metrics: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="As of `drlib bootstrap`.")] = None,
    name: Annotated[str, typer.Option(help="The unit's name, without .service.")] = "drlib-bootstrap",
) -> None:
    """Print a hardened systemd unit that runs `drlib bootstrap FILE` with a state file."""
    write_document(bootstrap_unit(file, name, listen or (), address or (), metrics))


@service_app.command("prometheus")
def prometheus() -> None:
    """Print alert rules for Prometheus, for workers that are scraped as job "drlib"."""
    write_document(monitoring_file("alerts.yml"))


@service_app.command("grafana")
def grafana() -> None:
    """Print a Grafana dashboard (JSON) for the metrics of workers."""
    write_document(monitoring_file("dashboard.json"))


def monitoring_file(name: str) -> str:
    """The text of a file of `drlib.mirror.status.monitoring`."""
    return resources.files("drlib.mirror.status.monitoring").joinpath(name).read_text(encoding="utf-8")


def unit_for(file: Path, name: str) -> str:
    """The unit's text. Raises `UsageError` for a file or name that cannot be used."""
    from drlib.kafka.java_formats import properties, references

    unit = service_files.unit_name(name)
    path = file.absolute()
    read = properties.read(path)
    text = references.declared_text(read)
    flows = _flows(path, _refers(text))
    python = Path(sys.executable).absolute()
    return fill(
        UNIT,
        head=_head(unit, "systemd", ["--name", unit, str(path)], f"mirror of {flows}"),
        unit=unit,
        python=service_files.unit_command([str(python)]),
        file=service_files.unit_path(path),
        hints=_hints(unit, text, _stores(read)),
        hardening=fill(HARDENING, home=_home(python)),
    )


def bootstrap_unit(
    file: Path, name: str, listen: Sequence[str], address: Sequence[str] = (), metrics: str | None = None
) -> str:
    """The text of a bootstrap address's unit. Raises `UsageError` for a file, name or address that cannot be used."""
    from drlib.kafka.java_formats import properties, references
    from drlib.mirror.status.endpoint import parse_address

    unit, path = service_files.unit_name(name), file.absolute()
    options = [("--listen", each) for each in listen] + [("--address", each) for each in address]
    options += [("--metrics", metrics)] if metrics is not None else []
    for _, each in options:
        parse_address(each)
    given = [word for option in options for word in option]
    read = properties.read(path)
    text = references.declared_text(read)
    python = Path(sys.executable).absolute()
    clusters = _clusters(path, _refers(text))
    return fill(
        BOOTSTRAP,
        head=_head(unit, "bootstrap", ["--name", unit, *given, str(path)], f"bootstrap of {clusters}"),
        unit=unit,
        python=service_files.unit_command([str(python)]),
        options=service_files.joined(fill(" {word}", word=service_files.unit_argument(word)) for word in given),
        file=service_files.unit_path(path),
        hints=_hints(unit, text, _stores(read)),
        hardening=fill(HARDENING, home=_home(python)),
    )


def _head(unit: Escaped, command: str, arguments: Sequence[str], what: str) -> Escaped:
    """What every unit begins with: how it was printed and is installed, and `what` it is."""
    printed = shlex.join(["drlib", "service", command, *arguments])
    return fill(
        HEAD,
        unit=unit,
        command=service_files.unit_text(command),
        install=comment(f"   {printed} | sudo tee /etc/systemd/system/{unit}.service"),
        what=service_files.unit_text(what),
    )


def _clusters(path: Path, has_references: bool) -> str:
    """The clusters in words; the file's name where a reference cannot be resolved here."""
    from drlib.config.settings import load_mirror_settings

    try:
        return ", ".join(load_mirror_settings(path).clusters)
    except UsageError:
        if has_references:  # it may be valid where the unit runs
            return path.name
        raise


def _flows(path: Path, has_references: bool) -> str:
    """The enabled flows in words; the file's name where a reference cannot be resolved here."""
    from drlib.config.settings import load_mirror_settings

    try:
        settings = load_mirror_settings(path)
    except UsageError:
        if has_references:  # it may be valid where the unit runs
            return path.name
        raise
    if not settings.enabled_flows:
        raise UsageError(f"nothing to mirror in {path}", "no flow is enabled", "Set 'A->B.enabled = true' for a flow.")
    return ", ".join(f"{flow.flow.source} to {flow.flow.target}" for flow in settings.enabled_flows)


def _refers(text: str) -> bool:
    return any(pattern.search(text) for pattern in (_ENVIRONMENT, _FILES, _DIRECTORIES))


def _stores(file: "PropertiesFile") -> tuple[str, ...]:
    """The key stores, and files of authorities, that the file names: a unit's user of its own reads only public ones."""
    entries = file.effective().values()
    return tuple(
        sorted({each.value.strip() for each in entries if each.key.endswith(_STORES) and "${" not in each.value})
    )


def _hints(unit: Escaped, text: str, stores: Sequence[str]) -> Escaped:
    """What only the operator can add, as comments that become directives where their `#` is taken away."""
    parts = []
    for kind, paths, written in (
        ("secrets", _FILES.findall(text), "${{file:{at}:KEY}}"),
        ("secrets-of", _DIRECTORIES.findall(text), "${{directory:/run/credentials/{unit}.service:{credential}_FILE}}"),
        ("store", [each for each in stores if each], "{at}"),
    ):
        unless = (
            "Give it" if kind == "secrets" else "Unless every user may read it and it is below no home or /tmp, give it"
        )
        for number, path in enumerate(sorted(set(paths)), 1):
            credential = service_files.unit_name(f"{kind}-{number}")
            reference = written.format(
                at=f"/run/credentials/{unit}.service/{credential}", unit=unit, credential=credential
            )
            parts.append(
                fill(
                    _CREDENTIAL,
                    about=comment(f"{path} is named in the file. {unless} as a credential, then refer to it there as"),
                    reference=comment(f"{reference}:"),
                    credential=credential,
                    path=service_files.unit_path(Path(path)),
                )
            )
    if variables := sorted(set(_ENVIRONMENT.findall(text))):
        about = f"The file refers to {', '.join(variables)}: a file of NAME=value lines, owned by root, mode 0600."
        parts.append(fill(_VARIABLES, about=comment(about), unit=unit))
    return service_files.joined(parts)


def _home(python: Path) -> Escaped:
    visible = any(path.parts[1 : 1 + len(home)] == home for home in _HOMES for path in (python, python.resolve()))
    return fill(_HOME_READABLE if visible else _HOME_HIDDEN)
