"""Diffusion models in folders: a tiny pipeline with random weights is saved, and generates pictures."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra diffusers")
diffusers = pytest.importorskip("diffusers", reason="needs the extra diffusers")
transformers = pytest.importorskip("transformers", reason="needs the extra diffusers")

from evenhand.errors import ModelError, OptionError, TrustError
from evenhand.genai import LocalDiffusion
from evenhand.genai.backends import pictures

WORDS = ["a", "person", "leader", "old", "young"]


def _pipeline(folder: Path) -> Any:
    """Build a tiny Stable Diffusion. A picture of 16 x 16 pixels takes a few milliseconds."""
    torch.manual_seed(0)
    letters = sorted({letter for word in WORDS for letter in word})
    vocabulary = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({word: k for k, word in enumerate(vocabulary)}), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", "utf-8")
    tokenizer = transformers.CLIPTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=24, pad_token="<|endoftext|>"
    )
    end = len(vocabulary) - 1
    text = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=24,
            projection_dim=32,
            bos_token_id=end - 1,
            eos_token_id=end,
            pad_token_id=end,
        )
    )
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    sizes = {"block_out_channels": (8, 8), "norm_num_groups": 4, "latent_channels": 4, "sample_size": 16}
    vae = diffusers.AutoencoderKL(**blocks, **sizes)
    return diffusers.StableDiffusionPipeline(
        vae=vae,
        text_encoder=text,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=diffusers.DDIMScheduler(steps_offset=1, clip_sample=False),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread, because so small a model is slower with several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("diffusion")
    _pipeline(base / "tokens").save_pretrained(str(base / "tiny"))
    return base / "tiny"


def test_pictures_depend_on_prompt_seed_and_number(folder: Path) -> None:
    prompts = ["a leader", "a leader", "an old person"]
    first, again, other = (LocalDiffusion(folder, steps=2, seed=seed) for seed in (1, 1, 2))
    items = [first.generate(prompt) for prompt in prompts]
    assert {(item.kind, item.media_type) for item in items} == {("image", "image/png")}
    assert pictures.read_png(items[0].data).shape == (16, 16, 3)
    assert [item.data for item in items] == [again.generate(prompt).data for prompt in prompts]
    assert items[0].data != items[1].data
    later = LocalDiffusion(folder, steps=2, seed=1)
    later.resume(2)
    assert later.generate(prompts[2]).data == items[2].data
    assert items[0].data != other.generate("a leader").data
    assert items[0].data != LocalDiffusion(folder, steps=2, seed=1).generate("an old person").data


def test_steps_and_options_reach_the_pipeline(folder: Path) -> None:
    wide = LocalDiffusion(folder, steps=1, options={"height": 16, "width": 32}).generate("a person")
    assert pictures.read_png(wide.data).shape == (16, 32, 3)
    several = [LocalDiffusion(folder, steps=steps).generate("a person").data for steps in (1, 3)]
    assert several[0] != several[1]


def test_threads_get_the_same_pictures_as_one_caller(folder: Path) -> None:
    alone = LocalDiffusion(folder, steps=2)
    expected = sorted(alone.generate("a person").data for _ in range(4))
    shared = LocalDiffusion(folder, steps=2)
    made: list[bytes] = []
    threads = [threading.Thread(target=lambda: made.append(shared.generate("a person").data)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == expected


def test_only_complete_folders_are_loaded(folder: Path, tmp_path: Path) -> None:
    for missing in ("someone/some-model", tmp_path):
        with pytest.raises(ModelError, match="expected a folder"):
            LocalDiffusion(missing)
    with pytest.raises(ModelError, match="cannot load it"):
        LocalDiffusion("someone/some-model", trust=True)
    shutil.copytree(folder, tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "vae")
    with pytest.raises(ModelError, match="cannot load it"):
        LocalDiffusion(tmp_path / "cut")


def test_refuses_weights_and_classes_that_could_run_code(folder: Path, tmp_path: Path) -> None:
    pickled = tmp_path / "pickled"
    shutil.copytree(folder, pickled)
    weights = pickled / "unet" / "diffusion_pytorch_model.safetensors"
    from safetensors.torch import load_file

    torch.save(load_file(weights), weights.with_suffix(".bin"))
    # Pickled weights are ignored beside safe ones.
    same = [LocalDiffusion(model, steps=1).generate("a person").data for model in (folder, pickled)]
    assert same[0] == same[1]
    weights.unlink()
    with pytest.raises(TrustError, match="unet are pickled"):
        LocalDiffusion(pickled)
    assert LocalDiffusion(pickled, steps=1, trust=True).generate("a person").data == same[0]
    for name, entry in (("unet", ["os", "system"]), ("_class_name", ["pipeline", "Mine"])):
        other = tmp_path / name
        shutil.copytree(folder, other)
        index = json.loads((other / "model_index.json").read_text("utf-8"))
        (other / "model_index.json").write_text(json.dumps({**index, name: entry}), "utf-8")
        with pytest.raises(TrustError):
            LocalDiffusion(other)


def test_refuses_invalid_options_and_pipelines(folder: Path, tmp_path: Path) -> None:
    wrongs = [{"options": wrong} for wrong in ({"hight": 5}, {"prompt": "x"}, {"kwargs": {}})]
    for wrong in ({"steps": 0}, {"device": "abacus"}, {"precision": "float7"}, *wrongs):
        with pytest.raises(OptionError):
            LocalDiffusion(folder, **wrong)
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="no graphics card"):
            LocalDiffusion(folder, device="cuda")
    with pytest.raises(ModelError, match="pipeline failed"):
        LocalDiffusion(folder, steps=1, options={"guidance_scale": "much"}).generate("a person")
    blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    sizes = {"sample_size": 8, "block_out_channels": (8, 8), "layers_per_block": 1, "norm_num_groups": 4}
    unconditional = diffusers.UNet2DModel(**blocks, **sizes)
    diffusers.DDPMPipeline(unconditional, diffusers.DDPMScheduler()).save_pretrained(str(tmp_path / "free"))
    with pytest.raises(ModelError, match="not a text-to-image pipeline"):
        LocalDiffusion(tmp_path / "free")


def test_a_picture_withheld_by_the_safety_checker_is_an_error(folder: Path) -> None:
    generator = LocalDiffusion(folder, steps=1)
    whole = generator._pipeline.run_safety_checker
    generator._pipeline.run_safety_checker = lambda image, *rest: (whole(image, *rest)[0], [True])
    for _ in range(2):
        with pytest.raises(ModelError, match="withheld"):
            generator.generate("a person")
    # The picture is repeated with other noise, and the next picture does not change.
    generator._pipeline.run_safety_checker = whole
    first, second = (generator.generate("a person").data for _ in range(2))
    plain = LocalDiffusion(folder, steps=1)
    assert first != plain.generate("a person").data
    assert second == plain.generate("a person").data
