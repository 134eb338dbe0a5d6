"""The installed toolembed gives texts vectors, offline."""

import asyncio

from toolembed import create_embedder

embedder = create_embedder("static")
assert embedder is not None
(vector,) = asyncio.run(embedder.embed_documents(["Merge PDF files."]))
assert len(vector) == embedder.dimensions, len(vector)
print(f"a vector of {len(vector)} dimensions from {embedder.model_id}")
