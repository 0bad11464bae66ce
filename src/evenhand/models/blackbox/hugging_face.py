"""Text classifiers saved by Hugging Face's transformers. No code in the folder is run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.text import summarize_error
from evenhand.core.typing import Floats
from evenhand.errors import MissingExtraError, ModelError, TrustError

TEXTS_PER_BATCH = 32
"""Texts per network call. They are padded to the longest text."""

UNBOUNDED = 1_000_000
"""Tokenizer limits of at least this many tokens mean no limit."""

DESCRIPTIONS = ("config.json", "tokenizer_config.json")


@dataclass(frozen=True, eq=False)
class TextClassifier:
    """Sequence classification model with its tokenizer.

    Attributes:
        network: The model, in evaluation mode.
        tokenizer: Its tokenizer.
        classes: Labels in the order of the outputs. None for a single output, the score of the favourable label.
        longest: Maximum number of tokens. Longer texts are truncated.
    """

    network: Any
    tokenizer: Any
    classes: tuple[str, ...] | None
    longest: int | None

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Compute one probability per label, shape (n, classes), or the favourable label's, shape (n,)."""
        # Without a padding token, a batch cannot mix texts of different lengths.
        size = 1 if self.tokenizer.pad_token is None else TEXTS_PER_BATCH
        parts = [self._ask(list(texts[i : i + size])) for i in range(0, len(texts), size)]
        return np.concatenate(parts)

    def _ask(self, texts: list[str]) -> Floats:
        import torch

        padded = self.tokenizer.pad_token is not None
        tokens = self.tokenizer(
            texts, padding=padded, truncation=self.longest is not None, max_length=self.longest, return_tensors="pt"
        )
        with torch.inference_mode():
            outputs = self.network(**tokens).logits.double()
        probabilities = torch.sigmoid(outputs)[:, 0] if self.classes is None else torch.softmax(outputs, dim=1)
        return np.asarray(probabilities.numpy())


def is_text_classifier(path: Path) -> bool:
    """Check whether a folder contains a transformers model."""
    return path.is_dir() and (path / "config.json").is_file()


def read_text_classifier(folder: Path) -> TextClassifier:
    """Read a folder of ``config.json``, weights in safetensors, and a tokenizer.

    Raises:
        ModelError: The folder is damaged, contains no text classifier, or has weights in another format.
        TrustError: The model needs custom code.
        MissingExtraError: transformers or PyTorch is not installed.
    """
    name = str(folder)
    settings = []
    for path in (folder / part for part in DESCRIPTIONS if (folder / part).is_file()):
        try:
            settings.append(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise ModelError(f"the file is not readable JSON ({error})", location=str(path)) from None
        if not isinstance(settings[-1], dict):
            raise ModelError(f"expected a JSON object, got {type(settings[-1]).__name__}", location=str(path))
    if any("auto_map" in part for part in settings):
        raise TrustError(
            "the model needs custom code (auto_map), which is not run",
            location=name,
            hint="wrap it as module:function",
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            "the folder has no safetensors weights, and other weight formats can execute code",
            location=name,
            hint="save it again: model.save_pretrained(folder)",
        )
    kinds = [str(kind) for kind in settings[0].get("architectures") or []]
    if not any(kind.endswith("ForSequenceClassification") for kind in kinds):
        raise ModelError(
            f"expected a text classifier (...ForSequenceClassification), got {', '.join(kinds) or 'none'}",
            location=name,
        )
    if settings[0].get("problem_type") in ("regression", "multi_label_classification"):
        raise ModelError(
            f"the model does not assign a single label to each text (problem_type {settings[0]['problem_type']})",
            location=name,
            hint="wrap it as module:function that returns one label or score for each text",
        )
    return _open_network(folder, name)


def _open_network(folder: Path, name: str) -> TextClassifier:
    try:
        import torch  # noqa: F401 - transformers checks for it when it creates a model
        import transformers
    except ImportError as error:
        missing = "torch" if error.name == "torch" else "transformers"
        raise MissingExtraError(missing, extra="transformers", purpose="to run a Hugging Face model") from None
    bars = transformers.utils.logging
    bars_enabled = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
        network = transformers.AutoModelForSequenceClassification.from_pretrained(folder, use_safetensors=True, **safe)
    except Exception as error:  # the library may raise almost any exception for a damaged folder
        raise ModelError(
            f"the folder cannot be read as a text classifier: {summarize_error(error)}",
            location=name,
            hint="it needs config.json, safetensors and the tokenizer files written by save_pretrained",
        ) from None
    finally:
        if bars_enabled:
            bars.enable_progress_bar()
    settings = network.eval().config
    count = int(settings.num_labels)
    limits = [int(tokenizer.model_max_length), int(getattr(settings, "max_position_embeddings", None) or UNBOUNDED)]
    longest = min(limits)
    return TextClassifier(
        network,
        tokenizer,
        None if count == 1 else tuple(str(settings.id2label[i]) for i in range(count)),
        longest if longest < UNBOUNDED else None,
    )
