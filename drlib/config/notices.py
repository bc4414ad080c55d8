"""Check the keys of a file: those without effect, misspelt ones, and those that would be unsafe.

Rules: every key of the file has an effect, gets a `Notice`, or is refused; no message quotes a value, as it may be a password.
An unknown key under `drlib.` is always refused.
Not for: values (`drlib.config.values`).
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from drlib.config import keys
from drlib.errors import UsageError
from drlib.kafka.java_formats.properties import Entry, PropertiesFile
from drlib.kafka.java_formats.references import resolve
from drlib.kafka.security.credentials import Protocol
from drlib.kafka.security.java_keys import DENIED, MSK_REMEDY, MSK_WHY, PLAIN_HTTP, protocol_of


@dataclass(frozen=True, slots=True)
class Notice:
    """A key that is set at `line` and has no effect, or an unsafe one; `text` says why."""

    line: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.key}: {self.text}"


def check_keys(file: PropertiesFile, aliases: Sequence[str]) -> tuple[Notice, ...]:
    """A notice for each key without effect, and for each unsafe one, by line.

    Raises `UsageError` for misspelt keys, unknown clusters and unsafe security keys.
    """
    effective = file.effective()
    notices = []
    for entry in file.entries:
        scope, key = _split(file, entry, aliases)
        _refuse_security(file, entry, scope, key)
        if (later := effective[entry.key]) is not entry:
            text: str | None = f"it is set again in line {later.line}, and the last line counts"
        elif keys.is_known(key):
            text = keys.why_not_used(key, place(scope)) or _unsafe(key, entry)
        else:
            _refuse_slip(file, entry, scope, key, aliases)
            text = "unknown key: neither Kafka nor drlib has it"
        if text is not None:
            notices.append(Notice(entry.line, entry.key, text))
    return tuple(notices)


def _unsafe(key: str, entry: Entry) -> str | None:
    """Why a setting that is allowed is unsafe."""
    if key == PLAIN_HTTP and entry.value.strip().lower() != "false":
        return "the client's secret is sent without encryption where the token endpoint is http://"
    return None


def _split(file: PropertiesFile, entry: Entry, aliases: Sequence[str]) -> tuple[str, str]:
    """(`A->B`, `A` or the empty string; the rest of the key)."""
    source, arrow, rest = entry.key.partition("->")
    begun = (alias for alias in aliases if (rest if arrow else entry.key).startswith(f"{alias}."))
    longest = max(begun, key=len, default="")  # `A->B.x` before `A->B`
    if longest and not arrow:
        return longest, entry.key[len(longest) + 1 :]
    if longest and source in aliases and source != longest:
        return f"{source}->{longest}", rest[len(longest) + 1 :]
    if arrow:
        named = f"{source}->{longest or rest.split('.')[0]}"
        raise UsageError(
            f"{file.where(entry)}: {entry.key} is not a key of a flow of this file",
            _wrong_flow(named, aliases),
            "Correct the aliases, or add the missing cluster to clusters. A flow is written without spaces.",
        )
    return "", entry.key


def _wrong_flow(named: str, aliases: Sequence[str]) -> str:
    source, _, target = named.partition("->")
    missing = [alias for alias in (source, target) if alias not in aliases]
    if not missing:
        return f"{named} names one cluster twice"
    return (
        f"{named}: {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not in clusters ({', '.join(aliases)})"
    )


def _refuse_security(file: PropertiesFile, entry: Entry, scope: str, key: str) -> None:
    """Refuse a security key that is unsafe to apply, or unsafe to ignore."""
    bare = keys.without_client_prefix(key)
    if bare in DENIED and entry.value.strip().startswith("software.amazon.msk."):
        raise UsageError(f"{file.where(entry)}: {entry.key} cannot be used", MSK_WHY, MSK_REMEDY)
    if bare in DENIED:
        raise UsageError(
            f"{file.where(entry)}: {entry.key} is not allowed",
            "it would make the client run a command or load code named in this file",
            "Remove it.",
        )
    if bare != "security.protocol":
        return
    protocol = protocol_of(resolve(entry.value, file.where(entry)), f"{file.where(entry)}: {entry.key}")
    if protocol is not Protocol.PLAINTEXT and (bare != key or "->" in scope):
        raise UsageError(
            f"{file.where(entry)}: {entry.key} would have no effect",
            "all clients of a cluster share its security settings, which are set under the cluster's alias",
            f"Write {scope.partition('->')[0] or 'ALIAS'}.security.protocol, and the other security keys with it.",
        )


def place(scope: str) -> keys.Place:
    return keys.Place.FLOW if "->" in scope else keys.Place.CLUSTER if scope else keys.Place.TOP


def _refuse_slip(file: PropertiesFile, entry: Entry, scope: str, key: str, aliases: Sequence[str]) -> None:
    prefix = f"{scope}." if scope else ""
    if key in aliases or "→" in key:
        raise UsageError(
            f"{file.where(entry)}: {entry.key} cannot be used",
            "it is an alias and no key" if key in aliases else "a flow is written with ->",
            "A space, = or : ends a key. Write A->B.KEY without spaces: "
            f"{aliases[0]}->{aliases[-1]}.enabled = true, for example.",
        )
    if (meant := keys.meant(key)) is not None:
        raise UsageError(
            f"{file.where(entry)}: {entry.key} cannot be used",
            "unknown key",
            f"Did you mean {prefix}{meant}?",
        )
    if key.startswith("drlib."):
        known = sorted(name for name in keys.FLOW_KEYS if name.startswith("drlib."))
        raise UsageError(
            f"{file.where(entry)}: {entry.key} cannot be used",
            "unknown key",
            f"The keys of drlib are {', '.join(known)}.",
        )
    alias, _, setting = key.partition(".")
    if not scope and setting in keys.CLUSTER_KEYS:
        close = difflib.get_close_matches(alias.upper(), [known.upper() for known in aliases], n=1)
        hint = next((f"Did you mean {known}? " for known in aliases if close and known.upper() == close[0]), "")
        raise UsageError(
            f"{file.where(entry)}: {entry.key} cannot be used",
            f"the cluster {alias} is not in clusters ({', '.join(aliases)})",
            f"{hint}Correct the alias, or add {alias} to clusters.",
        )
