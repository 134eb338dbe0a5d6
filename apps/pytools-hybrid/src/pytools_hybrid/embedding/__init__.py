"""Text to vectors: the offline default, and any model that pydantic-ai knows.

`create_embedder` turns a model setting into a `toolindex.Embedder` that knows what its provider
takes; `stand_in` gives one for the vectors of an earlier setting. Importing this package
imports neither numpy nor pydantic-ai; each comes with the first text that needs it.

Models that run on this machine are used as they lie there: `download_model` alone fetches one,
`is_downloaded` and `downloaded_models` tell which are there, and `ollama_address` where Ollama
is looked for.
"""

from pytools_hybrid.embedding._create import (
    LimitedEmbedder,
    check_model_name,
    create_embedder,
    stand_in,
)
from pytools_hybrid.embedding._downloads import (
    DownloadedModel,
    DownloadError,
    NotDownloadedError,
    download_model,
    downloaded_models,
    is_downloaded,
)
from pytools_hybrid.embedding._ollama import ollama_address
from pytools_hybrid.embedding._static import MODEL_NAME, StaticEmbedder

__all__ = [
    "MODEL_NAME",
    "DownloadError",
    "DownloadedModel",
    "LimitedEmbedder",
    "NotDownloadedError",
    "StaticEmbedder",
    "check_model_name",
    "create_embedder",
    "download_model",
    "downloaded_models",
    "is_downloaded",
    "ollama_address",
    "stand_in",
]
