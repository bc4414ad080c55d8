"""What a file comes to: every value that counts, for which flow or cluster, and the line it was written in.

Rules: nothing is repeated here, the file is read by `drlib.config.settings` itself and what it asks for is noted.
References are shown as they are written, also where they cannot be looked up; secrets are hidden. Values of keys that
have no effect are not shown at all.
Not for: printing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drlib.config import keys
from drlib.config.notices import Notice, place
from drlib.config.settings import MirrorSettings, from_file
from drlib.config.values import Lookup
from drlib.errors import UsageError
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.properties import PropertiesFile
from drlib.kafka.java_formats.references import shown


@dataclass(frozen=True, slots=True)
class Effective:
    """One value that counts. `scope` is a flow or an alias; `written` the key as it stands in the file, "" by default.

    `line` is 0 for a default. `places` are all keys it is read from, the first one set counts; `overridden` says where
    else it is set.
    """

    scope: str
    key: str
    value: str
    line: int
    written: str
    meaning: str
    places: tuple[str, ...]
    overridden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """`settings` tells which flows are enabled."""

    settings: MirrorSettings
    values: tuple[Effective, ...]
    notices: tuple[Notice, ...]


def explain(path: str | Path, key: str | None = None) -> Explanation:
    """The whole file, or every place where `key` counts. Raises `UsageError` for a file or key that is wrong."""
    file = properties.read(path)
    asked: dict[str, Sequence[Lookup]] = {}
    settings = from_file(file, asked.__setitem__, lenient=True)
    values = []
    for scope, lookups in asked.items():
        seen: set[tuple[str, ...]] = set()
        for lookup in lookups:
            if lookup.tried not in seen:
                seen.add(lookup.tried)
                values.append(_effective(file, scope, lookup))
        if scope in settings.clusters:
            values += _security(file, scope)
    if key is None:
        return Explanation(settings, tuple(values), settings.notices)
    return _only(key, Explanation(settings, tuple(values), settings.notices))


def _effective(file: PropertiesFile, scope: str, lookup: Lookup) -> Effective:
    entry = lookup.entry
    set_keys = file.effective()
    others = [set_keys[key] for key in lookup.tried if key in set_keys and set_keys[key] is not entry]
    return Effective(
        scope,
        _name(lookup),
        lookup.default if entry is None else shown(entry.key, entry.value),
        0 if entry is None else entry.line,
        "" if entry is None else entry.key,
        keys.MEANINGS.get(lookup.key, ""),
        lookup.tried,
        tuple(f"line {other.line}: {other.key} = {shown(other.key, other.value)}" for other in others),
    )


def _name(lookup: Lookup) -> str:
    """The key as one would write it after the scope: a client's key with the client it is of."""
    if lookup.tried[0].endswith(f".source.consumer.{lookup.key}"):
        return f"source.consumer.{lookup.key}"
    if lookup.tried[0].endswith(f".producer.override.{lookup.key}"):
        return f"producer.override.{lookup.key}"
    return lookup.key


def _security(file: PropertiesFile, alias: str) -> list[Effective]:
    """Keys of TLS and SASL as they are set for a cluster; its own beat those at the top."""
    entries = file.effective()
    found: dict[str, Effective] = {}
    for prefix in ("", f"{alias}."):
        for key, entry in entries.items():
            name = key.removeprefix(prefix)
            if key.startswith(prefix) and name.startswith(keys.SECURITY_PREFIXES):
                why = keys.why_not_used(name)
                meaning = keys.MEANINGS.get(name, f"{keys.SECURITY}: {why}" if why else keys.SECURITY)
                found[name] = Effective(
                    alias, name, shown(key, entry.value), entry.line, key, meaning, (f"{alias}.{name}", name)
                )
    return list(found.values())


def _only(key: str, whole: Explanation) -> Explanation:
    values = tuple(v for v in whole.values if key in (v.key, *v.places) or key == keys.without_client_prefix(v.key))
    notices = tuple(n for n in whole.notices if n.key == key or n.key.endswith(f".{key}"))
    if values or notices:
        return Explanation(whole.settings, values, notices)
    scopes = [*(str(flow.flow) for flow in whole.settings.flows), *whole.settings.clusters]
    scope = max((s for s in scopes if key.startswith(f"{s}.")), key=len, default="")
    name = key.removeprefix(f"{scope}.") if scope else key
    if (why := keys.why_not_used(name, place(scope) if scope else None)) is not None:
        return Explanation(whole.settings, (), (Notice(0, key, why),))
    meant = keys.meant(name)
    raise UsageError(
        f"{key} is no key of {whole.settings.path}",
        "neither Kafka nor drlib knows it",
        f"Did you mean {meant}?" if meant else "Leave it out to see every key.",
    )
