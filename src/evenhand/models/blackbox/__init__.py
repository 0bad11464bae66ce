"""Black-box models: estimators, functions, HTTP endpoints, ONNX and PyTorch at run time, text models."""
