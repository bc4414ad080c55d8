"""The jars of the lab and of Spark, from Maven coordinates to verified files on this machine.

Rules: a class path holds exactly the jars in `jars.lock`, byte for byte (SHA-256), whenever it is asked for; only `fetch` uses
the network; a jar appears in the store complete or not at all. A jar's bytes are read once: its digest is kept, in a private
file of this user, for as long as the jar is the same file, of the same size and unchanged since.
`python -m drlib.lab.jars` fetches; `python -m drlib.lab.jars --lock` resolves the coordinates again and rewrites the
lock.

The store is `$DRLIB_JARS`, or `jars` in the user's cache (`drlib.files.cache_folder`). Not for: running Java
(`drlib.lab.brokers.broker`) or Spark sessions.
"""

import argparse
import contextlib
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import MissingDependency
from drlib.extras import require
from drlib.files import cache_folder, file_lock, open_stored, read_stored, write_whole
from drlib.outgoing.environment import child_environment
from drlib.outgoing.terminal import show

Kind = Literal["kafka", "mm2", "streams", "spark"]

KAFKA_VERSION: Final = "4.3.1"
JAVA_MINIMUM: Final = 17  # Kafka 4 brokers and Spark 4 both refuse anything older

_SLF4J_BACKEND: Final = (
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"  # Kafka speaks slf4j 1.7 and ships log4j 2.25
)

# `kafka` carries MirrorMaker 2 too: its readers (MirrorClient, RemoteClusterUtils) judge our topics next to the broker.
_KAFKA_ROOTS: Final = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-mirror-client:{KAFKA_VERSION}",
)
# Alone: beside `kafka` it lacks rocksdbjni, of 70 MB, and the lab's stores are in memory.
_STREAMS: Final = f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}"
# Exactly these: everything else the connector asks for is already inside pyspark.
_SPARK_ROOTS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)

LOCK_PATH: Final = Path(__file__).with_name("jars.lock")
_LOCK_HEADER: Final = "# sha256 | bytes | class paths | coordinate. Written by: python -m drlib.lab.jars --lock\n"
_HTTP_TIMEOUT_S: Final = 60
_ATTEMPTS: Final = 4
_DOWNLOADS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar: `coordinate` is group:artifact:version, `size` is in bytes."""

    coordinate: str
    sha256: str
    size: int
    kinds: frozenset[str]

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"


def parse_lock(text: str) -> tuple[Jar, ...]:
    """The jars of a lock file's text, in class path order. Raises `ValueError` for a line that is not one of ours."""
    jars = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        sha256, size, kinds, coordinate = line.split(" | ")
        if not re.fullmatch(r"[0-9a-f]{64}", sha256) or coordinate.count(":") != 2:
            raise ValueError(f"not a line of a jar lock: {line}")
        jars.append(Jar(coordinate, sha256, int(size), frozenset(kinds.split(","))))
    return tuple(jars)


def render_lock(jars: Iterable[Jar]) -> str:
    """The inverse of `parse_lock`."""
    lines = (f"{jar.sha256} | {jar.size} | {','.join(sorted(jar.kinds))} | {jar.coordinate}\n" for jar in jars)
    return _LOCK_HEADER + "".join(lines)


def store() -> Path:
    """The folder of the jars, which need not exist."""
    configured = os.environ.get("DRLIB_JARS")
    if configured:
        return Path(configured).expanduser().absolute()  # brokers run in folders of their own
    return cache_folder() / "jars"


@functools.cache
def locked_jars() -> tuple[Jar, ...]:
    """Every jar of the committed lock."""
    return parse_lock(LOCK_PATH.read_text(encoding="utf-8"))


