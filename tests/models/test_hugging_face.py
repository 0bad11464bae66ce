"""Text classifiers of transformers, from a folder: as its own pipeline answers, and nothing that runs code."""

import json

import numpy as np
import pytest

from evenhand.errors import ModelError, TrustError
from evenhand.individual import search
from evenhand.models import load_text_model

torch = pytest.importorskip("torch", reason="needs the extra transformers")
transformers = pytest.importorskip("transformers", reason="needs the extra transformers")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # the library's own

WORDS = ["[PAD]", "[UNK]", "she", "he", "is", "was", "a", "nurse", "doctor", "good", "bad", "her", "his", "father"]
TEXTS = ["she is a good doctor", "he was a bad nurse", "her father is a doctor", "unheard words", "she " * 100]


def save_model(folder, labels=("fine", "toxic"), **settings):
    """Write a tiny random classifier."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", model_max_length=24
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=24,
        num_labels=len(labels),
        id2label=dict(enumerate(labels)),
        initializer_range=1.0,
        **settings,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("labels", [("fine", "toxic"), ("low", "middle", "high")])
def test_it_answers_like_the_librarys_pipeline(tmp_path, labels):
    model = load_text_model(save_model(tmp_path, labels))
    pipeline = transformers.pipeline("text-classification", model=str(tmp_path), top_k=None)
    scores = model.replies(TEXTS)
    assert (model.classes, model.can_vary) == (labels, False)
    for row, found in zip(scores, pipeline(TEXTS, truncation=True, padding=True), strict=True):
        named = {one["label"]: one["score"] for one in found}
        assert row == pytest.approx([named[label] for label in labels], abs=1e-6)
    assert np.ptp(scores, axis=0).max() > 1e-3
    one_by_one = np.concatenate([model.replies([text]) for text in TEXTS])
    assert scores == pytest.approx(one_by_one, abs=1e-6)


def test_a_search_swaps_words_in_what_it_reads(tmp_path):
    found = search.search_texts(
        str(save_model(tmp_path)), [*TEXTS[:3], "he is good", "she was bad"], protected=["gender"]
    )
    assert found.queries > 5


def test_what_could_run_code_or_gives_no_label_is_refused(tmp_path):
    save_model(tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    for changed, error, words in (
        ({"auto_map": {"AutoModel": "own.Model"}}, TrustError, "custom code"),
        ({"architectures": ["BertModel"]}, ModelError, "expected a text classifier.*got BertModel"),
        ({"problem_type": "regression"}, ModelError, "not assign a single label"),
        ({"model_type": "unheard"}, ModelError, "cannot be read as a text classifier"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(described | changed))
        with pytest.raises(error, match=words):
            load_text_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(described))
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no safetensors weights"):
        load_text_model(tmp_path)
