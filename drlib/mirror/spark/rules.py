"""Decide on workers on a Spark cluster: the master's addresses, Spark's settings, what is sent, and what follows when one ends.

Rules: a worker that has run once is restarted, however its task ended, because a mirror outlives executors; a worker that never
ran would not run the next time either, so its cause ends the command. An error that only the operator can solve is not retried.
Settings that the operator gives override those made here. A properties file is sent to executors with its entries as written,
references unresolved, and only those of keys that drlib uses; comments and other keys stay here. One value that may be a
secret and is not entirely a reference keeps the whole file here. The token of the control channel goes to executors over
Spark's own connections, which have to keep it to themselves: on this machine, or authenticated and encrypted by Spark, or where
the operator says that they need not. A setting of Spark that is a secret is a reference, which is on no command line.
Source: `spark.task.maxFailures`, `spark.cores.max` and `spark.executor.memoryOverhead` of Spark's configuration;
`PythonWorkerFactory` and `pyspark.worker` for the texts of failures. Not for: calling Spark (`drlib.mirror.spark.driver`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from drlib import decoding
from drlib.config import keys
from drlib.config.shown import PUBLIC, holds_secret, without_scope
from drlib.errors import Aborted, DrlibError, MissingDependency, Unreachable, UsageError
from drlib.formats import bracketed
from drlib.kafka.java_formats.properties import Entry, PropertiesFile
from drlib.kafka.java_formats.references import only_references, refers
from drlib.kafka.security.java_keys import HONOURED
from drlib.outgoing.credentials import form_of, names_secret
from drlib.outgoing.http_request import is_loopback

MIB: Final = 1 << 20
EXECUTOR_MIB: Final = 512  # the JVM only starts the task's Python; Spark's minimum is 450
OVERHEAD_MIB: Final = 384  # spark.executor.minMemoryOverhead
RESTART_S, RESTART_AT_MOST_S = 1.0, 30.0
STANDALONE: Final = "spark://"
_MASTER: Final = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|yarn|k8s://.+|spark://.+")
_HIDDEN_BY_SPARK: Final = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)  # spark.redaction.regex
_OURS: Final = re.compile(r"^drlib\.errors\.\w+: (.+)$", re.MULTILINE)
_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_JAVA: Final = re.compile(r"(?:^|\s)[\w.$]+(?:Exception|Error): (.+)")


def addresses(master: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each master of a standalone cluster; empty for other kinds of master. Raises `UsageError`."""
    if not _MASTER.fullmatch(master):
        raise _no_master(master)
    if not master.startswith(STANDALONE):
        return ()
    try:
        return tuple(decoding.address(address) for address in master.removeprefix(STANDALONE).split(","))
    except decoding.Undecodable:
        raise _no_master(master) from None


def parse_settings(pairs: Sequence[str]) -> Mapping[str, str]:
    """Parse `spark.KEY=VALUE` pairs. Raises `UsageError`, which quotes no value, also for a secret that is written out."""
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.startswith("spark.")):
            raise UsageError(
                f"--spark-conf {key} is no setting of Spark", "it is not spark.KEY=VALUE", "Write spark.task.cpus=1."
            )
        if not only_references(value) and (names_secret(key) or form_of(value)):
            raise UsageError(
                f"--spark-conf {key.strip()} holds a secret",
                "every user of this machine can list the arguments of a process",
                f"Write --spark-conf '{key.strip()}=${{env:NAME}}', or ${{file:/path:key}}.",
            )
        if refers(value) and not _HIDDEN_BY_SPARK.search(key):
            raise UsageError(
                f"--spark-conf {key.strip()} refers to a value",
                "Spark shows the values of this setting on its pages and sends them to executors",
                "Set what is secret where the executors run; here, a reference is for keys such as spark.authenticate.secret.",
            )
        settings[key.strip()] = value.strip()
    return settings


def refuse_open_connections(master: str, given: Mapping[str, str], effective: Mapping[str, str]) -> None:
    """Raises `UsageError` where others may read what Spark sends to executors of `master`, or send something themselves.

    `given` are the operator's settings, `effective` those of the running application, with the defaults of its installation.
    """
    hosts = [host for host, _ in addresses(master)]
    if master.startswith("local") or (hosts and all(map(is_loopback, hosts))):
        return

    def on(key: str) -> bool:
        return effective.get(key, "").strip().lower() == "true"

    if on("spark.authenticate") and (on("spark.network.crypto.enabled") or on("spark.ssl.rpc.enabled")):
        return
    if given.get("spark.authenticate", "").strip().lower() == "false":
        return
    raise UsageError(
        f"--spark {master}: Spark's connections are open to others",
        "they carry what lets a program report as a worker, and Spark neither authenticates nor encrypts them",
        "Set spark.authenticate and spark.network.crypto.enabled to true for the cluster and by --spark-conf, with "
        "spark.authenticate.secret=${env:NAME} on a standalone one; or say that the network keeps others out: "
        "--spark-conf spark.authenticate=false.",
    )


