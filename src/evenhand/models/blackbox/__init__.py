"""Models that are only asked: estimators, functions, HTTP endpoints, ONNX and PyTorch at run time, models of texts."""
