"""Train encoders in torch, and export models as folders of ONNX graphs."""
