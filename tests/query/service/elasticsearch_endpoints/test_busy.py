"""A cluster without room for searches and writes: nothing is lost, and a search is whole or says when to try again."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from tests.conftest import fallen, skip_or_fail
from trials.busy_server import BUSY, busy
from trials.servers.elastic import running
from trials.servers.process import ServerMissing


@pytest.mark.elastic
@pytest.mark.long
def test_what_a_busy_server_refuses_is_tried_again_or_said(tmp_path: Path, default_folder: ModelFolder) -> None:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running(BUSY))
        except ServerMissing as missing:
            skip_or_fail(str(missing))
        assert fallen(busy(server.url, tmp_path)) == []
