"""BCP 47 language codes in the shortest form that distinguishes written languages."""

from collections.abc import Sequence
from functools import lru_cache

from encoders.console import Console
from encoders.errors import BadInput
from encoders.phrases import did_you_mean
from encoders.printable import HALF_CHARACTER, has_surrogate

UNDETERMINED = "und"
_NORWEGIAN = {"no": "nb"}
_TAGS = (
    "ace af am an ar ary arz as az ba be bg bn br bs ca crh cs cy da de dz el en eo es et eu ext fa fi fo fr "
    "fuv fy ga gcf gcr gd gl gom grc gu guw ha hbo he hi hr ht hu hy id ig is it ja jv ka kab kk km kn ko ku "
    "ky la lb lg lij ln lo lt ltg lv mg mi mk ml mn mr ms mt my nb ne nl nn nso ny oc om or pa pcm pl ps pt "
    "qu ro ru rw sa sd sdh se si sk sl sm sn so sq sr st su sv sw ta te tg th ti tk tr tt ug uk ur uz uzs vec "
    "vi vo wa wo wuu xh yi yo yue zh zu"
)
_KNOWN = {tag: tag for tag in _TAGS.split()} | _NORWEGIAN | {"bcl": "bik", "gug": "gn", "kik": "ki", "tl": "fil"}
"""Common codes, those of the language detector among them, and their tags: so a search need not load langcodes."""
_WIKIS = {
    "bat-smg": "sgs", "dt": "nl", "eml": "egl", "fiu-vro": "vro", "map-bms": "jv", "roa-rup": "rup", "roa-tara": "nap",
    "simple": "en", "sr-ec": "sr", "sr-el": "sr-Latn", "zh-classical": "lzh",
}  # fmt: skip
"""Codes of wikis, and of mMARCO (``dt``), that BCP 47 does not have, or has for a family of languages."""

_COUNTRIES = (
    "al=sq by=be ch=zh-Hant cn=zh cz=cs dk=da gb=en ge=ka gr=el hk=zh-Hant il=he ir=fa jp=ja kr=ko kz=kk rs=sr se=sv "
    "tw=zh-Hant ua=uk us=en vn=vi"
)
COUNTRIES = {pair[:2]: pair[3:] for pair in _COUNTRIES.split()}
"""Codes of countries that people write for the language, and its tag; ``ch`` is NTCIR's code of Chinese."""
MISTAKABLE = {
    "ch": "Chamorro; if you mean Chinese, say 'zh'",
    "kr": "Kanuri; if you mean Korean, say 'ko'",
    "se": "Northern Sami; if you mean Swedish, say 'sv'",
}
"""Those of the countries' codes that are a language's tag, too: what they are, and what people may mean."""


@lru_cache(maxsize=4096)
def normalise(code: str) -> str:
    """Return the BCP 47 tag for a language code: language, and script if it is not the language's usual script.

    Regions and variants are dropped (``pt-BR`` → ``pt``), three-letter codes are shortened (``ger`` → ``de``), a
    macrolanguage and its main language get the more common code of the two (``cmn`` → ``zh``, ``no`` → ``nb``), and
    only an unusual script stays (``zh-TW`` → ``zh-Hant``, ``zh-Hans`` → ``zh``). An empty code is ``und``. Raises
    BadInput: the code is no BCP 47 language tag.
    """
    code = str(code).strip().replace("_", "-")
    if not code or code.lower() in {"und", "unknown", "mul", "zxx", "xx"}:
        return UNDETERMINED
    code = _WIKIS.get(code.lower(), code)
    if code in _KNOWN:
        return _KNOWN[code]
    import langcodes  # noqa: PLC0415 - it is loaded in a twentieth of a second
    from langcodes.tag_parser import LanguageTagError  # noqa: PLC0415

    try:
        language = langcodes.Language.get(code)
    except (LanguageTagError, ValueError) as error:
        raise _no_language(code) from error
    if not language.is_valid() and code.lower() in COUNTRIES:
        raise BadInput(f"{code!r} is a country's code; the language is {COUNTRIES[code.lower()]!r}")
    if not language.is_valid():
        raise _no_language(code)
    script = language.maximize().script
    short = language.prefer_macrolanguage().language or UNDETERMINED
    usual = langcodes.Language.make(language=short).maximize()
    lacking = ("Latn", "US")  # what langcodes gives where it has no data
    unknown = short != "en" and (usual.script, usual.territory) == lacking
    tag = short if unknown or script in (None, usual.script) else f"{short}-{script}"
    return _NORWEGIAN.get(tag, tag)


def _no_language(code: str) -> BadInput:
    nearest = did_you_mean(code, (tag for tag in _KNOWN if tag.startswith(code[:1])))
    advice = nearest or "; use a BCP 47 tag such as 'de', 'pt' or 'zh-Hant'"
    return BadInput(f"{code!r} is no language code{advice}")


def tag_or(code: str, otherwise: str = UNDETERMINED) -> str:
    """The tag of a language code; ``otherwise`` if the code is no BCP 47 language tag."""
    try:
        return normalise(code)
    except BadInput:
        return otherwise


def stated_language(code: str) -> str:
    """The tag of a language that a person names. A code that is often meant otherwise is asked back once.

    Raises BadInput: as ``normalise``, or the code stands for no language, such as ``xx``.
    """
    tag = normalise(code := str(code))
    if tag in MISTAKABLE:
        Console().warn_once(f"{code!r} is {MISTAKABLE[tag]}")
    if tag == UNDETERMINED != code.strip().lower():
        raise _no_language(code)
    return tag


def language_list(text: str) -> list[str]:
    """Normalised tags of codes, between commas or blanks; an empty text has none. Raises BadInput: a code is no tag."""
    return [normalise(code) for code in typed_languages(text)]


def typed_languages(text: str) -> list[str]:
    """Language codes as they were typed, between commas or blanks; an empty text has none.

    Raises BadInput: a code is no BCP 47 language tag, or there are only commas and blanks.
    """
    codes = text.replace(",", " ").split()
    if text and not codes:
        raise BadInput(f"{text!r} names no language; use BCP 47 tags with commas between, such as 'de,pt'")
    for code in codes:
        stated_language(code)
    return codes


def normalised_list(codes: Sequence[str], name: str) -> list[str]:
    """Normalised tags of codes for a program's parameter ``name``. Raises BadInput: they are a string, or no tags."""
    require_list(codes, name)
    return [stated_language(code) for code in codes]


def require_list(values: Sequence[str], name: str, content: str = "languages") -> None:
    """Check that a parameter ``name`` of a program is a list of ``content``. Raises BadInput: it is a string."""
    if isinstance(values, str):
        listed = values.replace(",", " ").split()
        raise BadInput(f"{name} is the string {values!r}; give a list of {content}: {name}={listed}")
    if has_surrogate(values):
        raise BadInput(f"{name} {HALF_CHARACTER}")
