"""`drlib size` and `drlib translate --offsets` as a person types them: what is printed, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from drlib.cli.app import app
from drlib.errors import UsageError

LINK = ("size", "--rate", "5MB/s", "--rtt", "200ms", "--bandwidth", "1Gb/s", "--partitions", "12")


def drlib(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_size_flow_that_is_carried_exits_0() -> None:
    done = drlib(*LINK, "--retention", "24h", "--outage", "6h")
    assert done.exit_code == 0, done.output
    for word in ("5.03 MB/s", "122 MB/s", "enough", "256MiB", "18 h", "108 GB"):
        assert word in done.output, word


def test_size_json_has_every_number() -> None:
    output = json.loads(drlib(*LINK, "--json").output)
    assert (output["workers"], output["lanes"], output["memory"], output["enough"]) == (1, 2, 256 << 20, True)
    assert output["link"] == {"bandwidth": 125e6, "rtt_s": 0.2}
    assert len(output["outages"]) == 4


@pytest.mark.parametrize("more", [("--rate", "200MB/s"), ("--retention", "4h", "--outage", "6h")])
def test_size_flow_not_carried_or_losing_records_exits_3(more: tuple[str, ...]) -> None:
    assert drlib(*LINK, *more).exit_code == 3


@pytest.mark.parametrize("more", [("--rate", "5"), ("--rtt", "5MB/s"), ("--bandwidth", "0Gb/s"), ("--outage", "soon")])
def test_size_invalid_quantity_is_refused(more: tuple[str, ...]) -> None:
    assert isinstance(drlib(*LINK, *more).exception, UsageError)


def test_offsets_and_groups_are_asked_for_one_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = LEFT, RIGHT\nLEFT.bootstrap.servers = h:1\nRIGHT.bootstrap.servers = h:2\n")
    offsets = tmp_path / "offsets.json"
    offsets.write_text("[]")
    asked = ("translate", str(file), "--flow", "LEFT->RIGHT")
    for more, words in (
        (("--offsets", str(offsets), "--group", "g"), "do not go together"),
        (("--as", "rows"), "does not apply to groups"),
        (("--offsets", str(offsets)), "it is empty"),
        (("--offsets", str(tmp_path)), "no checkpoint"),
    ):
        error = drlib(*asked, *more).exception
        assert isinstance(error, UsageError)
        assert words in str(error)
