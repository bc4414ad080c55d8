"""Workers on a Spark cluster: where its master is, what is set for them, and what follows when one ends.

Rules: a worker that has run once is begun again, however its task ended, because a mirror outlives executors; one that never
began would not begin the next time either, so its cause ends the command, in a sentence. An error that nothing but a
person can mend is not tried again. What a person sets counts before what is set here.
Source: `spark.task.maxFailures`, `spark.cores.max` and `spark.executor.memoryOverhead` of Spark's configuration;
`PythonWorkerFactory` and `pyspark.worker` for the words of failures. Not for: talking to Spark (`drlib.mirror.spark`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from drlib.errors import Aborted, DrlibError, MissingDependency, Unreachable, UsageError

MIB: Final = 1 << 20
EXECUTOR_MIB: Final = 512  # the JVM only hands a task on: Spark's least is 450
OVERHEAD_MIB: Final = 384  # spark.executor.minMemoryOverhead
AGAIN_S, AGAIN_AT_MOST_S = 1.0, 30.0
STANDALONE: Final = "spark://"
_MASTER: Final = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|yarn|k8s://.+|spark://.+")
_OURS: Final = re.compile(r"^drlib\.errors\.\w+: (.+)$", re.MULTILINE)
_MODULE: Final = re.compile(r"No module named '([\w.]+)'")
_JAVA: Final = re.compile(r"(?:^|\s)[\w.$]+(?:Exception|Error): (.+)")


def addresses(master: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each master of a standalone cluster; nothing for a master that is found in another way.

    Raises `UsageError` for what is no master.
    """
    if not _MASTER.fullmatch(master):
        raise _no_master(master)
    if not master.startswith(STANDALONE):
        return ()
    found = []
    for place in master.removeprefix(STANDALONE).split(","):
        host, colon, port = place.strip().rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise _no_master(master)
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


def parse_settings(pairs: Sequence[str]) -> Mapping[str, str]:
    """`KEY=VALUE` each, keys of Spark. Raises `UsageError`, which quotes no value."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.startswith("spark.")):
            raise UsageError(
                f"--spark-conf {key} is no setting of Spark", "it is not spark.KEY=VALUE", "Write spark.task.cpus=1."
            )
        found[key.strip()] = value.strip()
    return found


def settings(
    master: str, workers: int, memory_bytes: int, given: Mapping[str, str], python_path: str
) -> Mapping[str, str]:
    """What Spark is told for `workers` of `memory_bytes` each. `python_path` is PYTHONPATH here, "" for none."""
    cores = given.get("spark.executor.cores", "1")
    tasks = int(cores) if cores.isdigit() else 1
    found = {
        "spark.ui.enabled": "true",
        "spark.ui.killEnabled": "false",  # the page asks nobody who they are; Ctrl-C here stops the workers in order
        "spark.executor.memory": f"{EXECUTOR_MIB}m",
        "spark.executor.memoryOverhead": f"{OVERHEAD_MIB + tasks * -(-memory_bytes // MIB)}m",
        "spark.python.worker.reuse": "false",  # a task's Python process ends with it, and with it the line to its worker
    }
    if master.startswith(STANDALONE):
        found["spark.cores.max"] = str(workers)  # else an application takes every core there is
    if python_path:
        found["spark.executorEnv.PYTHONPATH"] = python_path
    return found | dict(given)


def answering_at(address: str, own: str) -> str:
    """`HOST:PORT` where a worker on an executor answers: for every address of its host, the one that is its `own`.

    It stands in the worker's claims, where others look for it.
    """
    host, _, port = address.rpartition(":")
    return address if host not in ("0.0.0.0", "::", "[::]") else f"[{own}]:{port}" if ":" in own else f"{own}:{port}"


def begun_again(exit_code: int, retriable: bool, ran: bool) -> bool:
    """Is a worker that ended with an error begun again? `exit_code` is 0 where it ended without one."""
    return ran and (retriable or exit_code == 0)


def pause_s(times: int) -> float:
    """How long to wait before a worker is begun for the `times`-th time again, from 1."""
    return min(AGAIN_AT_MOST_S, AGAIN_S * 2.0 ** (times - 1))


def failure(what: str, text: str) -> DrlibError:
    """What Spark says when a job fails, `text`, as an error that names its cause and what to do."""
    if ours := _OURS.findall(text):
        return DrlibError(what, ours[-1].rstrip(". "), "Mend that and run the command again.")
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
            "Spark ended the application: it was removed, or its master gave it up",
            "Run the command again when the master answers: nothing is lost.",
        )
    if re.search(r"cancell?ed", text):
        return Aborted(what, "somebody cancelled its job", "Run the command again: nothing is lost.")
    return DrlibError(what, last_words(text), "See the executor's stderr on the Spark UI, and run the command again.")


def last_words(text: str) -> str:
    """The message of the last Java exception in `text`, or its last line."""
    if causes := [found[1].strip() for line in text.splitlines() if (found := _JAVA.search(line))]:
        return causes[-1].rstrip(". ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return lines[-1].rstrip(". ") if lines else "it gave no reason"


def _no_master(master: str) -> UsageError:
    return UsageError(
        f"--spark {master} is no master of Spark",
        "it is none of local[N], spark://HOST:PORT, yarn, k8s://URL",
        "Write spark://HOST:7077, as the master's page shows it.",
    )
