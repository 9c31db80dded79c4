"""The documents of sources, each with a language."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from encoders.console import Progress
from encoders.document import Document
from encoders.errors import BadInput
from indexer.readers.document_languages import with_languages
from indexer.readers.formats import read_all
from indexer.readers.records.source import ReadOptions, Refusal, Remark


@dataclass(frozen=True)
class Sources:
    """Where documents come from."""

    names: Sequence[str]  # files, folders, ``elastic:INDEX``, ``ir-datasets:NAME``
    options: ReadOptions = field(default_factory=ReadOptions)
    languages: Sequence[str] = ()  # languages of the documents to take; empty: all

    def __str__(self) -> str:
        """The names, with commas between."""
        return ", ".join(self.names)


class SourceDocuments:
    """Documents in the wanted languages, and what reading has met so far."""

    def __init__(self, sources: Sources) -> None:
        """Open the sources. Raises BadInput: a source is missing or empty, or an option unusable; MissingPart."""
        self._sources = sources
        self._readings = read_all(sources.names, sources.options)
        self.refused: list[Refusal] = []
        self.remarks: list[Remark] = []
        self.others: Counter[str] = Counter()  # number of documents in other languages, by language

    def read(self, progress: Callable[[int], None] | None = None) -> Iterator[Document]:
        """Yield the documents in order, each with a language; ``progress`` also counts those in other languages."""
        progress = progress or Progress()
        languages = self._sources.languages
        for reading in with_languages(self._readings):
            match reading:
                case Document():
                    if not languages or reading.lang in languages:
                        yield reading
                    else:
                        self.others[reading.lang] += 1
                    progress(1)
                case Refusal():
                    self.refused.append(reading)
                case Remark():
                    self.remarks.append(reading)

    def nothing_read(self, unit: str = "document", otherwise: str = "they are empty") -> BadInput:
        """The error for sources that gave nothing; the reason is languages, the first refusal, or ``otherwise``."""
        if self.others:
            wanted, others = ", ".join(self._sources.languages), ", ".join(sorted(self.others))
            return BadInput(f"no document of {self._sources} is in {wanted}; name theirs in --languages: {others}")
        reason = f"{self.refused[0].place}: {self.refused[0].text}" if self.refused else otherwise
        return BadInput(f"no {unit} could be read from {self._sources} ({reason}); give sources that have some")
