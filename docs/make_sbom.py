"""The software bill of materials as CycloneDX JSON, made from the locks: `sbom.cdx.json`.

    python docs/make_sbom.py > sbom.cdx.json

Rules: one component for each package of `requirements.lock` and each jar of `drlib/lab/jars.lock`, with the version, the hashes
of all files that may be installed for it, and its package URL. Licences are those that installed packages declare; a package
of another platform, and a jar, has none here. The same locks and packages give the same bytes: there is no time in it, and its
serial number is made from them.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from drlib.lab.jars import LOCK_PATH, locked_jars

ROOT: Final = Path(__file__).resolve().parents[1]
REQUIREMENTS: Final = ROOT / "requirements.lock"
MARKER: Final = "drlib:marker"  # of a package that only some platforms or versions of Python need
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\;]+)(?: ; ([^\\\n]+?))?(?: \\)?$")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_HASH_LINES: Final = re.compile(r'\{\s*"alg": "SHA-256",\s*"content": "([0-9a-f]{64})"\s*\}')
_CLASSIFIER: Final = "License :: OSI Approved :: "
_LONGEST: Final = 60  # letters of a licence's name; some packages have the whole text in that field
_NAMESPACE: Final = uuid.UUID("6f1f1a6c-5a0e-5b1c-9d0b-3a1c5c3b7f10")


def bill() -> str:
    """The whole document."""
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, REQUIREMENTS.read_text() + LOCK_PATH.read_text()))
    bom.metadata.component = _drlib()
    for component in (*_packages(), *_jars()):
        bom.components.add(component)
    bom.register_dependency(bom.metadata.component, bom.components)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["metadata"]["timestamp"]
    return _HASH_LINES.sub(r'{"alg": "SHA-256", "content": "\1"}', json.dumps(document, indent=1)) + "\n"


def _drlib() -> Component:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return Component(
        name="drlib",
        version=version,
        type=ComponentType.APPLICATION,
        purl=PackageURL("pypi", None, "drlib", version),
        bom_ref="drlib",
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
    )


def pins(text: str) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Name, version, marker and hashes of each package in a lock of `uv pip compile`."""
    name = version = marker = ""
    hashes: list[str] = []
    for line in (*text.splitlines(), "end==0"):
        if (pin := _PIN.match(line)) is not None:
            if name:
                yield name, version, marker, tuple(hashes)
            name, version, marker, hashes = pin[1], pin[2], (pin[3] or "").strip(), []
        elif (found := _HASH.search(line)) is not None:
            hashes.append(found[1])


def _packages() -> Iterator[Component]:
    for name, version, marker, hashes in pins(REQUIREMENTS.read_text()):
        purl = PackageURL("pypi", None, name, version)
        yield Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            purl=purl,
            bom_ref=f"{purl}#{marker}" if marker else str(purl),
            hashes=_sha256(hashes),
            licenses=licences(name, version),
            properties=[Property(name=MARKER, value=marker)] if marker else (),
        )


def _jars() -> Iterator[Component]:
    for jar in locked_jars():
        group, artifact, *_, version = jar.coordinate.split(":")
        purl = PackageURL("maven", group, artifact, version)
        yield Component(
            group=group,
            name=artifact,
            version=version,
            type=ComponentType.LIBRARY,
            purl=purl,
            bom_ref=str(purl),
            hashes=_sha256([jar.sha256]),
        )


def _sha256(hashes: Iterable[str]) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=content) for content in hashes]


def licences(name: str, version: str) -> tuple[License, ...]:
    """What the installed package declares; nothing where it is not installed in this version."""
    try:
        declared = metadata(name)
    except PackageNotFoundError:
        return ()
    if declared["Version"] != version:
        return ()
    if expression := declared["License-Expression"]:
        return (LicenseFactory().make_from_string(expression),)
    names = [c.removeprefix(_CLASSIFIER) for c in declared.get_all("Classifier") or () if c.startswith(_CLASSIFIER)]
    short = (declared["License"] or "").strip()
    if not names and 0 < len(short) <= _LONGEST and "\n" not in short and short != "UNKNOWN":
        names = [short]
    return tuple(LicenseFactory().make_from_string(each) for each in names)


if __name__ == "__main__":
    print(bill(), end="")
