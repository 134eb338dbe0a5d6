"""Models of sentence-transformers: those in the hub's local cache, downloading and loading them.

The extra `sentence-transformers` installs what this needs, which is imported at first use.
"""

# It has several gigabytes, and is not installed when types are checked.
# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolembed._errors import EmbeddingError, FailureKind, redact_keys
from toolembed.providers import InstallHints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pydantic_ai.embeddings import EmbeddingModel

__all__ = ["download_model", "downloaded_models"]

_HINTS = InstallHints()
_PREFIX = "sentence-transformers:"
# The owner of models whose names have none.
_OWNER = "sentence-transformers"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
# The same weights for other programs, some of them many times as large.
_FOR_OTHERS = re.compile(
    r"(onnx|openvino|coreml|gguf)/|\.(onnx|ot|h5|msgpack|tflite|gguf|mlmodel|pb|xml)(_data)?$|"
    r"(^|/)(\.gitattributes|.*\.(png|jpe?g|gif|pdf|md))$",
    re.IGNORECASE,
)
_WEIGHTS = ".safetensors"
_OLD_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt")
# Files that every model of sentence-transformers has, and other models do not.
_MODULES = "modules.json"
_MARKS = (_MODULES, "config.json")


def _repository_of(name: str) -> str | None:
    """Return the hub's repository of a model, or None if the name is that of a folder.

    Only a name that begins with `/`, `./` or `~` is a folder's, so that no folder beside the
    program is mistaken for a model on the hub.
    """
    if name.startswith((".", "~")) or Path(name).is_absolute():
        return None
    repository = name if "/" in name else f"{_OWNER}/{name}"
    return repository if _REPOSITORY.fullmatch(repository) else None


def _not_downloaded(name: str, hints: InstallHints, reason: str = "") -> FileNotFoundError:
    """Return the error for a model that is missing on this machine, or incomplete."""
    repository = _repository_of(name)
    state = f"it cannot be loaded ({reason})" if reason else "it is not downloaded"
    if repository is None:
        state = state if reason else "there is no such folder"
        return FileNotFoundError(f"{state}; give the folder of a model of sentence-transformers")
    command = hints.download.format(model=f"{_PREFIX}{name}", repository=repository)
    return FileNotFoundError(f"{state}; run: {command}")


def _folder_of(name: str) -> Path | None:
    """Return the folder of a model that can probably be loaded without the network, if any."""
    repository = _repository_of(name)
    if repository is None:
        folder = Path(name).expanduser()
        return folder if folder.is_dir() else None
    from huggingface_hub import try_to_load_from_cache

    # Either file is enough: models not made for sentence-transformers can be used too.
    for file in _MARKS:
        if isinstance(path := try_to_load_from_cache(repository, file), str):
            return Path(path).parent
    return None


def load_model(name: str, *, device: str, hints: InstallHints) -> EmbeddingModel:
    """Load a model from local files, so that no search waits for a download.

    Args:
        name: The model on the Hugging Face hub (`all-MiniLM-L6-v2`, `BAAI/bge-small-en-v1.5`),
            or the path of a folder.
        device: Where it runs: `cpu`, `cuda`, `mps`, or another name of PyTorch's; `auto` is CUDA
            if there is a GPU that PyTorch can use, else MPS, else the CPU.
        hints: The advice in its errors.

    Raises:
        ImportError: The package is not installed.
        FileNotFoundError: The model is not on this machine, or its files are broken.
        ValueError: The device does not exist.
    """
    # Checked first: the import takes seconds, which would be wasted.
    if find_spec("sentence_transformers") is None:
        raise ModuleNotFoundError(
            "the package sentence-transformers is not installed", name="sentence_transformers"
        )
    folder = _folder_of(name)
    if folder is None:
        raise _not_downloaded(name, hints)
    import torch
    from pydantic_ai.embeddings.sentence_transformers import SentenceTransformerEmbeddingModel
    from sentence_transformers import SentenceTransformer

    chosen = None if device == "auto" else device
    try:
        if chosen is not None:
            # An empty tensor needs no memory, but it does need the device's driver.
            torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition(". ")[0].partition("\n")[0]
        raise ValueError(
            f"the device {device!r} cannot be used ({reason}); {hints.device}"
        ) from error
    try:
        # For a folder, the hub's library makes no requests.
        model = SentenceTransformer(str(folder), device=chosen, local_files_only=True)
        return SentenceTransformerEmbeddingModel(model)
    except Exception as error:
        # For example after an interrupted download. Each library below raises its own error.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise _not_downloaded(name, hints, reason) from error


