"""A reranker: a cross-encoder, which reads a query and a passage together and scores how well the passage answers."""

from collections.abc import Sequence

import numpy as np
import tokenizers

from encoders.document import FloatArray, Int32Array
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.inference.session import OnnxSession
from encoders.machine.placement import Device

Pair = tuple[str, str]
"""A query and a passage."""


class Reranker:
    """A loaded cross-encoder; several threads may call it at once."""

    def __init__(self, folder: ModelFolder, *, device: Device = "auto", checked: bool = True) -> None:
        """Load tokenizer and graph, whose hashes are ``checked`` unless the folder is not published yet.

        Raises BadInput: it is no reranker's, or a file is damaged or another model's; MissingPart: from the session.
        """
        if not folder.config.is_reranker:
            raise BadInput(
                f"{folder.path} is an encoder and scores no pairs; --rerank takes a folder that dragoman export makes "
                "of a model for sequence classification"
            )
        if checked:
            folder.check_files()
        self.folder = folder
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder.tokenizer))
        except Exception as error:  # the library raises plain Exceptions
            raise BadInput(f"{folder.tokenizer} is no tokenizer ({error}); export the model again") from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(folder.config.max_tokens, strategy="longest_first")
        self._tokenizer.encode_special_tokens = True  # their names are text
        self._pad = next(filter(None, map(self._tokenizer.token_to_id, ("<pad>", "[PAD]"))), 0)
        self._session = OnnxSession(folder, device=device)

    def scores(self, pairs: Sequence[Pair]) -> FloatArray:
        """(pairs,) scores, the logit that a passage answers its query; the longer text of a long pair is cut off."""
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        return self._session.run(self.token_rows(pairs), self._pad)[:, 0]

    def token_rows(self, pairs: Sequence[Pair]) -> list[Int32Array]:
        """The token ids of each pair, with special tokens."""
        return [np.array(encoding.ids, dtype=np.int32) for encoding in self._tokenizer.encode_batch(list(pairs))]
