"""The flow of a run: the one asked for, else the only one to choose, and refusals that list what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.config.replication_policy import ALIAS_LETTERS
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.lab import choose_flow
from drlib.model import Flow

ALIASES = st.text(st.sampled_from(sorted(ALIAS_LETTERS)), min_size=1, max_size=12)


def settings(folder: Path, *lines: str, clusters: tuple[str, ...] = ("paris", "lyon")) -> MirrorSettings:
    path = folder / "mm2.properties"
    servers = [f"{alias}.bootstrap.servers = 127.0.0.1:{9000 + n}" for n, alias in enumerate(clusters)]
    path.write_text("\n".join([f"clusters = {', '.join(clusters)}", *servers, *lines]))
    return load_mirror_settings(path)


@given(pair=st.lists(ALIASES, min_size=2, max_size=2, unique=True))
def test_flow_of_any_aliases_is_the_only_enabled_one_and_may_be_named(
    pair: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    source, target = pair
    folder = tmp_path_factory.mktemp("file")
    try:
        of = settings(folder, f"{source}->{target}.enabled = true", clusters=(source, target))
    except UsageError:  # an alias that is the prefix of the other's keys, or a key itself
        return
    if [each.flow for each in of.enabled_flows] != [Flow(source, target)]:
        return
    assert choose_flow.of_file(of, "") == Flow(source, target)
    assert choose_flow.of_file(of, f" {source} -> {target} ") == Flow(source, target)
    assert choose_flow.of_lab(pair, "") == Flow(source, target)
    assert choose_flow.of_lab(pair, f"{target}->{source}") == Flow(target, source)


def test_flow_several_enabled_are_listed_with_the_command(tmp_path: Path) -> None:
    both = settings(tmp_path, "paris->lyon.enabled = true", "lyon->paris.enabled = true")
    with pytest.raises(UsageError) as refused:
        choose_flow.of_file(both, "", "drlib run runbooks/x.yaml mm2.properties")
    assert refused.value.exit_code == 2
    assert "2 flows are enabled there: paris->lyon, lyon->paris" in str(refused.value)
    assert "drlib run runbooks/x.yaml mm2.properties -p 'flow=paris->lyon'" in str(refused.value)
    assert choose_flow.of_file(both, "lyon->paris") == Flow("lyon", "paris")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("paris->nice", "has no flow paris->nice: its clusters are paris, lyon, and its enabled flows are paris->lyon"),
        ("lyon->paris", "flow lyon->paris of .* is disabled: .* the enabled flows are paris->lyon"),
        ("paris", "'paris' is not a flow"),
    ],
)
def test_flow_missing_or_disabled_is_refused_with_those_there_are(asked: str, said: str, tmp_path: Path) -> None:
    one = settings(tmp_path, "paris->lyon.enabled = true")
    with pytest.raises(UsageError, match=said):
        choose_flow.of_file(one, asked)


def test_flow_disabled_may_be_named_where_only_its_records_are_read(tmp_path: Path) -> None:
    one = settings(tmp_path, "paris->lyon.enabled = true")
    assert choose_flow.of_file(one, "lyon->paris", enabled=False) == Flow("lyon", "paris")
    with pytest.raises(UsageError, match="has no flow"):
        choose_flow.of_file(one, "lyon->nice", enabled=False)


def test_flow_of_a_file_without_an_enabled_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no enabled flow: its clusters are paris, lyon.*enabled = true"):
        choose_flow.of_file(settings(tmp_path), "")


@pytest.mark.parametrize("asked", ["paris->nice", "paris->paris"])
def test_flow_that_a_lab_lacks_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="its clusters are paris, lyon"):
        choose_flow.of_lab(("paris", "lyon"), asked)


def test_lab_aliases_without_a_running_lab_are_those_it_will_have(tmp_path: Path) -> None:
    assert choose_flow.lab_aliases(tmp_path, ("paris", "lyon")) == ("paris", "lyon")
