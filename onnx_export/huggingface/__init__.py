"""Export Hugging Face encoders as ONNX folders."""
