"""Text to vectors: the offline default, and any model that pydantic-ai knows.

`create_embedder` turns a model setting into a `toolindex.Embedder` that knows what its provider
takes. Importing this package imports neither numpy nor pydantic-ai; each comes with the first text
that needs it. Models that run on this machine are used as they lie there; none is fetched.
"""

from pytools_hybrid.embedding._create import LimitedEmbedder, create_embedder
from pytools_hybrid.embedding._static import StaticEmbedder

__all__ = ["LimitedEmbedder", "StaticEmbedder", "create_embedder"]
