"""Text to vectors: the offline default, and any model that pydantic-ai knows.

`create_embedder` turns a model setting into a `toolindex.Embedder` that knows what its provider
takes; `stand_in` gives one for the vectors of an earlier setting. Importing this package
imports neither numpy nor pydantic-ai; each comes with the first text that needs it.
"""

from pytools_hybrid.embedding._create import (
    LimitedEmbedder,
    create_embedder,
    is_known_provider,
    stand_in,
)
from pytools_hybrid.embedding._static import MODEL_NAME, StaticEmbedder

__all__ = [
    "MODEL_NAME",
    "LimitedEmbedder",
    "StaticEmbedder",
    "create_embedder",
    "is_known_provider",
    "stand_in",
]
