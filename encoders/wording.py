"""Phrases that many messages share: numbers with their nouns, and how a missing extra is installed."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 document``, ``1,234 documents``, ``0 queries``.

    A verb may follow the noun, as in ``document has``; ``plural`` is for all numbers but 1, by default with an *s*.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def install_command(extra: str) -> str:
    """The command that installs an extra of Dragoman in a checkout, at whose top it is given."""
    return f"make install EXTRAS={extra}"
