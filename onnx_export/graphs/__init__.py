"""ONNX graphs: precision, parity, the BiLSTM."""
