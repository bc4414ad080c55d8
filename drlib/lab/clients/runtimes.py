"""What this machine has to run each family of clients with, and the command of a client.

Rules: only `fetch` uses the network; it takes the packages that the committed locks pin (`package-lock.json`, `go.sum`) through
their own package managers, and leaves what it made in a folder of its sources' digest, whole or not at all. A drill only looks.
`python -m drlib.lab.clients.runtimes` fetches.
Not for: starting clients (`on_lab`), and which are chosen (`families`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel

from drlib import decoding
from drlib.errors import DrlibError, MissingDependency
from drlib.files import cache_folder, file_lock, read_stored
from drlib.lab import jars
from drlib.lab.clients.families import BY_NAME, FAMILIES, RESTART_AFTER_S, Machine, Runtime, missing
from drlib.outgoing.environment import child_environment
from drlib.outgoing.terminal import show

Role = Literal["produce", "consume"]
PROGRAMS: Final = Path(__file__).with_name("programs")
JAVA_SOURCE: Final = PROGRAMS / "PlainClient.java"
STREAMS_SOURCE: Final = PROGRAMS / "StreamsClient.java"
JVM: Final = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_OLDER: Final = "kafka-clients-3.9"
_BESIDE: Final = ("slf4j-api", "lz4-java", "snappy-java", "zstd-jni")  # what kafka-clients needs
_LIBRARIES: Final = {"kafka-python": "kafka-python", "aiokafka": "aiokafka", "librdkafka": "confluent-kafka"}
_PATIENCE_S: Final = 300
_NEVER_S: Final = 86_400
_OF_MANAGERS: Final = (
    "GOPROXY",
    "GOFLAGS",
    "GOPATH",
    "GOMODCACHE",
    "GOCACHE",
    "GOSUMDB",
    "GOPRIVATE",
    "NODE_EXTRA_CA_CERTS",
)


@dataclass(frozen=True, slots=True)
class Client:
    """One client to start: `name` is its group, or how its records are named; `servers` its `bootstrap.servers`; `output` the
    topic of the sums of Kafka Streams. `recommended`: as docs/clients.md recommends, with settings and begun again; else with
    the library's defaults alone."""

    family: str
    role: Role
    name: str
    alias: str
    servers: str
    topics: tuple[str, ...]
    history: Path
    per_second: float
    config: Path | None = None  # security, as Java has it
    output: str = ""
    recommended: bool = True


class _Package(BaseModel):
    """The part of a package.json that is used."""

    dependencies: dict[str, str]


def store() -> Path:
    """The folder of what `fetch` made, which need not exist."""
    configured = os.environ.get("DRLIB_CLIENTS")
    return Path(configured).expanduser().absolute() if configured else cache_folder() / "clients"


@functools.cache
def found() -> tuple[Runtime, ...]:
    """Every family on this machine."""
    machine = look()
    return tuple(Runtime(family.name, version(family.name), missing(family.name, machine)) for family in FAMILIES)


def forget() -> None:
    """Let `found` look at this machine again: something may be installed since."""
    found.cache_clear()
    _has_compiler.cache_clear()


def look() -> Machine:
    """What is on this machine."""
    return Machine(
        compiler=_has_compiler(),
        older_jars=any(jar.name.startswith(_OLDER) for jar in _older_classpath()),
        streams_jar=bool(_streams_jar()),
        node=shutil.which("node") is not None,
        kafkajs=_made("kafkajs").is_dir(),
        go=shutil.which("go") is not None,
        franz_go=_made("franz-go").is_dir(),
    )


def version(family: str) -> str:
    """The version of a family's library, as the locks pin it."""
    if family in _LIBRARIES:
        installed = metadata.version(_LIBRARIES[family])
        if family != "librdkafka":
            return installed
        import confluent_kafka

        return str(confluent_kafka.libversion()[0])
    if family == "java-3.9":
        pinned = (jar.coordinate for jar in jars.locked_jars() if jar.file_name.startswith(_OLDER))
        return next(pinned, "").rpartition(":")[2]
    if family == "kafkajs":
        package = decoding.json_as(_Package, read_stored(PROGRAMS / family / "package.json"))
        return package.dependencies["kafkajs"]
    if family == "franz-go":
        pin = re.search(r"franz-go v(\S+)", read_stored(PROGRAMS / family / "go.mod").decode())
        return pin[1] if pin else ""
    return jars.KAFKA_VERSION


