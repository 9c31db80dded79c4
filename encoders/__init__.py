"""Text in a known language → unit vectors: the encoders, and what they share."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before ONNX Runtime is loaded: it would report to its maker
