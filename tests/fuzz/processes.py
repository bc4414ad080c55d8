"""Decoders of what processes of drlib, of this machine and of the lab say, in a form that takes bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from drlib.decoding import json_as
from drlib.lab import clocks, jars, lab, processes
from drlib.lab.apps import process, specs
from drlib.lab.checker import history
from drlib.lab.clients import on_lab
from drlib.lab.link import proxy, remote
from drlib.mirror.spark import child_worker, control_channel, handshake
from drlib.mirror.status import worker_status
from drlib.ui import jupyterlab
from drlib.ui.console import presence
from fuzz import samples
from fuzz.mutate import Case
from fuzz.stored import in_details, json_file

MESSAGES: Final[tuple[Case, ...]] = (
    (child_worker.encode_message(child_worker.StatusMessage(status=samples.STATUS)),),
    (b'{"ended":true,"error":{"what":"a","why":"b","remedy":"c","exit_code":2,"retriable":false}}',),
)
DRAWN: Final = "0" * 32
REGISTRATIONS: Final = samples.as_json(
    {"task": {"number": 1, "attempt": 2, "name": "w"}, "drawn": DRAWN, "proof": DRAWN}
)
CHALLENGES: Final = samples.as_json({"drawn": DRAWN})
WELCOMES: Final = samples.as_json({"proof": DRAWN})


def status(data: bytes) -> worker_status.WorkerStatus:
    return worker_status.decode(data)


def worker_message(line: bytes) -> object:
    return child_worker.decode_message(line)


def registration(line: bytes) -> object:
    """What a task says, and what the driver makes of it."""
    said = json_as(control_channel._REGISTRATION, line)
    handshake.proves(said.proof, control_channel._proof("token", handshake.TASK, DRAWN, said.drawn, said.task))
    return said


def challenge(line: bytes) -> object:
    drawn = json_as(control_channel._CHALLENGE, line).drawn
    return handshake.proof("token", handshake.TASK, drawn, DRAWN, 1, 1, "w")


def welcome(line: bytes) -> object:
    return handshake.proves(json_as(control_channel._WELCOME, line).proof, DRAWN)


JUPYTER: Final = samples.as_json({"port": 8888, "base_url": "/", "token": "abc", "pid": 5})


def jupyter_token(path: Path) -> object:
    return jupyterlab._token(path)


def jupyter_server(data: bytes) -> object:
    return json_as(presence._Server, data)


def history_lines(data: bytes) -> object:
    found = history.decode(data.splitlines(keepends=True))
    return [
        history.encode(row)
        for rows in (found.produced, found.consumed, found.committed, found.mirrored)
        for row in rows
    ]


_BROKER: Final = {
    "alias": "LEFT", "node_id": 1, "cluster_id": "c", "directory": "/tmp/x", "client_port": 1, "link_port": 2,
    "link_advertised_port": 3, "controller_port": 4, "voters": "1@127.0.0.1:4", "cluster_size": 1, "more": {"X": 5},
}  # fmt: skip
LABS: Final = samples.as_json({"clusters": {"LEFT": [_BROKER]}, "extra": {"a": "b"}, "security": {"protocol": "SSL"}})


def lab_state(data: bytes) -> object:
    return lab._read_state(in_details(lab.STATE_NAME, data))


PROCESSES: Final = samples.as_json({"w": {"name": "w", "pid": 5, "started_ticks": 7, "boot_id": "b", "log": "/x"}})
process_records: Final = json_file(processes._RECORDS)


CLIENTS: Final = samples.as_json(
    {"families": [{"family": "java", "version": "4.3.1", "missing": ""}], "left_behind": "", "address": "127.0.0.1:1"}
)
lab_clients: Final = json_file(on_lab._CHOSEN)


def client_starts(path: Path) -> object:
    return tuple(on_lab._starts(path))


def lab_clock(where: Path) -> object:
    return clocks.behind_ms(where, "LEFT")


LINKS: Final = samples.as_json({"control_port": 1, "token": "t", "links": {"LEFT-1": 5}})


def link_state(data: bytes) -> object:
    """The proxy's state, and a request to where nothing listens."""
    found = remote.LinkProxy(in_details("link.json", data) / "link.json")
    return found.ports


QUESTIONS: Final = samples.as_json(
    {"op": "links", "token": "t"},
    {"op": "target", "token": "t", "link": "LEFT-1", "port": 5},
    {"op": "set", "token": "t", "link": None, "direction": "both", "toxics": {"delay_ms": 5}, "cut": None},
    {"op": "forget", "token": "t", "link": "LEFT", "direction": "request"},
)


def link_question(line: bytes) -> object:
    """A line to the proxy: it is answered, whatever it is."""
    coroutine = proxy._Server([], "t")._answer(line)
    try:
        coroutine.send(None)
    except StopIteration as done:
        return json.dumps(done.value)
    raise AssertionError("it waits")


SPECS: Final = samples.as_json(
    {"pointer": "p", "history": "h", "mode": "flights", "records_per_second": 5, "status": None}
)
APPS: Final = samples.as_json(
    {
        "app": "a",
        "pid": 1,
        "phase": "running",
        "cluster": "LEFT",
        "pointer_version": 1,
        "done": 5,
        "in_flight": 0,
        "at_ms": 5,
    }
)
DIGESTS: Final = samples.as_json({"/x.jar": [[5, 6, 7, 8, 9], "0" * 64]})


def app_spec(path: Path) -> object:
    return specs.load(path, specs.ProducerSpec)


def app_status(path: Path) -> object:
    return process.read_status(path)


def jar_digests(data: bytes) -> object:
    where = in_details("cache/drlib/jar-digests.json", data)
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(where / "cache")
    try:
        return jars._known_digests()
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before
