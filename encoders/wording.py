"""Counts in sentences for people."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with what it counts: ``1 document``, ``1,234 documents``, ``0 queries``.

    Args:
        number: how many.
        noun: for one; a verb may follow it, as in ``document has``.
        plural: for any other number; the noun and an *s* unless given.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
