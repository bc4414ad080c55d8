"""The bill of materials is CycloneDX, and names what the locks pin: each package and jar with its version and hashes.

Run `make sbom` where this fails after a change of a lock.
"""

from __future__ import annotations

import json
import re
import runpy
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from repository_root import ROOT

from drlib.lab.jars import locked_jars

TEXT = (ROOT / "sbom.cdx.json").read_text()
BILL: dict[str, Any] = json.loads(TEXT)
LOCK = (ROOT / "requirements.lock").read_text()
SCRIPT = runpy.run_path(str(ROOT / "docs" / "make_sbom.py"))


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def components(kind: str) -> list[dict[str, Any]]:
    return [each for each in BILL["components"] if each["purl"].startswith(f"pkg:{kind}/")]


def hashes(component: dict[str, Any]) -> set[str]:
    assert {each["alg"] for each in component["hashes"]} == {"SHA-256"}
    return {each["content"] for each in component["hashes"]}


def test_bill_is_valid_cyclonedx() -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(TEXT) is None
    references = [each["bom-ref"] for each in BILL["components"]]
    assert len(set(references)) == len(references)


def test_bill_has_the_packages_of_the_lock() -> None:
    """Compared with the text of the lock, by other means than those it was made with."""
    blocks = [block for block in re.split(r"\n(?=[a-z])", LOCK) if "==" in block]
    pinned = {(block.split("==")[0], re.split(r"[ ;\\]", block.split("==")[1])[0]): block for block in blocks}
    assert len(pinned) == len(blocks) > 150
    found = {(each["name"], each["version"]): each for each in components("pypi")}
    assert found.keys() == pinned.keys()
    for (name, pin), each in found.items():
        assert each["purl"] == f"pkg:pypi/{name}@{pin}"
        assert hashes(each) == set(re.findall(r"sha256:([0-9a-f]{64})", pinned[name, pin]))
        assert bool(each.get("properties")) is (" ; " in pinned[name, pin].splitlines()[0])


def test_bill_has_the_jars_of_the_lock() -> None:
    jars = {jar.coordinate: {jar.sha256} for jar in locked_jars()}
    found = {f"{each['group']}:{each['name']}:{each['version']}": hashes(each) for each in components("maven")}
    assert found == jars
    assert len(BILL["components"]) == len(found) + len(components("pypi"))


def test_licences_are_those_that_installed_packages_declare() -> None:
    without = [each["name"] for each in components("pypi") if "licenses" not in each]
    assert len(without) < 20  # those of other platforms and versions of Python
    for each in components("pypi"):
        if installed(each["name"]) == each["version"]:
            declared = {getattr(licence, "value", None) or licence.name or licence.id for licence in licences(each)}
            stored = {
                entry.get("expression") or entry["license"].get("id") or entry["license"].get("name")
                for entry in each.get("licenses", ())
            }
            assert stored == declared, each["name"]


def licences(component: dict[str, Any]) -> tuple[Any, ...]:
    made: tuple[Any, ...] = SCRIPT["licences"](component["name"], component["version"])
    return made


def test_bill_names_no_registry() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", TEXT))
    assert hosts == {"cyclonedx.org"}  # of the format's own schema


def test_bill_is_made_of_these_locks() -> None:
    made = json.loads(SCRIPT["bill"]())
    assert made["serialNumber"] == BILL["serialNumber"]
    assert made["metadata"] == BILL["metadata"]