def settings(
    master: str, workers: int, memory_bytes: int, conf: Mapping[str, str], python_path: str
) -> Mapping[str, str]:
    """Spark's settings for `workers` of `memory_bytes` each. `python_path`: PYTHONPATH of this process, "" for none."""
    tasks = decoding.integer_or(1, conf.get("spark.executor.cores", ""), 1)  # Spark refuses what is no number
    made = {
        "spark.ui.enabled": "true",
        "spark.ui.killEnabled": "false",  # the UI has no login; Ctrl-C here stops the workers orderly
        "spark.executor.memory": f"{EXECUTOR_MIB}m",
        "spark.executor.memoryOverhead": f"{OVERHEAD_MIB + tasks * -(-memory_bytes // MIB)}m",
        "spark.python.worker.reuse": "false",  # the Python process ends with its task, and so does its worker
    }
    if master.startswith(STANDALONE):
        made["spark.cores.max"] = str(workers)  # otherwise an application takes all cores
    if python_path:
        made["spark.executorEnv.PYTHONPATH"] = python_path
    return made | dict(conf)


def advertised_address(address: str, own: str) -> str:
    """`HOST:PORT` for the worker's claims; a wildcard host is replaced by the executor's `own` address."""
    host, _, port = address.rpartition(":")
    return address if host not in ("0.0.0.0", "::", "[::]") else f"{bracketed(own)}:{port}"


def should_restart(exit_code: int, retriable: bool, ran: bool) -> bool:
    """True where a worker that ended with an error is restarted. `exit_code` is 0 where it ended without an error."""
    return ran and (retriable or exit_code == 0)


def restart_pause_s(restarts: int) -> float:
    """Seconds to wait before the `restarts`-th restart of a worker, from 1."""
    return min(RESTART_AT_MOST_S, RESTART_S * 2.0 ** (restarts - 1))


def explain_failure(what: str, text: str) -> DrlibError:
    """The error for a failed job, with cause and remedy, from Spark's `text`."""
    if ours := _OURS.findall(text):
        return DrlibError(what, ours[-1].rstrip(". "), "Correct that and run the command again.")
    if missing := _MODULE.search(text):
        return MissingDependency(
            what,
            f"the executors' Python has no module {missing[1]}",
            "Install drlib for the executors, or ship an environment: spark.archives with PYSPARK_PYTHON.",
        )
    if "PYTHON_VERSION_MISMATCH" in text:
        return MissingDependency(
            what, "the executors run another Python version than this", "Set PYSPARK_PYTHON to the same version there."
        )
    if "Cannot run program" in text:
        return MissingDependency(
            what, "the executors have no Python of that path", "Set PYSPARK_PYTHON to a path that is on every executor."
        )
    if "SparkContext was shut down" in text:
        return Unreachable(
            what,
            "Spark ended the application: it was removed, or its master gave up on it",
            "Run the command again when the master answers: nothing is lost.",
        )
    if re.search(r"cancell?ed", text):
        return Aborted(what, "its job was cancelled", "Run the command again: nothing is lost.")
    return DrlibError(what, cause_of(text), "See the executor's stderr on the Spark UI, and run the command again.")


def cause_of(text: str) -> str:
    """The message of the last Java exception in `text`, or its last line."""
    if causes := [match[1].strip() for line in text.splitlines() if (match := _JAVA.search(line))]:
        return causes[-1].rstrip(". ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return lines[-1].rstrip(". ") if lines else "it gave no reason"


def _no_master(master: str) -> UsageError:
    return UsageError(
        f"{master} is no Spark master",
        "it is none of local[N], spark://HOST:PORT, yarn, k8s://URL",
        "Write spark://HOST:7077, as the master's page shows it.",
    )


def secrets_in(file: PropertiesFile, aliases: Collection[str]) -> tuple[str, ...]:
    """Keys, as `KEY (line N)`, whose secrets a worker needs and the file itself holds; repeated keys count each time."""
    return tuple(
        f"{entry.key} (line {entry.line})" for name, entry in _used(file, aliases) if holds_secret(name, entry.value)
    )


def sent_file(file: PropertiesFile, aliases: Collection[str]) -> PropertiesFile:
    """What executors get of a file without secrets: the keys that have an effect. Any other may hold anything."""
    return PropertiesFile(file.path, tuple(entry for _, entry in _used(file, aliases)))


def _used(file: PropertiesFile, aliases: Collection[str]) -> Iterator[tuple[str, Entry]]:
    """Entries with an effect, each with its key without cluster, flow and client."""
    for entry in file.entries:
        name = keys.without_client_prefix(without_scope(entry.key, aliases))
        if name in PUBLIC or name in HONOURED:
            yield name, entry
