"""Encoders of Hugging Face turned into ONNX folders."""
