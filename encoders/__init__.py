"""Encoders (text in a known language → unit vectors), and the modules that all packages share."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # set before ONNX Runtime is loaded, which would send usage data
