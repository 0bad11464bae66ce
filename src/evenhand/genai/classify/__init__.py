"""What an item shows: one protocol, a model that is asked over HTTP, and classifiers that need no model."""

from __future__ import annotations

from evenhand.genai.classify.classifier import Classifier, ClassifierFunction, exact_label
from evenhand.genai.classify.lexicon import Lexicon
from evenhand.genai.classify.onnx_pictures import OnnxPictures, PictureHead
from evenhand.genai.classify.studio_pixels import StudioPixels
from evenhand.genai.classify.vision import ChatClassifier

__all__ = [
    "ChatClassifier",
    "Classifier",
    "ClassifierFunction",
    "Lexicon",
    "OnnxPictures",
    "PictureHead",
    "StudioPixels",
    "exact_label",
]
