"""Other ways to write down a mirror, converted to a `connect-mirror-maker.properties` file.

- `document`: JSON and YAML, bounded, with the place of every value.
- `properties_text`: the file that comes out, what has no counterpart in it, and secrets as references.
- `connectors`: MirrorMaker 2's connectors as Kafka Connect takes them. `strimzi`: `KafkaMirrorMaker2` resources.
"""

from collections.abc import Sequence
from pathlib import Path

from drlib.config.imports.connectors import import_connectors
from drlib.config.imports.document import read
from drlib.config.imports.properties_text import MirrorFile
from drlib.config.imports.strimzi import import_strimzi, is_strimzi

__all__ = ["import_files"]


def import_files(paths: Sequence[Path]) -> MirrorFile:
    """The mirror that the files describe together. Raises `UsageError`."""
    documents = [document for path in paths for document in read(path)]
    return import_strimzi(documents) if any(map(is_strimzi, documents)) else import_connectors(documents)
