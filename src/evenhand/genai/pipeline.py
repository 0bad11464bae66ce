"""Builders of generators, classifiers, judges and guards from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError, EvenhandError, OptionError, TrustError
from evenhand.genai.backends.generator import Generator, Playback
from evenhand.genai.backends.studio import GROUPS, Studio, StudioPixels
from evenhand.genai.classifiers.classifier import Classifier, FunctionClassifier, LexiconClassifier
from evenhand.genai.enforcement.enforcer import Enforcer
from evenhand.genai.enforcement.guard import AdmissionStore, AttemptLimits, Guard
from evenhand.genai.enforcement.instructions import InstructionWriter
from evenhand.genai.judges import FunctionJudge, Judge, KeywordJudge
from evenhand.genai.spec import pipeline_config as described
from evenhand.genai.spec.specification import GenerationConfig

if TYPE_CHECKING:
    from evenhand.genai.answer_cache import AnswerCache
    from evenhand.genai.backends.openai_service import OpenAIChat
    from evenhand.models.language.services import ServiceConnection


@dataclass(frozen=True)
class Pipeline:
    """Configured parts of a guard, without its store."""

    configuration: GenerationConfig
    generator: Generator
    classifier: Classifier
    judge: Judge
    instruct: InstructionWriter = field(default_factory=InstructionWriter)

    @property
    def limits(self) -> AttemptLimits:
        """Limits of the attempts and of the cost of a request."""
        about = self.configuration
        return AttemptLimits(
            about.guard.candidates, about.simulation.retries + 1, about.guard.price, about.guard.budget
        )

    def guard(self, enforcer: AdmissionStore | None = None, *, generator: Generator | None = None) -> Guard:
        """Build the configured guard.

        Args:
            enforcer: Store of admissions. If None, an ``Enforcer`` of the configuration.
            generator: Generator. If None, that of the pipeline.
        """
        about = self.configuration
        return Guard(
            Enforcer(about, mode=about.guard.mode) if enforcer is None else enforcer,
            self.generator if generator is None else generator,
            self.classifier,
            self.judge,
            groups=about.values,
            when_unsure=about.guard.when_unsure,
            instruct=self.instruct,
            limits=self.limits,
        )


def build_pipeline(configuration: GenerationConfig, *, trust: bool = False, folder: Path | str = ".") -> Pipeline:
    """Build the parts that a configuration describes.

    Args:
        trust: whether functions that it names, and code in models, may be run.
        folder: where the files are that it names; the folder of the configuration.

    Raises:
        OptionError: the generator or the classifier is not described, or cannot be what is described.
        TrustError: it names functions, and they are not trusted.
        MissingExtraError: it needs an optional part that is not installed.
    """
    check_studio_values(configuration)
    return Pipeline(
        configuration,
        build_generator(configuration, trust=trust, folder=folder),
        build_classifier(configuration, trust=trust, folder=folder),
        build_judge(configuration, trust=trust, folder=folder),
        build_instruct(configuration),
    )


def build_instruct(configuration: GenerationConfig) -> InstructionWriter:
    """Build the writer of instructions."""
    told = configuration.guard.instruction
    with _naming_entry("guard.instruction.rewrite"):
        return InstructionWriter(told, None if told.rewrite is None else _build_chat(told.rewrite))


def build_generator(configuration: GenerationConfig, *, trust: bool = False, folder: Path | str = ".") -> Generator:
    """Build the configured generator.

    Raises:
        EvenhandError: as ``build_pipeline``.
    """
    wanted = configuration.generator
    if wanted is None:
        raise OptionError(
            "nothing makes items", location="generator", hint="write generator: {kind: studio}, or another"
        )
    with _naming_entry("generator"):
        match wanted:
            case described.StudioGeneratorConfig():
                return Studio(wanted.bias, obeys=wanted.obeys, unrecognised=wanted.unrecognised, seed=wanted.seed)
            case described.RecordedGeneratorConfig():
                return Playback.of_files(_read_recorded(wanted, Path(folder)))
            case described.ImagesGeneratorConfig():
                from evenhand.genai.backends.openai_service import OpenAIImages

                return OpenAIImages(_build_connection(wanted), wanted.model, wanted.options)
            case described.ChatGeneratorConfig():
                return _build_chat(wanted, wanted.system)
            case described.DiffusersGeneratorConfig():
                from evenhand.genai.backends.local_diffusion import LocalDiffusion

                return LocalDiffusion(
                    Path(folder, wanted.model),
                    steps=wanted.steps,
                    device=wanted.device,
                    seed=wanted.seed,
                    precision=wanted.precision,
                    options=wanted.options,
                    trust=trust,
                )


def build_classifier(configuration: GenerationConfig, *, trust: bool = False, folder: Path | str = ".") -> Classifier:
    """Build the configured classifier.

    Raises:
        EvenhandError: as ``build_pipeline``.
    """
    wanted = configuration.classifier
    groups = configuration.values
    if wanted is None:
        raise OptionError(
            "nothing looks at items", location="classifier", hint="write classifier: {kind: studio}, or another"
        )
    with _naming_entry("classifier"):
        match wanted:
            case described.StudioClassifierConfig():
                return StudioPixels()
            case described.LexiconClassifierConfig():
                return LexiconClassifier(wanted.words)
            case described.FunctionClassifierConfig():
                return FunctionClassifier(_import_function(wanted.function, trust, Path(folder)), groups)
            case described.ChatClassifierConfig():
                from evenhand.genai.classifiers.classifier import ChatClassifier

                looks = ChatClassifier(_build_chat(wanted), groups, wanted.questions)
                if wanted.cache is None:
                    return looks
                from evenhand.genai.answer_cache import CachedClassifier

                return CachedClassifier(looks, _open_cache(wanted.cache, folder, [_cache_key_of(wanted), groups]))
            case described.OnnxClassifierConfig():
                from evenhand.genai.classifiers.onnx_pictures import OnnxPictures

                return OnnxPictures(wanted.groups, folder=folder)


def build_judge(configuration: GenerationConfig, *, trust: bool = False, folder: Path | str = ".") -> Judge:
    """Build the configured judge. By default, it judges by keywords.

    Raises:
        EvenhandError: as ``build_pipeline``.
    """
    wanted = configuration.judge
    with _naming_entry("judge"):
        match wanted:
            case None:
                return KeywordJudge.of(configuration)
            case described.KeywordJudgeConfig():
                return KeywordJudge.of(configuration, wanted.fixed)
            case described.FunctionJudgeConfig():
                functions, fixed = (
                    {name: _import_function(one, trust, Path(folder)) for name, one in given.items()}
                    for given in (wanted.functions, wanted.fixed)
                )
                return FunctionJudge(functions, fixed)
            case described.ChatJudgeConfig():
                from evenhand.genai.judges import ChatJudge

                reads = ChatJudge.of(configuration, _build_chat(wanted))
                if wanted.cache is None:
                    return reads
                from evenhand.genai.answer_cache import CachedJudge

                questions = [[condition.name, condition.judge] for condition in configuration.conditions]
                about = [_cache_key_of(wanted), configuration.values, questions]
                return CachedJudge(reads, _open_cache(wanted.cache, folder, about))


def _open_cache(wanted: described.CacheConfig, folder: Path | str, about: Any) -> AnswerCache:
    from evenhand.genai.answer_cache import AnswerCache, open_answers

    file = None if wanted.file is None else Path(folder, wanted.file)
    return AnswerCache(open_answers(file, wanted.entries), about)


def _cache_key_of(wanted: described.ChatClassifierConfig | described.ChatJudgeConfig) -> dict[str, Any]:
    """Return the entries of a model on which its answers depend."""
    return wanted.model_dump(mode="json", exclude={"cache", "key", "timeout"})


def check_keys(configuration: GenerationConfig) -> None:
    """Raise an OptionError if the key of a configured service is not set."""
    parts = {place: getattr(configuration, place) for place in ("generator", "classifier", "judge")}
    for place, part in {**parts, "guard.instruction.rewrite": configuration.guard.instruction.rewrite}.items():
        if isinstance(part, described.RemoteConfig):
            with _naming_entry(place):
                _build_connection(part).check_key()


def check_studio_values(configuration: GenerationConfig) -> None:
    """Raise an OptionError if the studio does not know a group or value of the configuration."""
    for place, part in (("generator", configuration.generator), ("classifier", configuration.classifier)):
        if isinstance(part, described.StudioGeneratorConfig | described.StudioClassifierConfig):
            for group, values in configuration.values.items():
                missing = [value for value in values if value not in GROUPS.get(group, ())]
                if missing:
                    raise OptionError(
                        f"the studio knows no {group} {missing[0]!r}",
                        location=place,
                        hint="; ".join(f"{known}: {', '.join(names)}" for known, names in GROUPS.items()),
                    )


@contextmanager
def _naming_entry(place: str) -> Iterator[None]:
    """Add the name of the entry to the errors of the block."""
    try:
        yield
    except EvenhandError as error:
        if error.location is None or not error.location.startswith(place):
            error.location = place if error.location is None else f"{place}, {error.location}"
        raise


def _build_connection(remote: described.RemoteConfig) -> ServiceConnection:
    from evenhand.models.language.services import ServiceConnection

    return ServiceConnection(remote.url, remote.key, timeout=remote.timeout)


def _build_chat(remote: described.RemoteConfig, system: str | None = None) -> OpenAIChat:
    from evenhand.genai.backends.openai_service import OpenAIChat

    return OpenAIChat(_build_connection(remote), remote.model, system, options=remote.options)


def _read_recorded(wanted: described.RecordedGeneratorConfig, folder: Path) -> list[Path]:
    if wanted.files is not None:
        return [Path(folder, name) for name in wanted.files]
    place = Path(folder, wanted.folder or "")
    try:
        found = sorted(path for path in place.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", location=str(place)) from None
    if not found:
        raise DataError("there is nothing in the folder", location=str(place))
    return found


def _import_function(name: str, trust: bool, folder: Path) -> Callable[..., Any]:
    """The function that ``module:function`` means; modules lie in the configuration's folder, or are installed."""
    if not trust:
        raise TrustError(
            f"the function {name} would be run",
            hint="if you know where the configuration comes from: `trust=True`",
        )
    from evenhand.models.importing import import_object

    found = import_object(name, folder)
    if not callable(found):
        raise OptionError(f"{name} cannot be called")
    function: Callable[..., Any] = found
    return function