def command(client: Client) -> list[str]:
    """The command line of a client; every setting that is not there has its library's default."""
    family, topics, pace = BY_NAME[client.family], ",".join(client.topics), f"{client.per_second:g}"
    place = [client.role, client.name, client.alias, client.servers]
    java = [str(jars.java().path), *JVM, "-cp"]
    settings, restarts = (family.settings, family.restarts) if client.recommended else ((), False)
    match client.family:
        case "streams" if client.role == "consume":
            paths = (*jars.classpath("kafka"), *_streams_jar())
            state = f"state.dir={client.history.with_suffix('.state')}"
            return [
                *java,
                os.pathsep.join(map(str, paths)),
                str(STREAMS_SOURCE),
                *place[1:],
                str(client.config or ""),
                topics,
                client.output,
                str(client.history),
                state,
                *settings,
            ]
        case "java" | "java-3.9" | "streams":
            paths = _older_classpath() if client.family == "java-3.9" else jars.classpath("kafka")
            launched = [*java, os.pathsep.join(map(str, paths)), str(JAVA_SOURCE)]
            return [
                *launched,
                *place,
                str(client.config or ""),
                topics,
                str(client.history),
                "0",
                pace,
                *(() if family.sums else settings),
            ]
        case "console":
            tool = [*java, os.pathsep.join(map(str, jars.classpath("kafka")))]
            kept = [topics, str(client.history), pace, "0", str(client.config or "")]
            return [*_python("console_client"), *place, *kept, *tool]
        case "kafkajs":
            return [
                shutil.which("node") or "node",
                str(_made("kafkajs") / "client.js"),
                *place,
                topics,
                str(client.history),
                pace,
            ]
        case "franz-go":
            again = f"{RESTART_AFTER_S if restarts else _NEVER_S:g}"
            return [str(_made("franz-go") / "client"), *place, topics, str(client.history), pace, "0", again]
    named = ["--name", client.name, "--alias", client.alias, "--bootstrap", client.servers, "--topics", topics]
    more = ["--restart-after", str(RESTART_AFTER_S)] if restarts else []
    more += [] if client.config is None else ["--config", str(client.config)]
    kept = ["--history", str(client.history), "--per-s", pace, *more]
    return [*_python("python_client"), _LIBRARIES[client.family], client.role, *named, *kept]


def fetch() -> tuple[str, ...]:
    """Fetch or build the programs of kafkajs and franz-go where node and Go are there; the families that are new.

    Raises `MissingDependency` where a package manager fails.
    """
    new = []
    for family, tool in (("kafkajs", "npm"), ("franz-go", "go")):
        if shutil.which(tool) is None or _made(family).is_dir():
            continue
        store().mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(store() / ".lock"), tempfile.TemporaryDirectory(dir=store(), prefix=".incoming-") as incoming:
            if _made(family).is_dir():
                continue
            work = Path(incoming) / family
            shutil.copytree(PROGRAMS / family, work)
            commands = {
                "kafkajs": ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
                "franz-go": ["go", "build", "-o", "client", "."],
            }
            _run(commands[family], work)
            work.rename(_made(family))
            new.append(family)
    found.cache_clear()
    return tuple(new)


def _run(argv: Sequence[str], place: Path) -> None:
    ours = {name: os.environ[name] for name in _OF_MANAGERS if name in os.environ}
    environment = child_environment(ours)  # where packages are found is the package managers' to know
    try:
        done = subprocess.run(
            argv, cwd=place, capture_output=True, text=True, timeout=_PATIENCE_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise MissingDependency(
            f"{place.name} could not be fetched", f"{argv[0]} took more than {_PATIENCE_S} s", "Run it again."
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
        raise MissingDependency(
            f"{place.name} could not be fetched",
            f"{' '.join(argv[:2])} ended with {done.returncode}: {last}",
            "Check that this machine reaches the packages, and run it again.",
        )


def _made(family: str) -> Path:
    digest = hashlib.sha256()
    for path in sorted((PROGRAMS / family).iterdir()):
        digest.update(path.name.encode() + b"\0" + read_stored(path) + b"\0")
    return store() / f"{family}-{digest.hexdigest()[:16]}"


def _older_classpath() -> tuple[Path, ...]:
    """kafka-clients 3.9, which Spark's connector brings, and what it needs; none where it is not there."""
    try:
        older = [jar for jar in jars.classpath("spark") if jar.name.startswith(_OLDER)]
        return (*older, *(jar for jar in jars.classpath("kafka") if jar.name.startswith(_BESIDE)))
    except MissingDependency:
        return ()


def _streams_jar() -> tuple[Path, ...]:
    """Kafka Streams; none where it is not there."""
    try:
        return jars.classpath("streams")
    except MissingDependency:
        return ()


@functools.cache
def _has_compiler() -> bool:
    try:
        modules = subprocess.run(
            [str(jars.java().path), "--list-modules"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=child_environment(),
        ).stdout
    except (DrlibError, OSError, subprocess.SubprocessError):
        return False
    return "jdk.compiler" in modules


def _python(module: str) -> list[str]:
    return [sys.executable, "-P", "-m", f"drlib.lab.clients.{module}"]


def main() -> int:
    """0 when all that this machine can run is there, the error's exit code otherwise."""
    try:
        new = fetch()
    except MissingDependency as problem:
        show(str(problem), error=True)
        return problem.exit_code
    for each in found():
        show(f"{each.family} {each.version}: {each.missing or ('fetched' if each.family in new else 'it is there')}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