def downloaded_models() -> dict[str, int]:
    """Return the models of sentence-transformers in the hub's local cache, with their bytes.

    The names are settings such as `sentence-transformers:all-MiniLM-L6-v2`.
    """
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return {}
    return {
        f"{_PREFIX}{each.repo_id.removeprefix(f'{_OWNER}/')}": each.size_on_disk
        for each in sorted(cache.repos, key=lambda repository: repository.repo_id)
        if each.repo_type == "model"
        and any(file.file_name == _MODULES for it in each.revisions for file in it.files)
    }


def download_model(
    name: str, progress: Callable[[int, int], None], *, hints: InstallHints = _HINTS
) -> Path:
    """Download the files of a model that sentence-transformers needs, except existing ones.

    Args:
        name: The part after `sentence-transformers:`.
        progress: Called with the number of bytes downloaded so far, and the total.
        hints: The advice in its errors.

    Returns:
        The folder in the local cache.

    Raises:
        EmbeddingError: The hub cannot be reached, has no such model, or demands a login; or
            huggingface_hub is not installed.
    """
    repository = _repository_of(name)
    if repository is None:
        raise _failure(name, f"{name!r} is not a model of the hub; give OWNER/MODEL")
    try:
        import huggingface_hub
        from huggingface_hub.errors import RepositoryNotFoundError
    except ModuleNotFoundError as error:
        install = hints.to_install(_PREFIX)
        reason = f"the package huggingface-hub is not installed; {install}"
        raise _failure(name, reason) from error
    try:
        details = huggingface_hub.HfApi().model_info(repository, files_metadata=True)
        sizes = {it.rfilename: it.size or 0 for it in details.siblings or []}
        wanted = _needed(sizes)
        if not wanted:
            raise _failure(name, f"{repository} has no files that sentence-transformers could load")
        total = sum(sizes[file] for file in wanted)
        here, folder = 0, Path()
        progress(here, total)
        for file in wanted:
            path = huggingface_hub.hf_hub_download(
                repository,
                file,
                tqdm_class=_counting(progress, before=here, total=total),
            )
            folder = Path(path).parents[file.count("/")]
            here += sizes[file]
            progress(here, total)
    except RepositoryNotFoundError as error:
        raise _failure(
            name,
            f"the hub has no model {repository!r} that you may see; check its name, or log in "
            "with: hf auth login",
        ) from error
    except EmbeddingError:
        raise
    except Exception as error:
        # The hub's library passes on the errors of its HTTP client.
        reason = redact_keys(str(error).strip().partition("\n")[0] or type(error).__name__)
        raise _failure(name, f"{repository} cannot be downloaded ({reason})") from error
    return folder


def _failure(name: str, reason: str) -> EmbeddingError:
    return EmbeddingError(f"{_PREFIX}{name}", reason, kind=FailureKind.UNAVAILABLE, message=reason)


def _needed(files: Iterable[str]) -> Sequence[str]:
    """Leave out weights for other programs, and old formats if there are new ones."""
    files = [file for file in files if not _FOR_OTHERS.search(file)]
    new = {file.rpartition("/")[0] for file in files if file.endswith(_WEIGHTS)}
    files = [
        file
        for file in files
        if not file.endswith(_OLD_WEIGHTS) or file.rpartition("/")[0] not in new
    ]
    # These mark a model as present: an interrupted download must not leave them.
    return sorted(files, key=lambda file: (file in _MARKS, file))


def _counting(progress: Callable[[int, int], None], *, before: int, total: int) -> type[Any]:
    """Return a progress bar for the hub's library that draws nothing and reports the bytes."""
    from huggingface_hub.utils.tqdm import tqdm

    class Counting(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as it is
            begin = cast("Any", super().__init__)
            begin(*arguments, **options | {"disable": True})
            self.bytes = int(options.get("initial") or 0)

        def update(self, n: float | None = 1) -> bool | None:
            self.bytes += int(n or 0)
            progress(before + self.bytes, total)
            return None

        # With these, downloading and writing share one bar.
        def update_transfer(self, n: float | None = 1) -> None:
            pass

        def set_transfer_postfix_str(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            pass

    return Counting
