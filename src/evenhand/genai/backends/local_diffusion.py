"""Generator of pictures with a local diffusion model, run in this process by diffusers.

Models are downloaded only on request. Weights that could run code when they are loaded are refused.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand.core.text import summarize_error
from evenhand.errors import MissingExtraError, ModelError, OptionError, TrustError
from evenhand.genai.backends import pictures
from evenhand.genai.backends.generator import Item

Precision: TypeAlias = Literal["float32", "float16", "bfloat16"]

_PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "bfloat16")

_LIBRARIES = frozenset({"diffusers", "transformers"})

_PICKLED_SUFFIXES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")

_RESERVED_OPTIONS = frozenset(
    {"prompt", "generator", "num_inference_steps", "output_type", "num_images_per_prompt", "return_dict"}
)
"""Arguments of a pipeline that are not options."""


class LocalDiffusion:
    """Generator with a text-to-image pipeline of diffusers. Pictures are generated one at a time, also for threads.

    A picture depends on the seed, on the number of earlier pictures, and on the prompt, for a given machine and version
    of PyTorch.

    Args:
        model: Folder written by ``pipeline.save_pretrained``.
        steps: Number of denoising steps.
        device: Device, such as ``cpu`` or ``cuda``.
        seed: Seed of the noise.
        options: Further arguments of the pipeline, such as ``{"height": 512, "width": 512}``.
        precision: Floating-point type.
        download: Whether ``model`` may be a name of the Hugging Face hub, from which it is downloaded.
        trust: Whether to load weights and classes that could run code.

    Raises:
        OptionError: An option, a device or a number is invalid.
        ModelError: The folder contains no text-to-image pipeline, or it cannot be loaded.
        TrustError: Loading could run code, and is not trusted.
        MissingExtraError: diffusers or one of its requirements is not installed.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        steps: int = 20,
        device: str = "cpu",
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        precision: Precision = "float32",
        download: bool = False,
        trust: bool = False,
    ) -> None:
        if steps < 1:
            raise OptionError(f"steps must be at least 1, got {steps}", location="steps")
        if precision not in _PRECISIONS:
            raise OptionError(f"there is no precision {precision!r}", hint=f"one of: {', '.join(_PRECISIONS)}")
        folder = Path(model)
        if folder.is_dir():
            if not trust:
                _refuse_code(folder)
        elif not download:
            raise ModelError(
                "there is no such folder",
                location=str(model),
                hint="save a pipeline there with save_pretrained; models are not downloaded by default",
            )
        self.name = folder.name
        self._pipeline = _load_pipeline(model, device, precision, download=download, trust=trust)
        self._steps, self._seed = steps, seed
        self._options = dict(options or {})
        self._check_options()
        self._made = self._failed = 0
        self._one_at_a_time = threading.Lock()

    def _check_options(self) -> None:
        arguments = inspect.signature(self._pipeline.__call__).parameters
        names = {name for name, argument in arguments.items() if argument.kind is not argument.VAR_KEYWORD}
        if not {"prompt", "generator", "num_inference_steps", "output_type"} <= names:
            raise ModelError(f"a {type(self._pipeline).__name__} is not a text-to-image pipeline", location=self.name)
        for option in self._options:
            if option in _RESERVED_OPTIONS or option not in names:
                choice = ", ".join(sorted(names - _RESERVED_OPTIONS))
                raise OptionError(
                    f"the pipeline takes no option {option!r}", location="options", hint=f"it takes {choice}"
                )

    def resume(self, made: int) -> None:
        """Continue after ``made`` pictures."""
        with self._one_at_a_time:
            self._made, self._failed = made, 0

    def generate(self, prompt: str) -> Item:
        """Generate the next picture in PNG.

        Raises:
            ModelError: The pipeline failed, or its safety checker withheld the picture.
        """
        with self._one_at_a_time:
            noise = [self._seed, self._made, self._failed]
            # A failed picture is repeated with other noise, which does not change the later pictures.
            self._failed += 1
            pixels = self._draw(prompt, noise)
            self._made, self._failed = self._made + 1, 0
        return Item("image", pictures.write_png(pixels), "image/png")

    def _draw(self, prompt: str, noise: list[int]) -> pictures.Pixels:
        import torch

        # Each picture has an independent seed.
        seed = int(np.random.SeedSequence(noise).generate_state(1, np.uint64)[0] >> np.uint64(1))
        try:
            # Noise of the CPU is the same for all devices.
            result = self._pipeline(
                prompt=prompt,
                generator=torch.Generator("cpu").manual_seed(seed),
                num_inference_steps=self._steps,
                output_type="np",
                **self._options,
            )
        except Exception as error:
            raise ModelError(f"the pipeline failed: {summarize_error(error)}", location=self.name) from error
        if any(getattr(result, "nsfw_content_detected", None) or ()):
            raise ModelError("the model's own safety checker withheld the picture", location=self.name)
        pixels = np.asarray(result.images[0], dtype=np.float64)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or not np.isfinite(pixels).all():
            raise ModelError(
                f"expected a picture with three colours, got numbers of shape {pixels.shape}", location=self.name
            )
        colours: pictures.Pixels = np.rint(255 * pixels.clip(0, 1)).astype(np.uint8)
        return colours


