"""What `drlib translate` prints in a narrow terminal."""

import io

from rich.console import Console

from drlib.cli.mirror.translate import _table


def test_table_in_a_narrow_terminal_cuts_no_partition_and_no_offset() -> None:
    table = _table("Groups", "group", "source", "position", "target", "translated", "meaning")
    for partition in range(2):
        name = f"customer-events-of-europe-{partition}"
        table.add_row("Billing Team/nightly", name, "1234567890", name, "1234567890", "behind by 12")
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    text = out.getvalue()
    assert "…" not in text
    assert text.count("1234567890") == 4
    assert max(map(len, text.splitlines())) <= 80
