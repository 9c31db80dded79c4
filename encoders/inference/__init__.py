"""Graphs in ONNX Runtime: how they are loaded, what each thread runs, and in which batches."""
