"""Numbers with their nouns in messages."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 document``, ``1,234 documents``, ``0 queries``.

    Args:
        number: how many.
        noun: in the singular; a verb may follow it, as in ``document has``.
        plural: the noun for all numbers but 1; the default is the noun and an *s*.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
