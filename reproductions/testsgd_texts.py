"""The text data sets: a network of convolutions and an LSTM, searched as published and by counting, and mended.

Source: TestSGD, section 5. The paper names the kind of network and no sizes; these are of Keras's example
``imdb_cnn_lstm`` (texts of 100 words, windows of five, pools of four), with narrower layers.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand import datasets
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.datasets import IdentityCategory
from evenhand.datasets.identity.lists import resolve_categories
from evenhand.datasets.identity.swapping import TermSwapper
from evenhand.datasets.store import data_home
from evenhand.datasets.tables import COMPRESSIONS
from evenhand.errors import FetchError, MissingExtraError
from evenhand.subgroups import TextSubgroupConfig, TextSubgroupResult
from evenhand.subgroups.text.analysis import find_text_subgroups
from reproductions.common import Context, Values
from reproductions.testsgd_people import EVERY, PUBLISHED, describe_finding
from reproductions.testsgd_samples import SampledGaps, sample_text_gaps

WORD = re.compile(r"[a-z0-9']+")


class TextFile(NamedTuple):
    """A table of labelled texts.

    Attributes:
        name: of the file, without the suffix of a compression.
        text, label: its columns.
        favourable: the label that is favourable.
    """

    name: str
    text: str
    label: str
    favourable: Any


@dataclass(frozen=True)
class TextCollection:
    """A collection of texts, and how its network is trained.

    Attributes:
        name: of the collection.
        files: tables that it is read from, the first that is there.
        more: tables whose texts are searched besides, where they are there.
        hint: where the files can be got.
        epochs: how often the network sees the texts that it learns from.
        depth: terms in a rule set at most, in the published search of all of them.
        cut: whether samples are made of the words alone that the network reads: the last of a text.
        note: where our texts differ from the paper's.
    """

    name: str
    files: tuple[TextFile, ...]
    more: tuple[TextFile, ...] = ()
    hint: str = ""
    epochs: int = 5
    depth: int = 2
    cut: bool = False
    note: str = ""


COLLECTIONS = {
    "wiki": TextCollection(
        "wiki",
        (
            TextFile("wiki_talk_toxicity_5k.csv", "text", "toxic", 0),
            TextFile("jigsaw-toxic-comment-train.csv", "comment_text", "toxic", 0),
        ),
        (TextFile("wiki_talk_cat_large.csv", "text", "toxic", 0),),
        "save the labelled comments of Wikipedia's talk pages there, columns comment_text and toxic",
        epochs=5,
        note="5,000 labelled comments and 20,000 more that are searched; the paper has more than 100,000",
    ),
    "imdb": TextCollection(
        "imdb",
        (
            TextFile("imdb_25k.csv", "text", "label", 1),
            TextFile("IMDB Dataset.csv", "review", "sentiment", "positive"),
        ),
        hint="save the 50,000 reviews there, columns review and sentiment",
        epochs=4,
        depth=1,
        cut=True,
        note="25,000 of the 50,000 reviews; samples are made of the 100 words of a review that the network reads",
    ),
}
"""The collections of texts, by name."""

VOCABULARY, LENGTH, EMBEDDED, FILTERS, UNITS = 10_000, 100, 32, 32, 32
"""Words known; last words of a text that are read; sizes of the layers."""

BATCH, RATE = 64, 0.003
ASKED = 512
"""Texts asked about at once."""

HELD_OUT = 0.2
AMOUNTS = (0.01, 0.03, 0.1)
"""Instances added, as shares of the training set; the paper goes from 50 of them to a tenth."""


class LabelledTexts(NamedTuple):
    """Texts and their labels.

    Attributes:
        texts, favourable: shape (n,) each.
        trained: which of them the network learns from.
        searched: the texts in which subgroups are searched: these and more.
        sampled: the same, or the end of each, to make samples of.
    """

    texts: list[str]
    favourable: Booleans
    trained: Booleans
    searched: list[str]
    sampled: list[str]


def read_collection(collection: TextCollection, home: Path | None, seed: int) -> LabelledTexts:
    """Return the texts of a collection, four fifths of them to learn from.

    Raises:
        FetchError: no file of it is in the folder of data files.
    """
    path = find_table([file.name for file in collection.files], home, hint=collection.hint)
    file = next(one for one in collection.files if path.name.startswith(one.name))
    frame = datasets.read_frame(path)
    texts = frame[file.text].fillna("").astype(str).tolist()
    searched = list(texts)
    for one in collection.more:
        if (path.parent / f"{one.name}.xz").is_file() or (path.parent / one.name).is_file():
            searched += datasets.read_frame(find_table([one.name], path.parent))[one.text].astype(str).tolist()
    trained = np.random.default_rng(seed).random(len(texts)) >= HELD_OUT
    sampled = [cut_text(one) for one in searched] if collection.cut else searched
    return LabelledTexts(texts, np.asarray(frame[file.label] == file.favourable), trained, searched, sampled)


def find_table(names: Sequence[str], home: Path | None, hint: str = "") -> Path:
    """Return the first of some files that is in the folder of data files, plain or compressed.

    Raises:
        FetchError: none of them is there.
    """
    folder = data_home(home)
    for path in (folder / (name + suffix) for name in names for suffix in ("", *COMPRESSIONS)):
        if path.is_file():
            return path
    raise FetchError(f"none of these files is in {folder}: {', '.join(names)}", hint=hint or "put one of them there")


def cut_text(given: str) -> str:
    """Return the end of a text, from the first word that the network reads."""
    starts = [match.start() for match in WORD.finditer(given.lower())]
    return given[starts[-LENGTH] :] if len(starts) > LENGTH else given


@dataclass
class TextNetwork:
    """A trained network: a function from texts to scores of the favourable label.

    Attributes:
        places: word -> row of the embedding.
        layers: PyTorch's modules by name.
        asked, seconds: texts it was asked about, and the processor's seconds that took.
    """

    places: dict[str, int]
    layers: Any
    asked: int = 0
    seconds: float = 0.0

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Return the score of the favourable label for each text, 0 to 1."""
        import torch

        started, found = time.process_time(), []
        with torch.inference_mode():
            for start in range(0, len(texts), ASKED):
                rows = torch.from_numpy(self.encode(texts[start : start + ASKED]))
                found.append(torch.sigmoid(_run_layers(self.layers, rows)).numpy())
        self.asked += len(texts)
        self.seconds += time.process_time() - started
        return np.concatenate(found).astype(np.float64) if found else np.empty(0)

    def encode(self, texts: Sequence[str]) -> Integers:
        """Return the last words of texts as rows of the embedding, 0 before the first and 1 for unknown ones."""
        rows = np.zeros((len(texts), LENGTH), dtype=np.int64)
        for row, one in zip(rows, texts, strict=True):
            # The last words of a text are in its last letters; a text may begin in the middle of a word there.
            places = [self.places.get(word, 1) for word in WORD.findall(one[-40 * LENGTH :].lower())[-LENGTH:]]
            if places:
                row[-len(places) :] = places
        return rows