def classpath(kind: Kind) -> tuple[Path, ...]:
    """The verified jars of one class path, in a stable order.

    `kafka` and `mm2` hold the broker, its tools and MirrorMaker 2; `streams` holds Kafka Streams alone, which goes beside
    `kafka`; `spark` holds the Kafka connector without any transitive dependency. Raises `MissingDependency` when a jar is
    not there, or is not the one that the lock pins.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"unknown class path {kind!r}; known: {', '.join(get_args(Kind))}")
    wanted = [jar for jar in locked_jars() if kind in jar.kinds]
    absent = missing(wanted)
    if absent:
        require("spark" if kind == "spark" else "lab", "Fetching jars")
        raise MissingDependency(
            f"{len(absent)} of {len(wanted)} jars of the {kind} class path are missing or altered",
            f"{absent[0].file_name} is not in {store()} as drlib/lab/jars.lock pins it",
            "Fetch them: python -m drlib.lab.jars (make setup does it too)",
        )
    return tuple(store() / jar.file_name for jar in wanted)


def missing(jars: Iterable[Jar]) -> tuple[Jar, ...]:
    """Those of `jars` that are not in the store as the lock pins them."""
    root, known, read = store(), _known_digests(), dict[str, _Known]()
    absent = tuple(jar for jar in jars if _digest(root / jar.file_name, jar.size, known, read) != jar.sha256)
    if read:
        with contextlib.suppress(OSError):  # it only saves time
            _digests_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(_digests_file(), _DIGESTS.dump_json({**known, **read}))
    return absent


def fetch(wanted: Sequence[Jar] | None = None, *, on_event: Callable[[str], None] = lambda _: None) -> tuple[Jar, ...]:
    """Bring `wanted`, every jar of the committed lock by default, into the store; returns those that were downloaded.

    Safe to run from several processes at once. Raises `MissingDependency` when the resolver is not installed, a
    download keeps failing, or a file is not the one that the lock pinned.
    """
    wanted = locked_jars() if wanted is None else wanted
    if not missing(wanted):
        return ()
    root = store()
    root.mkdir(parents=True, exist_ok=True)
    with file_lock(root / ".lock"), tempfile.TemporaryDirectory(dir=root, prefix=".incoming-") as incoming:
        absent = missing(wanted)  # another process may have fetched while this one waited
        done = 0
        with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
            pending = {pool.submit(_fetch_one, jar, root, Path(incoming)): jar for jar in absent}
            try:
                for future in as_completed(pending):
                    future.result()
                    done += 1
                    on_event(f"[{done}/{len(absent)}] {pending[future].file_name}")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return absent


def resolve_lock(*, on_event: Callable[[str], None] = lambda _: None) -> tuple[Jar, ...]:
    """Resolve the coordinates again, download the jars and return them as a lock, without writing it."""
    kinds: dict[str, set[str]] = {}
    # The backend alone: as a root it would impose its parent's dependency management (another jackson, snappy) on Kafka's.
    for coordinate in (*resolve(_KAFKA_ROOTS), _SLF4J_BACKEND):
        kinds.setdefault(coordinate, set()).update({"kafka", "mm2"})
    kinds.setdefault(_STREAMS, set()).add("streams")
    for coordinate in _SPARK_ROOTS:
        kinds.setdefault(coordinate, set()).add("spark")
    on_event(f"{len(kinds)} jars resolved")
    return pin(kinds)


def resolve(roots: Sequence[str]) -> list[str]:
    """The coordinates of `roots` and of all that they need when they run. Uses the network."""
    with _scratch() as incoming:
        context = _context(incoming)
        inputs, transitive = context.resolver.resolve([context.create_dependency(root) for root in roots])
        needed = [*inputs, *(candidate for candidate in transitive if candidate.scope in ("compile", "runtime"))]
        return [f"{each.groupId}:{each.artifactId}:{each.version}" for each in needed]


def pin(kinds: Mapping[str, Iterable[str]]) -> tuple[Jar, ...]:
    """Download jars, given the class paths of each coordinate, and return them as a lock. They are not kept."""
    with _scratch() as incoming:

        def one(coordinate: str) -> Jar:
            path = _download(coordinate, incoming)
            return Jar(coordinate, _sha256(path), path.stat().st_size, frozenset(kinds[coordinate]))

        with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
            return tuple(pool.map(one, sorted(kinds)))


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    root = store()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".incoming-") as incoming:
        yield Path(incoming)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: `path` of the launcher and `version`, its feature release (17, 21, ...)."""

    path: Path
    version: int


def java() -> Java:
    """The Java of `$JAVA_HOME`, else of `$PATH`. Raises `MissingDependency` for none, or one older than 17."""
    return _java(os.environ.get("JAVA_HOME"), os.environ.get("PATH"))


@functools.lru_cache(maxsize=8)
def _java(home: str | None, search_path: str | None) -> Java:
    remedy = f"Install a Java {JAVA_MINIMUM} or newer runtime (Debian: `apt-get install openjdk-17-jre-headless`)"
    launcher = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=search_path)
    if launcher is None:
        raise MissingDependency("Java is missing", "there is no `java` on the PATH and JAVA_HOME is not set", remedy)
    try:
        output = subprocess.run(
            [launcher, "-version"], capture_output=True, text=True, timeout=60, check=True, env=child_environment()
        ).stderr
    except (OSError, subprocess.SubprocessError) as problem:
        raise MissingDependency(
            "Java does not run", f"`{launcher} -version` failed with {problem}", remedy
        ) from problem
    version = java_feature_release(output)
    if version is None or version < JAVA_MINIMUM:
        first = output.splitlines()[0] if output else "nothing"
        raise MissingDependency("Java is too old", f"`{launcher} -version` says {first}", remedy)
    return Java(Path(launcher).absolute(), version)


