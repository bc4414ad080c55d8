"""What of a properties file may leave this machine: its entries, as long as every secret in it is a reference.

Rules: entries travel as they are written, references unresolved, comments left out (they may quote anything); a value that
may be a secret and is not wholly a reference keeps the whole file at home. When in doubt it is a secret.
Not for: sending it; hiding it on a screen (`references.shown`).
"""

from __future__ import annotations

from drlib.errors import UsageError
from drlib.kafka.java_formats import jaas, references
from drlib.kafka.java_formats.properties import Entry, PropertiesFile


def secrets_in(file: PropertiesFile) -> tuple[str, ...]:
    """Keys, as `KEY (line N)`, of secrets that stand in the file itself; repeated keys count each time."""
    return tuple(f"{entry.key} (line {entry.line})" for entry in file.entries if _stands_here(entry))


def _stands_here(entry: Entry) -> bool:
    if not references.is_secret(entry.key) or not entry.value.strip():
        return False
    if not entry.key.endswith("jaas.config"):
        return references.HIDDEN in references.shown(entry.key, entry.value)
    try:
        options = jaas.parse(entry.value, entry.key).options
    except UsageError:
        return True
    return any(references.HIDDEN in references.shown(name, value) for name, value in options.items())
