"""A server whose disk is past its watermark: what waits goes on, and what can't go on says so."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from tests.conftest import fallen, skip_or_fail
from trials.full_disk import WATERMARKS, watermark
from trials.servers.elastic import running
from trials.servers.process import ServerMissing


@pytest.mark.elastic
@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_a_full_disk_of_the_server_ends_in_sentences_and_loses_nothing(
    tmp_path: Path, default_folder: ModelFolder
) -> None:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running(WATERMARKS))
        except ServerMissing as missing:
            skip_or_fail(str(missing))
        assert fallen(watermark(server.url, tmp_path)) == []
