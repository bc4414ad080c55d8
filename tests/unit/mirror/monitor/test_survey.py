"""A survey of a flow of which one cluster is known to be lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

from silent_clusters import silent_clusters

from drlib.config.settings import load_mirror_settings
from drlib.mirror.monitor.survey import Surveyor


def test_survey_of_a_source_that_is_lost_does_not_need_its_key_store(tmp_path: Path) -> None:
    with silent_clusters(tmp_path / "mirror.properties", "LEFT", "RIGHT") as file:
        secured = f"LEFT.security.protocol = SSL\nLEFT.ssl.truststore.location = {tmp_path}/gone.p12\n"
        file.write_text(file.read_text() + secured)
        settings = load_mirror_settings(file)
        surveyor = Surveyor(settings, settings.flow("LEFT", "RIGHT"))
        found = asyncio.run(surveyor.survey(source_error="its key store is not here", answer_s=0.5))
    assert found.source_error == "its key store is not here"
    assert found.target_error
