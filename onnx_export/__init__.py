"""Export models as folders of ONNX graphs, each compared with the model that it was made from."""
