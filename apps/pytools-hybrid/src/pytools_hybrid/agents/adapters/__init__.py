"""Adapters to agent frameworks and providers' APIs.

- `adapters.pydantic_ai`: results as a toolset, and a strategy for its tool search.
- `adapters.fastmcp`: a transform that shows clients a search instead of a server's tools.
- `adapters.claude`: the client-side tool search of Claude's Messages API.
- `adapters.openai`: the client-executed tool search of OpenAI's Responses API.

Each needs its library, which is imported with the module. They search a program's own tools with
`pytools_hybrid.ToolCorpus`.
"""
