"""The address of a user's index to which vectors are attached, and the fields that are read."""

import re
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from encoders.document import short_hash
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED, normalise
from indexer.cluster.cluster_address import AUTO, SCHEMES, Address, check_object

_META = 50
_NO_NAME = re.compile(r'[\s?,/\\<>|"#:]|^[-_+.]')


@dataclass(frozen=True)
class Attachment:
    """``https://host:9200/INDEX?text=body&title=headline``: the store's URL of an attached collection."""

    server: str  # scheme, host, port
    index: str  # name of the index, or an alias; of several indices also names and patterns with commas between
    text: str  # the field of texts; dots lead into objects
    title: str = ""  # the field of titles; empty: there is none
    lang_field: str = ""  # the field of languages; empty: there is none
    lang: str = ""  # language of documents that state none; empty: the language is detected
    field: str = "dragoman"  # name of Dragoman's object field
    vectors: str = AUTO  # type of the vectors' indices
    companion: str = ""  # prefix of our own index for our field; empty: our field is put into the user's index
    family: bool = False  # whether it is of several indices, whose documents have the ids INDEX/ID

    def __post_init__(self) -> None:
        """Refuse invalid values. Raises BadInput: a name is invalid, or the language is unknown."""
        if any(not name or _NO_NAME.search(name.replace("*", "a")) for name in self.parts):
            raise BadInput(f"{self.index!r} is no name of an index; name one as _cat/indices lists it, or its alias")
        if self.companion and any("*" in name and fnmatchcase(f"{self.companion}-", name) for name in self.parts):
            raise BadInput(f"{self.index} would take in our own index beside it; give --store another PREFIX")
        if not self.text:
            raise BadInput("say which field holds the text of a document: --text FIELD")
        check_object(self.field, self.vectors)
        if self.lang and normalise(self.lang) == UNDETERMINED:
            raise BadInput(f"{self.lang!r} says no language; leave it out, and languages are detected")

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse the store's URL of an attached collection. Raises BadInput: it is no such URL."""
        parts = urlsplit(url)
        server = Address.parse(f"{parts.scheme}://{parts.netloc}").server
        options = {"text": "", **dict(parse_qsl(parts.query))}
        unknown = options.keys() - ({attribute.name for attribute in fields(cls)} - {"server", "index"})
        if unknown:
            raise BadInput(f"the store's URL of an attached collection has no option {min(unknown)!r}")
        family = bool(options.pop("family", ""))
        return cls(server, unquote(parts.path.strip("/")), family=family, **options)

    @property
    def url(self) -> str:
        """The store's URL; ``parse`` gives the same attachment back."""
        names = [attribute.name for attribute in fields(self) if attribute.name not in {"server", "index"}]
        options = {name: value for name in names if (value := getattr(self, name))}
        return f"{self.server}/{quote(self.index, safe='*,')}?{urlencode(options)}"

    @property
    def parts(self) -> list[str]:
        """Names, aliases and patterns of the indices."""
        return self.index.split(",")

    @property
    def address(self) -> Address:
        """Address of the index with our field: the user's index, or the companion."""
        return Address(self.server, self.companion or self.index, field=self.field, vectors=self.vectors)

    @property
    def read_fields(self) -> list[str]:
        """The user's fields that decide a document's vector."""
        return [name for name in (self.text, self.title, self.lang_field) if name]

    @property
    def reads(self) -> dict[str, str]:
        """Options that decide a document's vector, for the ``meta`` of a mapped field: at most 50 characters each."""
        names = ("text", "title", "lang_field", "lang", "family")
        options = {name: str(getattr(self, name) or "") for name in names}
        return {name: value if len(value) <= _META else short_hash(value) for name, value in options.items() if value}


def is_attached(url: str) -> bool:
    """Whether a store's URL is the URL of an attached collection."""
    parts = urlsplit(url)
    return parts.scheme in SCHEMES and "text" in dict(parse_qsl(parts.query))
