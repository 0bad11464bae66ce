"""Builders of generators, classifiers, judges and guards from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError, OptionError, TrustError
from evenhand.genai.backends.generator import Generator
from evenhand.genai.backends.openai_service import OpenAIChat, OpenAIImages
from evenhand.genai.backends.studio import GROUPS, Studio, StudioPixels
from evenhand.genai.classifiers.classifier import ChatClassifier, Classifier, FunctionClassifier, LexiconClassifier
from evenhand.genai.enforcement.enforcer import Enforcer
from evenhand.genai.enforcement.guard import AdmissionStore, AttemptLimits, Guard
from evenhand.genai.enforcement.instructions import InstructionWriter
from evenhand.genai.judges import ChatJudge, FunctionJudge, Judge, KeywordJudge
from evenhand.genai.spec import pipeline_config as parts
from evenhand.genai.spec.entries import check_values
from evenhand.genai.spec.specification import GenerationConfig

if TYPE_CHECKING:
    from evenhand.models.language.services import ServiceConnection


@dataclass(frozen=True)
class Pipeline:
    """Configured parts of a guard, without its store."""

    configuration: GenerationConfig
    generator: Generator
    classifier: Classifier
    judge: Judge

    @cached_property
    def instruct(self) -> InstructionWriter:
        """Writer of instructions."""
        return InstructionWriter(self.configuration.guard.instruction)

    @cached_property
    def limits(self) -> AttemptLimits:
        """Limits of the attempts and of the cost of a request."""
        guard, attempts = self.configuration.guard, self.configuration.simulation.retries + 1
        return AttemptLimits(guard.candidates, attempts, guard.price, guard.budget)

    def guard(self, enforcer: AdmissionStore | None = None, *, generator: Generator | None = None) -> Guard:
        """Build the configured guard.

        Args:
            enforcer: Store of admissions. If None, an ``Enforcer`` of the configuration.
            generator: Generator. If None, the generator of the pipeline.
        """
        configuration = self.configuration
        return Guard(
            Enforcer(configuration, mode=configuration.guard.mode) if enforcer is None else enforcer,
            self.generator if generator is None else generator,
            self.classifier,
            self.judge,
            groups=configuration.values,
            when_unsure=configuration.guard.when_unsure,
            instruct=self.instruct,
            limits=self.limits,
        )


def build_pipeline(
    configuration: GenerationConfig,
    *,
    trust: bool = False,
    folder: Path | str = ".",
    generator: Generator | None = None,
) -> Pipeline:
    """Build the configured parts of a guard.

    Args:
        configuration: The configuration.
        trust: Whether to run configured functions, and code in models.
        folder: Folder of relative paths, usually that of the configuration.
        generator: Generator that replaces the configured one.

    Raises:
        OptionError: The generator or the classifier is missing or invalid.
        TrustError: A function is configured, and ``trust`` is False.
        MissingExtraError: An optional dependency is not installed.
    """
    for place, part in (("generator", configuration.generator), ("classifier", configuration.classifier)):
        if isinstance(part, parts.StudioGeneratorConfig | parts.StudioClassifierConfig):
            check_values(configuration.values, GROUPS, place)
    return Pipeline(
        configuration,
        build_generator(configuration, trust=trust, folder=folder) if generator is None else generator,
        build_classifier(configuration, trust=trust, folder=folder),
        build_judge(configuration, trust=trust, folder=folder),
    )


def build_generator(configuration: GenerationConfig, *, trust: bool = False, folder: Path | str = ".") -> Generator:
    """Build the configured generator. See ``build_pipeline``."""
    part = configuration.generator
    if part is None:
        raise OptionError(
            "there is no generator", location="generator", hint="set a generator, such as generator: {kind: studio}"
        )
    with _naming_entry("generator"):
        match part:
            case parts.StudioGeneratorConfig():
                return Studio(part.bias, obeys=part.obeys, unrecognised=part.unrecognised, seed=part.seed)
            case parts.ImagesGeneratorConfig():
                return OpenAIImages(_build_connection(part), part.model, part.options)
            case parts.ChatGeneratorConfig():
                return _build_chat(part, part.system)
            case parts.DiffusersGeneratorConfig():
                from evenhand.genai.backends.local_diffusion import LocalDiffusion

                options = part.model_dump(exclude={"kind", "model"})
                return LocalDiffusion(Path(folder, part.model), trust=trust, **options)


def build_classifier(configuration: GenerationConfig, *, trust: bool = False, folder: Path | str = ".") -> Classifier:
    """Build the configured classifier. See ``build_pipeline``."""
    part = configuration.classifier
    groups = configuration.values
    if part is None:
        raise OptionError(
            "there is no classifier", location="classifier", hint="set a classifier, such as classifier: {kind: studio}"
        )
    with _naming_entry("classifier"):
        match part:
            case parts.StudioClassifierConfig():
                return StudioPixels()
            case parts.LexiconClassifierConfig():
                return LexiconClassifier(part.words)
            case parts.FunctionClassifierConfig():
                return FunctionClassifier(_import_function(part.function, trust, Path(folder)), groups)
            case parts.ChatClassifierConfig():
                return ChatClassifier(_build_chat(part), groups, part.questions)
            case parts.OnnxClassifierConfig():
                from evenhand.genai.classifiers.onnx_pictures import OnnxPictures

                return OnnxPictures(part.groups, folder=folder)


def build_judge(configuration: GenerationConfig, *, trust: bool = False, folder: Path | str = ".") -> Judge:
    """Build the configured judge, by default one by keywords. See ``build_pipeline``."""
    part = configuration.judge
    with _naming_entry("judge"):
        match part:
            case None:
                return KeywordJudge.of(configuration)
            case parts.KeywordJudgeConfig():
                return KeywordJudge.of(configuration, part.fixed)
            case parts.FunctionJudgeConfig():
                functions, fixed = (
                    {name: _import_function(function, trust, Path(folder)) for name, function in entries.items()}
                    for entries in (part.functions, part.fixed)
                )
                return FunctionJudge(functions, fixed)
            case parts.ChatJudgeConfig():
                return ChatJudge.of(configuration, _build_chat(part))


def check_keys(configuration: GenerationConfig) -> None:
    """Raise an OptionError if the key of a configured service is not set."""
    for place in ("generator", "classifier", "judge"):
        part = getattr(configuration, place)
        if isinstance(part, parts.RemoteConfig):
            with _naming_entry(place):
                _build_connection(part).check_key()


@contextmanager
def _naming_entry(place: str) -> Iterator[None]:
    """Add the name of the entry to the errors of the block."""
    try:
        yield
    except EvenhandError as error:
        if error.location is None or not error.location.startswith(place):
            error.location = place if error.location is None else f"{place}, {error.location}"
        raise


def _build_connection(remote: parts.RemoteConfig) -> ServiceConnection:
    from evenhand.models.language.services import ServiceConnection

    return ServiceConnection(remote.url, remote.key, timeout=remote.timeout)


def _build_chat(remote: parts.RemoteConfig, system: str | None = None) -> OpenAIChat:
    return OpenAIChat(_build_connection(remote), remote.model, system, options=remote.options)


def _import_function(name: str, trust: bool, folder: Path) -> Callable[..., Any]:
    """Import ``module:function`` from the folder of the configuration, or from an installed package."""
    if not trust:
        raise TrustError(
            f"the function {name} would be executed", hint="if you trust the configuration, set `trust=True`"
        )
    from evenhand.models.importing import import_object

    function = import_object(name, folder)
    if not callable(function):
        raise OptionError(f"{name} is not a function")
    imported: Callable[..., Any] = function
    return imported
