"""Models → folders of ONNX graphs that any encoder here can run, each proved against what it was made from."""
