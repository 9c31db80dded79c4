"""How the running program is called in a new shell."""

import shlex
import shutil
import sys
from pathlib import Path

_NAME = "dragoman"


def program() -> str:
    """The beginning of a command that runs this program: ``dragoman`` if the shell finds it, else its path.

    The path is relative if the program is below the working folder: ``.venv/bin/dragoman``.
    """
    own = shutil.which(_NAME, path=str(Path(sys.executable).parent))
    if own is None:  # the packages are run from their sources
        return f"{shlex.quote(sys.executable)} -m dragoman"
    in_shell = shutil.which(_NAME)
    if in_shell and Path(in_shell).resolve() == Path(own).resolve():
        return _NAME
    path = Path(own)
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