def _refuse_code(folder: Path) -> None:
    """Raise a TrustError if a part of a pipeline is not a class of the two libraries, or its weights are pickled."""
    index = folder / "model_index.json"
    try:
        entries = json.loads(index.read_text("utf-8"))
        parts = {name: part for name, part in entries.items() if not name.startswith("_")}
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(
            "the folder contains no pipeline of diffusers",
            location=str(folder),
            hint="it needs a model_index.json, as written by save_pretrained",
        ) from error
    hint = "trust it only if you know its origin"
    if not isinstance(entries.get("_class_name"), str):
        raise TrustError("the class of the pipeline is custom code", location=index.name, hint=hint)
    for name, part in parts.items():
        library = part[0] if isinstance(part, list) and part else None
        if library is None:
            continue
        if library not in _LIBRARIES and not _is_diffusers_module(library):
            raise TrustError(f"the part {name} would be loaded by {library!r}", location=index.name, hint=hint)
        files = [path.name for path in (folder / name).glob("*") if path.is_file()]
        pickled = [file for file in files if file.endswith(_PICKLED_SUFFIXES)]
        if pickled and not any(file.endswith(".safetensors") for file in files):
            raise TrustError(
                f"the weights of {name} are pickled ({pickled[0]}), which can run code when it is loaded",
                location=str(folder),
                hint="save it again with save_pretrained(..., safe_serialization=True), or trust it",
            )


def _is_diffusers_module(library: Any) -> bool:
    """Check whether a library is a module of pipelines in diffusers, which has its own parts."""
    try:
        import diffusers.pipelines
    except ImportError:
        raise _missing_library_error("diffusers") from None
    return isinstance(library, str) and library.isidentifier() and hasattr(diffusers.pipelines, library)


def _missing_library_error(module: str) -> MissingExtraError:
    return MissingExtraError(module, extra="diffusers", purpose="to run a diffusion model")


def _load_pipeline(model: str | Path, device: str, precision: Precision, *, download: bool, trust: bool) -> Any:
    try:
        import torch
        import transformers  # noqa: F401 - required by some pipelines
        from diffusers import DiffusionPipeline
    except ImportError as error:
        raise _missing_library_error(error.name or "diffusers") from error
    try:
        place = torch.device(device)
    except RuntimeError:
        raise OptionError(f"there is no device {device!r}", location="device", hint="use cpu or cuda") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise OptionError("PyTorch finds no graphics card", location="device", hint="use cpu")
    try:
        with _without_bars():
            pipeline = DiffusionPipeline.from_pretrained(
                str(model),
                use_safetensors=None if trust else True,
                local_files_only=not download,
                trust_remote_code=trust,
                low_cpu_mem_usage=False,
                dtype=getattr(torch, precision),
            ).to(place)
    except Exception as error:
        raise ModelError(f"diffusers cannot load it: {summarize_error(error)}", location=str(model)) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@contextmanager
def _without_bars() -> Iterator[None]:
    """Disable the progress bars of both libraries."""
    from diffusers.utils import logging as of_diffusers
    from transformers.utils import logging as of_transformers

    enabled = [library for library in (of_diffusers, of_transformers) if library.is_progress_bar_enabled()]
    for library in enabled:
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library in enabled:
            library.enable_progress_bar()
