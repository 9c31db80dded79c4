"""What a command says while it works."""

import threading

from encoders.console import Console


class Heard(Console):
    """Says nothing aloud; ``waited`` is set by the first sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = threading.Event()

    def say(self, sentence: str) -> None:
        assert sentence == "reading …"
        self.waited.set()


def test_what_takes_long_is_said_meanwhile() -> None:
    console = Heard()
    with console.if_slow("reading …", after=0.0):
        assert console.waited.wait(10)


def test_what_is_quick_is_not_said() -> None:
    console = Heard()
    with console.if_slow("reading …", after=3600):
        pass
    assert not console.waited.is_set()
