"""Text to vectors: two models that run offline, and any model that pydantic-ai supports.

Create an embedder from a model's name, and embed the texts of a store that have no vector yet::

    embedder = create_embedder("static")
    await embed_pending(store, embedder)

Importing this package imports neither numpy nor pydantic-ai; each comes with the first text that
needs it. Models that run on this machine are never downloaded unasked.
"""

from toolembed._backoff import Backoff as Backoff
from toolembed._embed import embed_pending as embed_pending
from toolembed._errors import EmbeddingError as EmbeddingError
from toolembed._errors import FailureKind as FailureKind
from toolembed._protocols import Embedder as Embedder
from toolembed._protocols import EmbeddingLimits as EmbeddingLimits
from toolembed._provider import create_embedder as create_embedder
from toolembed._static import StaticEmbedder as StaticEmbedder
