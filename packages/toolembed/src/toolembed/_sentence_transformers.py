"""Models of sentence-transformers, run in this process from local files."""

# From an extra of several gigabytes, which is not installed when types are checked.
# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
from threading import Lock
from typing import TYPE_CHECKING, Any

from pydantic_ai.embeddings import EmbeddingModel, EmbeddingResult

from toolembed._downloads import folder_of, is_downloaded, not_downloaded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.embeddings import EmbeddingSettings
    from pydantic_ai.embeddings.result import EmbedInputType
    from sentence_transformers import SentenceTransformer

    from toolembed.providers import Remedies

AUTO_DEVICE = "auto"
"""CUDA if there is a GPU that PyTorch can use, else MPS, else the CPU."""


class SentenceTransformersModel(EmbeddingModel):
    """A model of sentence-transformers that is never downloaded, so no search waits for that.

    pydantic-ai's own model downloads missing files with the first text.

    Args:
        name: The model on the Hugging Face hub (`all-MiniLM-L6-v2`, `BAAI/bge-small-en-v1.5`),
            or the path of a folder.
        device: Where it runs: `auto`, `cpu`, `cuda`, `mps`, or another name of PyTorch's.
        remedies: The advice in its errors.

    Raises:
        ImportError: The package is not installed.
        NotDownloadedError: The model is not on this machine.
    """

    def __init__(self, name: str, *, device: str, remedies: Remedies) -> None:
        super().__init__()
        # Checked first: the import takes seconds, which would be wasted.
        _require_package()
        if not is_downloaded(name):
            raise not_downloaded(name, remedies)
        self._name = name
        self._device = device
        self._remedies = remedies
        self._model: SentenceTransformer | None = None
        self._loading = Lock()

    @property
    def system(self) -> str:
        """The provider's part of the model's name."""
        return "sentence-transformers"

    @property
    def model_name(self) -> str:
        """The model's part of its name."""
        return self._name

    async def embed(
        self,
        inputs: str | Sequence[str],
        *,
        input_type: EmbedInputType,
        settings: EmbeddingSettings | None = None,
    ) -> EmbeddingResult:
        """Embed queries or documents; the first call loads the model."""
        texts, settings = self.prepare_embed(inputs, settings)
        dimensions = settings.get("dimensions")
        return EmbeddingResult(
            embeddings=await asyncio.to_thread(self._encode, texts, input_type, dimensions),
            inputs=texts,
            input_type=input_type,
            model_name=self.model_name,
            provider_name=self.system,
        )

    def load(self) -> None:
        """Load the model once, from local files.

        Raises:
            ValueError: The device does not exist.
            NotDownloadedError: Files are missing or broken.
        """
        self._ready()

    def _ready(self) -> SentenceTransformer:
        with self._loading:
            if self._model is None:
                self._model = self._loaded()
            return self._model

    def _encode(
        self, texts: Sequence[str], input_type: EmbedInputType, dimensions: int | None
    ) -> list[list[float]]:
        model = self._ready()
        encode = model.encode_query if input_type == "query" else model.encode_document
        vectors: Any = encode(
            list(texts), show_progress_bar=False, convert_to_numpy=True, truncate_dim=dimensions
        )
        rows: list[list[float]] = vectors.tolist()
        return rows

    def _loaded(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        device = None if self._device == AUTO_DEVICE else self._device
        if device is not None:
            _require_device(device, self._remedies)
        try:
            return SentenceTransformer(
                # A folder, for which the hub's library makes no requests.
                folder_of(self._name),
                device=device,
                local_files_only=True,
            )
        except Exception as error:
            # For example after an interrupted download. Each library below raises its own error.
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise not_downloaded(self._name, self._remedies, reason) from error


def _require_package() -> None:
    from importlib.util import find_spec

    if find_spec("sentence_transformers") is None:
        raise ModuleNotFoundError(
            "the package sentence-transformers is not installed", name="sentence_transformers"
        )


def _require_device(device: str, remedies: Remedies) -> None:
    import torch

    try:
        # An empty tensor needs no memory, but it does need the device's driver.
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition(". ")[0].partition("\n")[0]
        raise ValueError(
            f"the device {device!r} cannot be used ({reason}); {remedies.device}"
        ) from error
