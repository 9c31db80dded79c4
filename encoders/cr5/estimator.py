"""Fit Cr5: documents with concepts → a model. The part of ``dragoman train cr5`` that needs no files."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.linalg import LinAlgError

from encoders.console import QUIET, Console
from encoders.cr5.algebra import eigenvectors, ridge_choice
from encoders.cr5.algebra.memory_need import check_memory
from encoders.cr5.algebra.solver import Block, Solution, solve
from encoders.cr5.bag_corpus import Corpus
from encoders.cr5.cr5_model import Cr5Model, Table
from encoders.cr5.cr5_settings import Cr5Settings
from encoders.cr5.selection import linked_rows, rows_within_limits, transitive_rows
from encoders.cr5.word_vocabulary import Vocabulary, fit_vocabulary
from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from encoders.phrases import counted


class Cr5:
    """Crosslingual reduced-rank ridge regression; attributes that end with an underscore are learnt."""

    def __init__(self, settings: Cr5Settings | None = None) -> None:
        """Take the settings; the default values are the paper's."""
        self.settings = settings or Cr5Settings()

    def fit(self, documents: Iterable[Document] | Corpus, console: Console = QUIET) -> "Cr5":
        """Learn from documents, in any order, or a corpus; ``concept`` is the same for translations of one another.

        Raises BadInput: the documents teach nothing (the message says why), or don't fit into memory.
        """
        try:
            self._learn(documents if isinstance(documents, Corpus) else Corpus(documents), console)
        except MemoryError as error:
            raise BadInput(
                "the documents don't fit into memory; give fewer --dimensions, or fewer documents or --languages"
            ) from error
        return self

    def _learn(self, corpus: Corpus, console: Console) -> None:
        vocabularies, blocks = self.blocks(corpus)
        self.documents_ = {lang: len(block.concepts) for lang, block in blocks.items()}
        self.concept_numbers_ = {lang: np.unique(block.concepts) for lang, block in blocks.items()}  # ascending
        self.concepts_ = 1 + max(int(block.concepts.max()) for block in blocks.values())
        if self.concepts_ < 2:
            raise BadInput("the documents that teach are all about one concept; give some about others")
        dimensions = min(self.settings.dimensions, self.concepts_ - 1)
        check_memory(blocks, self.concepts_, dimensions)
        solution = self._solution(blocks, dimensions, console)
        if solution.dimensions < self.settings.dimensions:
            self.remarks_.append(
                f"{self.concepts_:,} concepts give {solution.dimensions:,} dimensions, not {self.settings.dimensions:,}"
            )
        if solution.residual > eigenvectors.TOLERANCE:
            self.remarks_.append(
                f"the leading directions are rough: an eigenvector is off by {solution.residual:.2f} of the largest "
                f"eigenvalue, where {eigenvectors.TOLERANCE:g} is asked; fewer --dimensions are found better"
            )
        self.eigenvalues_ = solution.eigenvalues  # (dim,) of the concepts' matrix (eq. 12), largest first
        table = _table(solution, {lang: vocabularies[lang] for lang in blocks})
        self.model_ = Cr5Model({lang: vocabularies[lang].words for lang in blocks}, Table(table), table.shape[1])

    def blocks(self, corpus: Corpus) -> tuple[dict[str, Vocabulary], dict[str, Block]]:
        """Vocabularies and TF-IDF rows of the training documents, by language; each document has a known word."""
        counts = corpus.counts()
        if corpus.documents and not counts:
            raise BadInput(
                "none of the documents has a field concept, the same for translations of one another; "
                "name it if it is called otherwise: --field concept=THEIRS"
            )
        self.remarks_: list[str] = []  # what the user should know, one sentence each
        rows, remark = rows_within_limits(counts, self.settings.limits)
        self.remarks_ += [remark] if remark else []
        fitting = sum(map(len, rows.values()))
        if self.settings.has_pivots:
            published = self.settings.pairs == "transitive-published"
            rows = transitive_rows(counts, rows, self.settings.pivots, published=published)
        undealt = fitting - sum(map(len, rows.values()))
        vocabularies, blocks = {}, dict[str, Block]()
        unlinked_rows, rows = (
            rows,
            {  # sorted by concept and length, so that the order of reading has no effect
                lang: documents[np.lexsort((counts[lang].distinct[documents], counts[lang].concepts[documents]))]
                for lang, documents in linked_rows(counts, rows).items()
            },
        )
        alone = sum(len(unlinked_rows[lang]) - len(documents) for lang, documents in rows.items())
        self._remark_left_out(corpus, undealt, alone, sorted(counts.keys() - rows.keys()))
        sharing = set(rows)
        while True:
            for lang, documents in rows.items():
                lang_counts = counts[lang]
                vocabularies[lang], matrix = fit_vocabulary(
                    lang_counts.matrix[documents], lang_counts.words, self.settings.vocabulary, self.settings.least
                )
                blocks[lang] = Block(matrix, lang_counts.concepts[documents])
            empty = {lang: np.diff(blocks[lang].matrix.indptr) == 0 for lang in rows}
            if not any(is_empty.any() for is_empty in empty.values()):
                break
            if all(is_empty.all() for is_empty in empty.values()):
                raise BadInput(
                    f"no word is in {self.settings.least} documents of its language, so there is no vocabulary; "
                    "give more documents"
                )
            rows = linked_rows(counts, {lang: documents[~empty[lang]] for lang, documents in rows.items()})
        if wordless := sorted(sharing - rows.keys()):
            self.remarks_.append(
                f"{_are(wordless)} left out: the documents there, or those they share concepts with, have no word "
                f"that is in {self.settings.least} documents"
            )
        present = np.unique(np.concatenate([blocks[lang].concepts for lang in rows]))
        return vocabularies, {
            lang: Block(blocks[lang].matrix, np.searchsorted(present, blocks[lang].concepts)) for lang in sorted(rows)
        }

    def _remark_left_out(self, corpus: Corpus, undealt: int, alone: int, unlinked: Sequence[str]) -> None:
        pivots, published = " or ".join(self.settings.pivots), self.settings.pairs == "transitive-published"
        if undealt:
            self.remarks_.append(
                f"{counted(undealt, 'document is', 'documents are')} left out: the concept has no document in "
                f"{pivots}, or {'several other languages have it' if published else 'was assigned to another language'}"
            )
        if alone:
            about = "about concepts that no other language has"
            self.remarks_.append(f"{counted(alone, f'document {about} teaches', f'documents {about} teach')} nothing")
        if unlinked:
            why = f"is left to link it with {pivots}" if pivots else "shares a concept with another language"
            self.remarks_.append(f"{_are(unlinked)} left out: no document there {why}")
        if corpus.without_concept:
            sentence = counted(
                corpus.without_concept, "document without a concept teaches", "documents without a concept teach"
            )
            self.remarks_.append(f"{sentence} nothing")

    def _solution(self, blocks: Mapping[str, Block], dimensions: int, console: Console) -> Solution:
        """Choose λ and solve. Raises BadInput: the equations can't be solved, or the documents teach nothing."""
        try:
            if self.settings.ridge is None:
                with console.progress("choosing ridge", ridge_choice.MODELS, "models") as progress:
                    chosen = ridge_choice.choose_ridge(blocks, dimensions, seed=self.settings.seed, progress=progress)
            else:
                chosen = self.settings.ridge, {}
            self.ridge_, self.tried_ = chosen  # reciprocal ranks by λ
            with console.progress("solving", None, "vectors") as progress:
                solution = solve(blocks, dimensions, self.ridge_, seed=self.settings.seed, progress=progress)
        except (ArithmeticError, LinAlgError) as error:
            ridges = "those tried" if self.settings.ridge is None else f"{self.settings.ridge:g}"
            raise BadInput(
                f"the equations can't be solved with ridge {ridges} ({error}); give a larger --ridge"
            ) from error
        if not solution.dimensions:
            raise BadInput(
                "documents about different concepts don't differ in their words, or the ridge is too large "
                f"({self.ridge_:g}); give other documents, or a smaller --ridge"
            )
        return solution


def _are(langs: Sequence[str]) -> str:
    return f"{', '.join(langs)} {'is' if len(langs) == 1 else 'are'}"


def _table(solution: Solution, vocabularies: Mapping[str, Vocabulary]) -> FloatArray:
    """Φᵀ times idf, language after language; only one language's columns are in memory at a time."""
    table = np.zeros(
        (1 + sum(len(vocabulary.words) for vocabulary in vocabularies.values()), solution.dimensions), np.float32
    )
    row = 1
    for lang, vocabulary in vocabularies.items():
        part = table[row : row + len(vocabulary.words)]
        np.multiply(solution.columns[lang], vocabulary.idf[:, None], out=part)
        row += len(part)
    return table