def java_feature_release(version_output: str) -> int | None:
    """The feature release in what `java -version` prints: 17 for `"17.0.15"`, 8 for `"1.8.0_392"`, None for neither."""
    match = re.search(r'version "(?:1\.)?(\d+)', version_output)
    return int(match[1]) if match else None


def _fetch_one(jar: Jar, root: Path, incoming: Path) -> None:
    path = _download(jar.coordinate, incoming)
    digest = _sha256(path)
    if digest != jar.sha256:
        raise MissingDependency(
            f"{jar.file_name} is not the pinned file",
            f"its SHA-256 is {digest} and drlib/lab/jars.lock says {jar.sha256}",
            "Check the Maven repository that this machine reaches; nothing was installed",
        )
    path.replace(root / jar.file_name)


def _download(coordinate: str, incoming: Path) -> Path:
    group, artifact, version = coordinate.split(":")
    for attempt in range(1, _ATTEMPTS + 1):
        wanted = _context(incoming).project(group, artifact).at_version(version).artifact()
        try:
            return Path(wanted.resolve())
        except (
            OSError,
            RuntimeError,
        ) as problem:  # requests' errors are OSErrors; jgo raises RuntimeError for "not found"
            if wanted.cached_path is not None:
                Path(wanted.cached_path).unlink(missing_ok=True)  # a partial file must not be mistaken for the jar
            if attempt == _ATTEMPTS:
                raise MissingDependency(
                    f"{coordinate} could not be downloaded",
                    f"attempt {attempt} ended with {type(problem).__name__}",
                    "Check that this machine reaches a Maven repository and run `make setup` again",
                ) from problem
            time.sleep(0.2 * attempt)  # back off
    raise AssertionError("unreachable: the last attempt returns or raises")


def _context(repository: Path):  # type: ignore[no-untyped-def]  # jgo ships untyped; its MavenContext stays in this module
    try:
        from jgo.maven import MavenContext
    except ImportError as problem:
        raise MissingDependency(
            "The Maven resolver is missing",
            "the Python package jgo is not installed",
            "Install it: pip install 'drlib[lab]'",
        ) from problem
    return MavenContext(repo_cache=repository, timeout=_HTTP_TIMEOUT_S)


def _sha256(path: Path) -> str:
    with open_stored(path) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _digests_file() -> Path:
    return cache_folder() / "jar-digests.json"


def _known_digests() -> dict[str, "_Known"]:
    """The digests that were kept; none where their file is another user's, or was not written by drlib."""
    try:
        return decoding.json_as(_DIGESTS, read_stored(_digests_file(), _MOST_DIGESTS, trusted=True))
    except (OSError, Undecodable):
        return {}


def _digest(path: Path, size: int, known: Mapping[str, "_Known"], read: dict[str, "_Known"]) -> str:
    """The SHA-256 of a jar, kept or computed into `read`; empty for one that is not there with its `size`, or is no file."""
    try:
        with open_stored(path) as jar:
            identity = _identity(jar.fileno())
            if identity[0] != size:
                return ""
            kept = known.get(str(path))
            if kept is not None and kept[0] == identity:
                return kept[1]
            digest = hashlib.file_digest(jar, "sha256").hexdigest()
            if _identity(jar.fileno()) == identity:  # not written to meanwhile
                read[str(path)] = (identity, digest)
            return digest
    except OSError:
        return ""


def _identity(descriptor: int) -> tuple[int, ...]:
    """What changes with a file's content: size, times, and which file it is. `mtime` can be set back, `ctime` cannot."""
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev


_Known = tuple[tuple[int, ...], str]
_DIGESTS: Final = TypeAdapter(dict[str, _Known])
_MOST_DIGESTS: Final = 4 << 20


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m drlib.lab.jars [--lock]`: 0 when every jar is there, the error's exit code otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m drlib.lab.jars", description="Fetch the jars of the lab and of Spark."
    )
    parser.add_argument("--lock", action="store_true", help="resolve the coordinates again and rewrite jars.lock")
    options = parser.parse_args(argv)

    def report(line: str) -> None:
        show(line, error=True)

    try:
        if options.lock:
            LOCK_PATH.write_text(render_lock(resolve_lock(on_event=report)), encoding="utf-8")
            locked_jars.cache_clear()
        new = fetch(on_event=report)
        java()
    except MissingDependency as problem:
        report(str(problem))
        return problem.exit_code
    report(f"{len(locked_jars())} jars in {store()}, {len(new)} of them new")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
