"""Model files from the Hugging Face hub: finding local ones, and downloading others."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from toolembed._keys import without_keys
from toolembed.errors import DownloadError, NotDownloadedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toolembed.providers import Remedies

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


class DownloadedModel(NamedTuple):
    """A model of sentence-transformers in the local cache of the hub.

    Attributes:
        model: Its setting, such as `sentence-transformers:all-MiniLM-L6-v2`.
        size: How many bytes it takes.
    """

    model: str
    size: int


def repository_of(name: str) -> str | None:
    """Return the hub's repository of a model, or None if the name is that of a folder.

    Args:
        name: The part after `sentence-transformers:`. Only a name that begins with `/`, `./` or `~`
            is a folder's, so that no folder beside the program is mistaken for a model on the hub.
    """
    if name.startswith((".", "~")) or Path(name).is_absolute():
        return None
    repository = name if "/" in name else f"{_OWNER}/{name}"
    return repository if _REPOSITORY.fullmatch(repository) else None


def not_downloaded(name: str, remedies: Remedies, reason: str = "") -> NotDownloadedError:
    """Return the error for a model that is missing on this machine, or incomplete."""
    repository = repository_of(name)
    if repository is None:
        state = f"it cannot be loaded ({reason})" if reason else "there is no such folder"
        return NotDownloadedError(f"{state}; give the folder of a model of sentence-transformers")
    state = f"it cannot be loaded ({reason})" if reason else "it is not downloaded"
    command = remedies.download.format(model=f"{_PREFIX}{name}", repository=repository)
    return NotDownloadedError(f"{state}; run: {command}")


def is_downloaded(name: str) -> bool:
    """Return whether a model can probably be loaded without the network."""
    repository = repository_of(name)
    if repository is None:
        return Path(name).expanduser().is_dir()
    from huggingface_hub import try_to_load_from_cache

    # Either file is enough: models not made for sentence-transformers can be used too.
    found = (try_to_load_from_cache(repository, file) for file in _MARKS)
    return any(isinstance(path, str) for path in found)


def folder_of(name: str) -> str:
    """Return the folder of a downloaded model.

    Raises:
        LocalEntryNotFoundError: (of the hub's library) It is not downloaded.
    """
    repository = repository_of(name)
    if repository is None:
        return str(Path(name).expanduser())
    import huggingface_hub

    # tqdm, the type of a parameter, has no types.
    return huggingface_hub.snapshot_download(  # pyright: ignore[reportUnknownMemberType]
        repository, local_files_only=True
    )


def downloaded_models() -> tuple[DownloadedModel, ...]:
    """List the models of sentence-transformers in the local cache of the hub, by name."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return ()
    return tuple(
        DownloadedModel(f"{_PREFIX}{each.repo_id.removeprefix(f'{_OWNER}/')}", each.size_on_disk)
        for each in sorted(cache.repos, key=lambda repository: repository.repo_id)
        if each.repo_type == "model"
        and any(file.file_name == _MODULES for it in each.revisions for file in it.files)
    )


def download_model(name: str, progress: Callable[[int, int], None]) -> Path:
    """Download the files of a model that sentence-transformers needs, except existing ones.

    Args:
        name: The part after `sentence-transformers:`.
        progress: Called with the number of bytes downloaded so far, and the total.

    Returns:
        The folder in the local cache.

    Raises:
        DownloadError: The hub cannot be reached, has no such model, or demands a login.
    """
    repository = repository_of(name)
    if repository is None:
        raise DownloadError(f"{name!r} is not a model of the hub; give OWNER/MODEL")
    import huggingface_hub
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        details = huggingface_hub.HfApi().model_info(repository, files_metadata=True)
        sizes = {it.rfilename: it.size or 0 for it in details.siblings or []}
        wanted = _needed(sizes)
        if not wanted:
            raise DownloadError(f"{repository} has no files that sentence-transformers could load")
        total = sum(sizes[file] for file in wanted)
        here, folder = 0, Path()
        progress(here, total)
        for file in wanted:
            # tqdm, the type of a parameter, has no types.
            path = huggingface_hub.hf_hub_download(  # pyright: ignore[reportUnknownMemberType]
                repository,
                file,
                tqdm_class=_counting(partial(_report, progress, here, total)),
            )
            folder = Path(path).parents[file.count("/")]
            here += sizes[file]
            progress(here, total)
    except RepositoryNotFoundError as error:
        raise DownloadError(
            f"the hub has no model {repository!r} that you may see; check its name, or log in "
            "with: hf auth login"
        ) from error
    except DownloadError:
        raise
    except Exception as error:
        # The hub's library passes on the errors of its HTTP client.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DownloadError(
            f"{repository} cannot be downloaded ({without_keys(reason)})"
        ) from error
    return folder


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


def _report(progress: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _counting(note: Callable[[int], None]) -> type[Any]:
    """Return a progress bar for the hub's library that draws nothing and reports the bytes."""
    from huggingface_hub.utils.tqdm import tqdm

    class Counting(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as it is
            begin = cast("Any", super().__init__)
            begin(*arguments, **options | {"disable": True})
            self.bytes = int(options.get("initial") or 0)

        def update(self, n: float | None = 1) -> bool | None:
            self.bytes += int(n or 0)
            note(self.bytes)
            return None

        # With these, downloading and writing share one bar.
        def update_transfer(self, n: float | None = 1) -> None:
            pass

        def set_transfer_postfix_str(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            pass

    return Counting
