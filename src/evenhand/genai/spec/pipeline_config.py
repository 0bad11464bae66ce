"""Configuration of a generator, a classifier, a judge and a guard.

::

    generator: {kind: studio, bias: {age: {child: 0.05, adult: 0.9}}, obeys: 0.95}
    classifier: {kind: studio}
    judge: {kind: keywords}
    guard: {mode: before, when_unsure: refuse}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from evenhand.core.config import FileModel
from evenhand.errors import OptionError
from evenhand.genai.spec.entries import ConfigPart, Name, Names, Share, check_known, check_values, list_to_tuple

WhenUnsure: TypeAlias = Literal["refuse", "pass"]
PictureLayout: TypeAlias = Literal["nchw", "nhwc"]
ScoreKind: TypeAlias = Literal["probabilities", "softmax", "sigmoid"]
FitMethod: TypeAlias = Literal["stretch", "cover", "contain"]

UNSCALED = ((0.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
"""Range, mean and standard deviation of colours without scaling."""


DOTTED_NAME = r"[^\W\d]\w*(\.[^\W\d]\w*)*"


def _matching(pattern: str, expected: str) -> AfterValidator:
    """Build a check of a text against a pattern. The text may be a key, and is not repeated in the error."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.DOTALL):
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


Address: TypeAlias = Annotated[Name, _matching(r"https?://[^/\s].*", "a URL starting with http:// or https://")]
Variable: TypeAlias = Annotated[Name, _matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")]
FunctionName: TypeAlias = Annotated[Name, _matching(f"{DOTTED_NAME}:{DOTTED_NAME}", "module:function")]
Options: TypeAlias = dict[Name, Any]
WordLists: TypeAlias = dict[Name, dict[Name, Annotated[Names, Field(min_length=1)]]]
"""By concept group and value."""


class RemoteConfig(ConfigPart):
    """Model behind an endpoint compatible with OpenAI.

    Attributes:
        url: Base URL, such as ``http://127.0.0.1:8080/v1``.
        model: Name of the model.
        key: Environment variable that contains the key.
        timeout: Time limit of a request in seconds.
        options: Further entries of each request, such as ``size: 512x512``.
    """

    url: Address
    model: Name
    key: Variable | None = None
    timeout: Annotated[float, Field(gt=0)] = 60.0
    options: Options = Field(default_factory=dict)


class StudioGeneratorConfig(ConfigPart):
    """Built-in studio. See ``Studio``.

    Attributes:
        bias: Weights by group and value. Default: equal.
        obeys: Probability that an instruction is obeyed.
        unrecognised: Fraction of items without a recognisable value.
        seed: Seed of the draws.
    """

    kind: Literal["studio"]
    bias: dict[Name, dict[Name, Annotated[float, Field(ge=0)]]] = Field(default_factory=dict)
    obeys: Share = 1.0
    unrecognised: Share = 0.0
    seed: Annotated[int, Field(ge=0)] = 0


class ImagesGeneratorConfig(RemoteConfig):
    """Pictures from an endpoint."""

    kind: Literal["images"]


class ChatGeneratorConfig(RemoteConfig):
    """Texts from an endpoint.

    Attributes:
        system: System message before every prompt.
    """

    kind: Literal["chat"]
    system: Name | None = None


class DiffusersGeneratorConfig(ConfigPart):
    """Pictures from a diffusion model in a folder.

    Attributes:
        model: Folder of the model.
        steps: Number of denoising steps.
        device: Device, such as ``cpu`` or ``cuda``.
        seed: Seed of the noise.
        precision: Floating-point type.
        options: Options of the pipeline, such as ``height: 256``.
    """

    kind: Literal["diffusers"]
    model: Name
    steps: Annotated[int, Field(ge=1)] = 20
    device: Name = "cpu"
    seed: Annotated[int, Field(ge=0)] = 0
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    options: Options = Field(default_factory=dict)


class StudioClassifierConfig(ConfigPart):
    """Classifier of the pixels of pictures of the studio."""

    kind: Literal["studio"]


class ChatClassifierConfig(RemoteConfig):
    """A vision-language model behind an endpoint.

    Attributes:
        questions: Question by concept group. Default: derived from its name.
    """

    kind: Literal["chat"]
    questions: dict[Name, Name] = Field(default_factory=dict)


class PictureHead(FileModel):
    """Output of a model that classifies one concept group.

    Attributes:
        file: ONNX file.
        labels: Label of each score: a value of the concept group, or None if it is not a value. The probabilities of
            repeated values are added. With two labels, a single score belongs to the second label.
        scores: ``probabilities``, or scores that are converted with ``softmax`` or, each separately, with ``sigmoid``.
        output: Name of the output of the scores. Default: the only output with this width.
        threshold: Minimum probability. Below it, the value is unknown.
        size: Height and width of pictures, or one number for both. Default: that of the model.
        layout: ``nchw`` (colours before rows) or ``nhwc``. Default: derived from the axis of size 3.
        fit: Fitting of pictures with a different shape: ``stretch``, ``cover`` (the centre) or ``contain`` (on black).
        range: Numbers that represent black and white.
        mean: Numbers subtracted from red, green and blue, in that range.
        std: Divisors of the results.
        colours: ``rgb``, or ``bgr`` if blue comes first.
    """

    file: Path
    labels: tuple[str | None, ...] = Field(min_length=2)
    scores: ScoreKind
    output: str | None = None
    threshold: float = Field(0.5, ge=0, le=1)
    size: tuple[int, int] | None = None
    layout: PictureLayout | None = None
    fit: FitMethod = "stretch"
    range: tuple[float, float] = UNSCALED[0]
    mean: tuple[float, float, float] = UNSCALED[1]
    std: tuple[float, float, float] = UNSCALED[2]
    colours: Literal["rgb", "bgr"] = "rgb"

    @model_validator(mode="before")
    @classmethod
    def _expand_size(cls, entries: Any) -> Any:
        if isinstance(entries, Mapping) and isinstance(entries.get("size"), int):
            return {**entries, "size": (entries["size"], entries["size"])}
        return entries

    @model_validator(mode="after")
    def _check_consistency(self) -> PictureHead:
        values = [label for label in self.labels if label is not None]
        if not values:
            raise ValueError("labels must name at least one value")
        if self.scores == "sigmoid" and len(set(values)) < len(values):
            raise ValueError("sigmoid scores cannot be added: name every value once")
        if min(self.std) <= 0:
            raise ValueError("std must be above 0")
        if self.size is not None and min(self.size) < 1:
            raise ValueError("size must be at least 1")
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """Values that it can name."""
        return tuple(dict.fromkeys(label for label in self.labels if label is not None))


class OnnxClassifierConfig(ConfigPart):
    """ONNX models that classify pictures.

    Attributes:
        groups: Output of a model by concept group.
    """

    kind: Literal["onnx"]
    groups: Annotated[dict[Name, PictureHead], Field(min_length=1)]


class LexiconClassifierConfig(ConfigPart):
    """Words in texts.

    Attributes:
        words: Words by concept group and value.
    """

    kind: Literal["lexicon"]
    words: Annotated[WordLists, Field(min_length=1)]


class FunctionClassifierConfig(ConfigPart):
    """A function in a Python file.

    Attributes:
        function: Function as ``module:function``. It maps an ``Item`` to a value, or None, for every group.
    """

    kind: Literal["function"]
    function: FunctionName


class KeywordJudgeConfig(ConfigPart):
    """The keywords of the conditions.

    Attributes:
        fixed: Words that fix a value, by concept group and value. Default: the names of the values.
    """

    kind: Literal["keywords"]
    fixed: WordLists = Field(default_factory=dict)


class ChatJudgeConfig(RemoteConfig):
    """A language model behind an endpoint, which answers the question ``judge`` of each condition."""

    kind: Literal["chat"]


class FunctionJudgeConfig(ConfigPart):
    """Functions in Python files.

    Attributes:
        functions: Function for each condition as ``module:function``. It maps a prompt to True or False.
        fixed: Function for each concept group that checks whether a prompt fixes its value.
    """

    kind: Literal["function"]
    functions: Annotated[dict[Name, FunctionName], Field(min_length=1)]
    fixed: dict[Name, FunctionName] = Field(default_factory=dict)


Money: TypeAlias = Annotated[float, Field(ge=0)]
Cap: TypeAlias = Annotated[float, Field(gt=0)]


class PriceConfig(ConfigPart):
    """Prices of a generator, in any currency.

    Attributes:
        item: Price of each picture or text.
        call: Price of each call, whether it succeeds or not.
        tokens: Price of a million input tokens and of a million output tokens.
    """

    item: Money = 0.0
    call: Money = 0.0
    tokens: Annotated[tuple[Money, Money], BeforeValidator(list_to_tuple)] = (0.0, 0.0)

    def cost(self, *, calls: int, items: int, usage: Mapping[str, Any]) -> float:
        """Compute the cost of calls, of their items and of the tokens that they report."""
        counts = (
            next((count for name in names if isinstance(count := usage.get(name), int | float)), 0)
            for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
        )
        tokens = sum(count * price for count, price in zip(counts, self.tokens, strict=True))
        return calls * self.call + items * self.item + tokens / 1e6


class BudgetConfig(ConfigPart):
    """Maximum cost of a generator, in the currency of the prices.

    Attributes:
        request: Maximum cost of one requested item, including all attempts and candidates. If it does not allow
            another attempt, no item is delivered.
        hour: Maximum cost of a guard of the service per clock hour.
        day: Maximum cost of a guard of the service in 24 hours, including the current hour.
    """

    request: Cap | None = None
    hour: Cap | None = None
    day: Cap | None = None

    def check(self, price: PriceConfig) -> None:
        """Raise an OptionError if a budget has no effect or does not allow any item."""
        cost = price.cost(calls=1, items=1, usage={})
        for name in ("request", "hour", "day"):
            cap = getattr(self, name)
            if cap is None:
                continue
            if price == PriceConfig():
                hint = "write the price of the generator, such as price: {item: 0.04}"
                raise OptionError("a budget needs a price", location="guard.price", hint=hint)
            if cap < cost:
                raise OptionError(
                    f"{cap:g} does not cover one item, which costs {cost:g}",
                    location=f"guard.budget.{name}",
                    hint="raise the budget, or correct the price",
                )


class InstructionConfig(ConfigPart):
    """Instructions added to prompts.

    Attributes:
        template: Text that is appended to a prompt, with ``{values}``. If it also contains ``{prompt}``, it replaces
            the prompt.
        part: Wording of a value without specific words, with ``{value}`` and optionally ``{group}``.
        values: Words for a value by concept group and value, such as ``a woman``.
        either: Separator between alternative values.
        also: Separator between groups.
    """

    template: Annotated[Name, _matching(r".*\{values\}.*", "a text with {values}")] = "(showing: {values})"
    part: Annotated[Name, _matching(r".*\{value\}.*", "a text with {value}")] = "{group} {value}"
    values: dict[Name, dict[Name, Name]] = Field(default_factory=dict)
    either: Name = " or "
    also: Name = ", "


class GuardConfig(ConfigPart):
    """Configuration of a guard.

    Attributes:
        mode: ``before`` or ``after``. See ``Enforcer``.
        instruction: Wording of instructions.
        when_unsure: Reaction to a failure of the judge or the classifier: ``refuse``, or ``pass`` and record it.
        candidates: Number of items requested at once if a value is required. The first that fits is delivered.
        price: Prices of the generator.
        budget: Maximum cost.
    """

    mode: Literal["before", "after"] = "before"
    when_unsure: WhenUnsure = "refuse"
    instruction: InstructionConfig = Field(default_factory=InstructionConfig)
    candidates: Annotated[int, Field(ge=1, le=16)] = 1
    price: PriceConfig = PriceConfig()
    budget: BudgetConfig = BudgetConfig()

    @model_validator(mode="after")
    def _check_budget(self) -> GuardConfig:
        self.budget.check(self.price)
        return self


GeneratorConfig: TypeAlias = Annotated[
    StudioGeneratorConfig | ImagesGeneratorConfig | ChatGeneratorConfig | DiffusersGeneratorConfig,
    Field(discriminator="kind"),
]
ClassifierConfig: TypeAlias = Annotated[
    StudioClassifierConfig
    | ChatClassifierConfig
    | OnnxClassifierConfig
    | LexiconClassifierConfig
    | FunctionClassifierConfig,
    Field(discriminator="kind"),
]
JudgeConfig: TypeAlias = Annotated[
    KeywordJudgeConfig | ChatJudgeConfig | FunctionJudgeConfig, Field(discriminator="kind")
]


def check_pipeline(
    classifier: ClassifierConfig | None,
    judge: JudgeConfig | None,
    *,
    groups: Mapping[str, tuple[str, ...]],
    conditions: Collection[str],
) -> None:
    """Check that the parts of a pipeline match the groups, values and conditions of its configuration.

    Raises:
        OptionError: A part names an unknown group, value or condition, or omits a required one.
    """
    match classifier:
        case LexiconClassifierConfig():
            _check_classified(classifier.words, groups, "classifier.words")
            check_values(classifier.words, groups, "classifier.words")
        case OnnxClassifierConfig():
            heads = {group: head.values for group, head in classifier.groups.items()}
            _check_classified(heads, groups, "classifier.groups")
        case ChatClassifierConfig():
            check_values(dict.fromkeys(classifier.questions, ()), groups, "classifier.questions")
    match judge:
        case KeywordJudgeConfig():
            check_values(judge.fixed, groups, "judge.fixed")
        case FunctionJudgeConfig():
            for name in conditions:
                if name not in judge.functions:
                    raise OptionError(
                        f"the condition {name!r} has no function",
                        location="judge.functions",
                        hint=f"write {name}: module:function",
                    )
            for name in judge.functions:
                check_known(name, conditions, "condition", "judge.functions")
            for name in judge.fixed:
                check_known(name, groups, "group", "judge.fixed")


def _check_classified(
    classified: Mapping[str, Collection[str]], groups: Mapping[str, tuple[str, ...]], location: str
) -> None:
    """Check that a classifier can name all values of all groups."""
    for group, values in classified.items():
        check_known(group, groups, "group", f"{location}.{group}")
        for value in groups[group]:
            if value not in values:
                raise OptionError(
                    f"the classifier never returns {group} {value!r}, which must appear",
                    location=f"{location}.{group}",
                    hint=f"the values are {', '.join(groups[group])}; the classifier returns {', '.join(values)}",
                )
    for group in groups:
        if group not in classified:
            raise OptionError(
                f"the classifier does not classify the group {group!r}",
                location="classifier",
                hint=f"it classifies {', '.join(classified)}",
            )


HINTS = {
    "conditions": "write the conditions of prompts, such as conditions: [{name: leader}]",
    "specifications": "write specifications: [{condition: leader, group: gender, values: [female, male], repeated: 6}]",
    "values": "write the values of the group, such as values: [female, male]",
    "repeated": "write the number of items within which every value appears, such as repeated: 6 or [5, 6, 6, 9]",
    "paired": "write the groups that are combined, such as paired: [age, gender]",
    "simulation.generator": "write the probability of every value, such as generator: {gender: [0.2, 0.8]}",
    "name": 'write a text, such as name: "leader"',
    "condition": "name one of the conditions",
    "group": "name a concept group, such as group: gender",
    "groups": "write the values of every group, such as groups: {gender: [female, male]}",
    "classifier.onnx.groups": "write an output for each group: {age: {file: a.onnx, labels: [x, y], scores: softmax}}",
    "generator": "write the generator of items, such as generator: {kind: studio}",
    "classifier": "write the classifier of items, such as classifier: {kind: studio}",
    "judge": "write the judge of prompts, such as judge: {kind: keywords}",
    "guard": "write guard: {mode: before, when_unsure: refuse}",
    "instruction": "write instruction: {template: 'It shows {values}.', values: {gender: {woman: a woman}}}",
    "template": "add the placeholder of the values, such as template: '(showing: {values})'",
    "part": "add the placeholder of the value, such as part: '{group} {value}'",
    "price": "write the price of the generator, such as price: {item: 0.04}",
    "tokens": "write the price of a million input and output tokens, such as tokens: [0.15, 0.60]",
    "budget": "write the maximum cost, such as budget: {request: 0.20, day: 50}",
    "candidates": "write a whole number from 1 to 16, at most one more than retries under simulation",
    "url": "write the base URL, such as url: http://127.0.0.1:8080/v1",
    "model": "name the model, such as model: llava",
    "key": "name the environment variable of the key, such as key: OPENAI_API_KEY, and never the key itself",
    "options": "write further entries of requests, such as options: {size: 512x512}",
    "bias": "write weights of the values, such as bias: {age: {child: 0.05, adult: 0.9}}",
    "file": "name a file, such as file: gender.onnx",
    "scores": "write scores: probabilities, softmax or sigmoid, as the model's authors state",
    "labels": "write the meaning of the outputs in their order, such as labels: [female, male]",
    "words": "write words of every value, such as words: {gender: {female: [she, her], male: [he, his]}}",
    "fixed": "write words that fix a value, such as fixed: {gender: {female: [woman, lady], male: [man]}}",
    "judge.function.fixed": "write functions by group, such as fixed: {gender: prompts:says_gender}",
    "samples": "name a file with the columns true and said, such as samples: {gender: sample.csv}",
    "tolerated": "write tolerated: {labels: 0.05, misses: 0.01, requests: 100000}",
    "function": "write function: module:function",
    "functions": "write functions by condition, such as functions: {leader: prompts:is_leader}",
}
"""Hints with an example by entry."""
