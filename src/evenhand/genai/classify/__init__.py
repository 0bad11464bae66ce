"""What an item shows: one protocol, and classifiers that need no model."""

from __future__ import annotations

from evenhand.genai.classify.classifier import Classifier, ClassifierFunction, exact_label
from evenhand.genai.classify.lexicon import Lexicon
from evenhand.genai.classify.studio_pixels import StudioPixels

__all__ = ["Classifier", "ClassifierFunction", "Lexicon", "StudioPixels", "exact_label"]
