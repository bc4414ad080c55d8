"""`drlib witness`: keep asking the clusters of a file from this host, and say what it sees to those who decide on a failover.

Rules: it only connects, and serves `/witness` at one address until SIGTERM or SIGINT. A line for every change of an answer.
"""

import signal
import threading
from pathlib import Path
from typing import Annotated, Final

import typer

from drlib.errors import DrlibError
from drlib.outgoing.terminal import show

_LOOK_S: Final = 0.2


def witness(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    at: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to say it; reachable from those who decide.")],
) -> None:
    """Say what this host sees of the clusters, for `drlib failover --witness` and runbooks, until SIGTERM or SIGINT.

    Run it at a third place, whose network fails with neither cluster. Exit code 0: it was ended.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.witness.evidence import Answer
    from drlib.drill.witness.look import answers
    from drlib.drill.witness.service import Witness
    from drlib.kafka.security.cluster_settings import ClusterSettings

    def ask(cluster: ClusterSettings) -> Answer:
        return answers([cluster])[cluster.alias]

    clusters = tuple(load_mirror_settings(file).clusters.values())
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    serving = Witness(at, clusters, ask)
    said: dict[str, Answer] = {}
    try:
        show(f"says what it sees of {', '.join(each.alias for each in clusters)} at {serving.address}")
        while not ended.wait(_LOOK_S):
            if isinstance(serving.failure, DrlibError):
                raise serving.failure
            for alias, seen in serving.seen().items():
                if said.get(alias) is not seen.answer:
                    said[alias] = seen.answer
                    show(f"{alias}: {seen.answer}")
    finally:
        serving.close()