def train_network(texts: Sequence[str], favourable: Booleans, *, epochs: int, seed: int) -> TextNetwork:
    """Train a network on texts and return it; the same seed gives the same one.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    try:
        import torch
        from torch import nn
    except ModuleNotFoundError:
        raise MissingExtraError("torch", extra="torch", purpose="to train networks of texts") from None
    counts = Counter(word for one in texts for word in WORD.findall(one.lower()))
    words = [word for word, _ in counts.most_common(VOCABULARY - 2)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums must not depend on how many cores there are
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = nn.ModuleDict(
                {
                    "embedding": nn.Embedding(VOCABULARY, EMBEDDED),
                    "dropout": nn.Dropout(0.25),
                    "convolution": nn.Conv1d(EMBEDDED, FILTERS, 5),
                    "pool": nn.MaxPool1d(4),
                    "lstm": nn.LSTM(FILTERS, UNITS, batch_first=True),
                    "decision": nn.Linear(UNITS, 1),
                }
            )
            network = TextNetwork({word: i + 2 for i, word in enumerate(words)}, layers)
            rows = torch.from_numpy(network.encode(texts))
            wanted = torch.from_numpy(favourable.astype(np.float32))
            optimizer, loss = torch.optim.Adam(layers.parameters(), lr=RATE), nn.BCEWithLogitsLoss()
            rng = np.random.default_rng(seed)
            layers.train()
            for _ in range(epochs):
                order = torch.from_numpy(rng.permutation(len(texts)))
                for start in range(0, len(texts), BATCH):
                    batch = order[start : start + BATCH]
                    optimizer.zero_grad()
                    loss(_run_layers(layers, rows[batch]), wanted[batch]).backward()
                    optimizer.step()
            layers.eval()
    finally:
        torch.set_num_threads(threads)
    return network


def _run_layers(layers: Any, rows: Any) -> Any:
    import torch

    seen = layers["dropout"](layers["embedding"](rows)).transpose(1, 2)
    seen = layers["pool"](torch.relu(layers["convolution"](seen))).transpose(1, 2)
    _, (state, _) = layers["lstm"](seen)
    return layers["decision"](state[-1])[:, 0]


def train_collection(name: str, context: Context) -> tuple[LabelledTexts, TextNetwork]:
    """Return a collection and a network trained on it.

    Raises:
        FetchError: the collection is not here.
        MissingExtraError: PyTorch is not installed.
    """
    collection = COLLECTIONS[name]
    read = read_collection(collection, context.data_home, context.seed)
    trained = [one for one, used in zip(read.texts, read.trained, strict=True) if used]
    return read, train_network(trained, read.favourable[read.trained], epochs=collection.epochs, seed=context.seed)


def search_texts(name: str, context: Context) -> Values:
    """Train a network, count all rule sets of terms, and judge the published ones both ways.

    Raises:
        FetchError: the collection is not here.
        MissingExtraError: PyTorch is not installed.
    """
    read, network = train_collection(name, context)
    held, wanted = [one for one, used in zip(read.texts, read.trained, strict=True) if not used], ~read.trained
    right = int(((network(held) > 0.5) == read.favourable[wanted]).sum())
    asked = tuple(one["terms"] for one in PUBLISHED["text_subgroups"][name])
    started = time.process_time()
    counted = _search(network, read.searched, seed=context.seed, swaps=0, judged=asked)
    seconds = time.process_time() - started
    sampled = _sample(network, read.sampled, context, judged=asked)
    own = [one for one in counted.findings if one.found and one.under is None]
    widest = max(own, key=lambda one: abs(one.gap), default=None)
    return {
        "people": len(read.searched),
        "held_out": [right, len(held)],
        "note": COLLECTIONS[name].note,
        "counted": {
            "seconds": seconds,
            "rule_sets": counted.rule_sets,
            "tested": counted.tested,
            "found": counted.found,
            "widest": None if widest is None else describe_finding(widest),
        },
        "published": [
            describe_finding(one) | {"sampled": describe_finding(other)}
            for one, other in zip(counted.judged, sampled.judged, strict=True)
        ],
    }


def sample_texts(name: str, context: Context) -> Values:
    """Train a network, and sample the rule sets of terms as published.

    Raises:
        FetchError: the collection is not here.
        MissingExtraError: PyTorch is not installed.
    """
    read, network = train_collection(name, context)
    depth = 1 if context.quick else COLLECTIONS[name].depth
    started = time.process_time()
    found = _sample(network, read.sampled, context, depth=depth, most=EVERY)
    return {
        "seconds": time.process_time() - started,
        "depth": depth,
        "rule_sets": found.tested,
        "found": found.found,
        "top": [describe_finding(one) for one in found.findings[:3]],
    }


def mend_texts(name: str, context: Context) -> Values:
    """Retrain the network of a collection on texts made for the first published rule set, as published.

    Texts with its terms are made from those that the network was trained on; those that get the label that the rule set
    gets less often are added, a few at first and then more, and the smallest score is kept that costs no accuracy.

    Raises:
        FetchError: the collection is not here.
        MissingExtraError: PyTorch is not installed.
    """
    read, network = train_collection(name, context)
    terms = PUBLISHED["text_subgroups"][name][0]["terms"]
    trained = [one for one, used in zip(read.texts, read.trained, strict=True) if used]
    labels = read.favourable[read.trained]
    held = [one for one, used in zip(read.texts, read.trained, strict=True) if not used]
    truth = read.favourable[~read.trained]

    def measure(given: TextNetwork, added: int) -> Values:
        sampled = _sample(given, read.sampled, context, judged=(terms,))
        right = int(((given(held) > 0.5) == truth).sum())
        return {"added": added, "held_out": [right, len(held)], "sampled": describe_finding(sampled.judged[0])}

    tried = [measure(network, 0)]
    if "refused" in tried[0]["sampled"]:
        return {"tried": tried}
    rng = np.random.default_rng([context.seed, 7])
    made = make_texts(read.sampled, terms, rng)
    given_now = network(made) > 0.5
    rarer = tried[0]["sampled"]["gap"] < 0  # the label that the rule set gets too rarely
    pool = [one for one, favourable in zip(made, given_now, strict=True) if favourable == rarer]
    for share in AMOUNTS:
        count = min(max(round(share * len(trained)), 50), len(pool))
        added = [pool[i] for i in rng.permutation(len(pool))[:count]]
        again = train_network(
            [*trained, *added],
            np.concatenate([labels, np.full(len(added), rarer)]),
            epochs=COLLECTIONS[name].epochs,
            seed=context.seed,
        )
        tried.append(measure(again, len(added)))
        if count == len(pool):
            break
    return {"tried": tried}


def make_texts(texts: Sequence[str], terms: dict[str, str], rng: np.random.Generator) -> list[str]:
    """Return the texts that speak of somebody of each category, with these terms in the place of theirs, shuffled."""
    categories = {one.name: one for one in resolve_categories(["published"], by_term=True)}
    swaps = [_make_swap(categories[name], term) for name, term in terms.items()]
    made = []
    for one in texts:
        changed: str | None = one
        for swap in swaps:
            changed = None if changed is None else swap(changed)
        if changed is not None:
            made.append(changed)
    return [made[i] for i in rng.permutation(len(made))]


def _make_swap(category: IdentityCategory, term: str) -> Callable[[str], str | None]:
    swapper = TermSwapper(category)

    def swap(one: str) -> str | None:
        slot = next((slot for slot in swapper.slots(one) if term in slot.swapped), None)
        return None if slot is None else slot.of(term)

    return swap


def _sample(network: TextNetwork, texts: Sequence[str], context: Context, **settings: Any) -> SampledGaps:
    config = TextSubgroupConfig(by="term", compared="all", seed=context.seed, min_texts=1, **settings)
    return sample_text_gaps(network, texts, ["published"], config)


def _search(network: TextNetwork, texts: Sequence[str], *, seed: int, **settings: Any) -> TextSubgroupResult:
    found = find_text_subgroups(
        network, texts, protected=["published"], by="term", compared="all", seed=seed, **settings
    )
    if found.interrupted:
        raise KeyboardInterrupt  # a search that somebody stopped is no part of a table
    return found
