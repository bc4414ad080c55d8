"""Explain a file (`drlib config explain`): every value in effect, its flow or cluster, and the line it comes from.

Rules: the values are those that `drlib.config.settings` looks up while it reads the file; no key is listed here again.
References are shown as written, even where they cannot be resolved; secrets are hidden; values without effect are not shown.
Not for: printing (`drlib.cli.mirror.config`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.config import keys
from drlib.config.notices import Notice, place
from drlib.config.settings import MirrorSettings, from_file
from drlib.config.shown import shown
from drlib.config.values import Lookup
from drlib.errors import UsageError
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.properties import Entry

WHOLE_FILE: Final = "the whole file"


@dataclass(frozen=True, slots=True)
class Effective:
    """One value in effect. `scope` is a flow, an alias or `WHOLE_FILE`; `written` is the key as in the file, "" for a default.

    `line` is 0 for a default. `places` are all full keys it is read from, of which the first one set counts; `overridden`
    lists the others that are set.
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
    """The settings of a file, each value in effect with its origin, and the keys without effect."""

    settings: MirrorSettings
    values: tuple[Effective, ...]
    notices: tuple[Notice, ...]


def explain(path: str | Path, key: str | None = None) -> Explanation:
    """Explain the whole file, or every place where `key` counts. Raises `UsageError` for an invalid file or key."""
    file = properties.read(path)
    lookups_of: dict[str, Sequence[Lookup]] = {}
    settings = from_file(file, lookups_of.__setitem__, lenient=True)
    entries = file.effective()
    values = [_of_whole_file(entries, name) for name in sorted(keys.TOP_LEVEL_KEYS)]
    for scope, lookups in lookups_of.items():
        seen: set[tuple[str, ...]] = set()
        for lookup in lookups:
            if lookup.tried not in seen:
                seen.add(lookup.tried)
                values.append(_effective(entries, scope, lookup))
        if scope in settings.clusters:
            values += _security(entries, scope)
    if key is None:
        return Explanation(settings, tuple(values), settings.notices)
    return _only(key, Explanation(settings, tuple(values), settings.notices))


def _of_whole_file(entries: Mapping[str, Entry], key: str) -> Effective:
    entry, meaning = entries.get(key), keys.MEANINGS[key]
    if entry is None:
        return Effective(WHOLE_FILE, key, "", 0, "", meaning, (key,))
    return Effective(WHOLE_FILE, key, shown(key, entry.value), entry.line, key, meaning, (key,))


def _effective(entries: Mapping[str, Entry], scope: str, lookup: Lookup) -> Effective:
    entry = lookup.entry
    others = [entries[key] for key in lookup.tried if key in entries and (entry is None or key != entry.key)]
    return Effective(
        scope,
        _name(lookup),
        lookup.default if entry is None else shown(lookup.key, entry.value),
        0 if entry is None else entry.line,
        "" if entry is None else entry.key,
        keys.MEANINGS.get(lookup.key, ""),
        lookup.tried,
        tuple(f"line {other.line}: {other.key} = {shown(lookup.key, other.value)}" for other in others),
    )


def _name(lookup: Lookup) -> str:
    """The key as written after the scope: a client's key with its client, such as `source.consumer.client.id`."""
    if lookup.tried[0].endswith(f".source.consumer.{lookup.key}"):
        return f"source.consumer.{lookup.key}"
    if lookup.tried[0].endswith(f".producer.override.{lookup.key}"):
        return f"producer.override.{lookup.key}"
    return lookup.key


def _security(entries: Mapping[str, Entry], alias: str) -> list[Effective]:
    """The TLS and SASL keys set for a cluster; those under its alias override those at the top."""
    values: dict[str, Effective] = {}
    for prefix in ("", f"{alias}."):
        for key, entry in entries.items():
            name = key.removeprefix(prefix)
            if key.startswith(prefix) and name.startswith(keys.SECURITY_PREFIXES):
                why = keys.why_not_used(name)
                meaning = keys.MEANINGS.get(name, f"{keys.SECURITY}: {why}" if why else keys.SECURITY)
                values[name] = Effective(
                    alias, name, shown(name, entry.value), entry.line, key, meaning, (f"{alias}.{name}", name)
                )
    return list(values.values())


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
        f"{key} is not a key of {whole.settings.path}",
        "neither Kafka nor drlib has this key",
        f"Did you mean {meant}?" if meant else "Leave the key out to see every key.",
    )
