"""Text to vectors: the offline default, and any model that pydantic-ai knows.

`create_embedder` turns a model setting into a `toolindex.Embedder`. Importing this package
imports neither numpy nor pydantic-ai; each comes with the first text that needs it.
"""

from pytools_hybrid.embedding._create import create_embedder, is_known_provider
from pytools_hybrid.embedding._static import MODEL_NAME, StaticEmbedder

__all__ = ["MODEL_NAME", "StaticEmbedder", "create_embedder", "is_known_provider"]
