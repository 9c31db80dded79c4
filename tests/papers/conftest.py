"""The models and pages that the tests of training have."""

from tests.onnx_export.conftest import hugging_face, save_model
from tests.onnx_export.hmde.conftest import pages, small_model

__all__ = ["hugging_face", "pages", "save_model", "small_model"]
