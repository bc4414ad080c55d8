"""The settings of an application: one small JSON file, parsed to a frozen value before anything is opened.

Rules: an unknown key or a value of the wrong type is a `UsageError` that names it; no secrets. The program that starts the
application writes the file. Paths are absolute or relative to the working directory.
Not for: settings that change while the application runs; those are in the pointer.
"""

import json
import types
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from drlib import decoding
from drlib.client.pointer import Pointer
from drlib.client.pointer_file import OwnPointerWatcher, PointerWatcher
from drlib.client.read_plan import Scope
from drlib.config.settings import load_client_settings
from drlib.errors import UsageError
from drlib.files import read_stored, write_whole
from drlib.lab.connection import Where


class ProducerMode(StrEnum):
    FLIGHTS = "flights"  # the replay, until SIGTERM
    FLIGHTS_2013 = "flights-2013"  # `records` rows with their original timestamps, then exit
    FLIGHTS_TX = "flights-tx"  # small transactions, until SIGTERM


@dataclass(frozen=True, slots=True)
class ProducerSpec:
    """One producing application.

    The first `backlog` records are not paced, the others at `records_per_second`; `start_at` skips that many flights;
    `max_in_flight` bounds the records in doubt. `records` applies to `flights-2013`, `tx_*` to `flights-tx`.
    `status`, if set, is a file rewritten every 200 ms with the application's state. `clocks`, if set, is the folder of the lab
    whose clocks give record timestamps (`drlib.lab.clocks`). `client`, if set, is a properties file with the security keys of
    Java's clients, secrets as references. `addresses` are the bootstrap.servers of clusters by alias, for a network of the
    application's own; those of other clusters are the pointer's. `application`: its name, by which it has a pointer of its own
    beside `pointer` where it is moved alone.
    """

    pointer: str
    history: str
    mode: ProducerMode = ProducerMode.FLIGHTS
    topic: str = "flights"
    records_per_second: float = 2000.0
    backlog: int = 0
    start_at: int = 0
    max_in_flight: int = 5000
    settle_s: float = 0.5
    records: int = 5000
    tx_every_s: float = 0.2
    tx_records: int = 5
    transactional_id: str = "flights-tx"
    status: str | None = None
    clocks: str | None = None
    client: str | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    pointer_deadline_s: float = 30.0
    application: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """One consuming application, a member of `group`.

    `records_per_second` 0 means unlimited; `after_move_records_per_second` applies after the first move of the pointer
    (None: unchanged). A batch has at most `max_batch` records. With a `pattern` it is an ordinary consumer: it reads every
    topic whose whole name matches, later ones too, concurrently and in no order between topics; `refresh_topics_s` is the
    interval of metadata refreshes. `client`, `addresses` and `application` as for producers. With `parse` it stops
    at a value that is not JSON, as an application does whose deserializer fails, until its group is moved past that record and
    it is started again.
    """

    pointer: str
    history: str
    group: str
    topic: str = "flights"
    records_per_second: float = 0.0
    after_move_records_per_second: float | None = None
    max_batch: int = 2000
    scope: Scope = Scope.PARTITION
    pattern: str | None = None
    refresh_topics_s: float = 300.0
    session_timeout_ms: int = 10_000
    status: str | None = None
    client: str | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    pointer_deadline_s: float = 30.0
    application: str = ""
    parse: bool = False


Spec = TypeVar("Spec", ProducerSpec, ConsumerSpec)


def where(spec: ProducerSpec | ConsumerSpec, pointer: Pointer) -> Where:
    """How the application reaches the cluster that `pointer` names. Raises `UsageError` for an invalid client file."""
    bootstrap = spec.addresses.get(pointer.active, pointer.bootstrap)
    if spec.client is None:
        return bootstrap
    return load_client_settings(spec.client, pointer.active, bootstrap.split(","))[0]


def watcher(spec: ProducerSpec | ConsumerSpec) -> PointerWatcher:
    """What the application follows: its own pointer beside that of all, where it has a name."""
    path = Path(spec.pointer)
    return OwnPointerWatcher(path, spec.application) if spec.application else PointerWatcher(path)


def write(path: Path, spec: ProducerSpec | ConsumerSpec) -> None:
    write_whole(path, json.dumps(asdict(spec), indent=1) + "\n")


def load(path: Path, kind: type[Spec]) -> Spec:
    """Read a spec. Raises `UsageError` for a missing file, other JSON, an unknown key, or a value of another type."""
    try:
        document = decoding.json_value(read_stored(path))
    except OSError as error:
        raise UsageError(f"cannot read {path.name}", str(error.strerror), "Give the path of a spec file") from None
    except ValueError as error:
        raise UsageError(f"{path.name} is not JSON", str(error), "Write it with drlib.lab.apps.specs.write") from None
    if not isinstance(document, dict):
        raise UsageError(
            f"{path.name} is not a spec", "it is not a JSON object", "Write it with drlib.lab.apps.specs.write"
        )
    hints = get_type_hints(kind)
    known = {one.name for one in fields(kind)}
    for key in document:
        if key not in known:
            raise UsageError(
                f"unknown key {key!r} in {path.name}",
                f"{kind.__name__} has no such field",
                f"Use one of {sorted(known)}",
            )
    values: Any = {key: _typed(path.name, key, value, hints[key]) for key, value in document.items()}
    try:
        return kind(**values)  # every value has just been checked against its field's type
    except TypeError as error:
        raise UsageError(f"{path.name} is incomplete", str(error), "Add the missing key") from None


def _typed(name: str, key: str, value: object, hint: object) -> object:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for choice in choices:
        if choice is type(None) and value is None:
            return None
        if choice is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if (
            isinstance(choice, type)
            and issubclass(choice, StrEnum)
            and isinstance(value, str)
            and value in list(choice)
        ):
            return choice(value)
        if choice in (bool, int, str) and type(value) is choice:
            return value
        if get_origin(choice) is dict and isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
            return value  # keys of JSON are strings
    raise UsageError(f"{key!r} in {name} is {value!r}", f"it must be {hint}", "Correct the spec")
