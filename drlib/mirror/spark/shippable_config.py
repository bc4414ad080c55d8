"""Find the secrets that keep a properties file from being sent to executors.

Rules: a file is sent with its entries as written, references unresolved, without comments (they may quote anything). One value
that may be a secret and is not entirely a reference keeps the whole file here. When in doubt it is a secret.
Not for: sending; hiding secrets on a screen (`references.shown`).
"""

from __future__ import annotations

from drlib.errors import UsageError
from drlib.kafka.java_formats import jaas, references
from drlib.kafka.java_formats.properties import Entry, PropertiesFile


def secrets_in(file: PropertiesFile) -> tuple[str, ...]:
    """Keys, as `KEY (line N)`, of secrets in the file itself; repeated keys count each time."""
    return tuple(f"{entry.key} (line {entry.line})" for entry in file.entries if _is_literal_secret(entry))


def _is_literal_secret(entry: Entry) -> bool:
    if not references.is_secret(entry.key) or not entry.value.strip():
        return False
    if not entry.key.endswith("jaas.config"):
        return references.HIDDEN in references.shown(entry.key, entry.value)
    try:
        options = jaas.parse(entry.value, entry.key).options
    except UsageError:
        return True
    return any(references.HIDDEN in references.shown(name, value) for name, value in options.items())
