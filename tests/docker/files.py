"""The files of ``docker/`` as tests read them."""

import re
from typing import Any

import yaml

from trials import ROOT

DOCKER = ROOT / "docker"


def compose() -> dict[str, Any]:
    """The Compose file; variables stand in it as they are written."""
    read: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yml").read_text())
    return read


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, continued lines joined."""
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    return re.findall(r"^([A-Z]+)\s+(.*)$", text, re.MULTILINE)


def readme_commands(beginning: str) -> list[str]:
    """What stands behind a beginning in the commands of the README, in order."""
    lines = (DOCKER / "README.md").read_text().splitlines()
    return [line.removeprefix(beginning) for line in lines if line.startswith(beginning)]
