"""Small modules that plug this search into frameworks and providers' APIs.

- `adapters.pydantic_ai`: found tools as a toolset, and a strategy for its tool search.
- `adapters.fastmcp`: a transform that shows clients a search in place of a server's tools.
- `adapters.claude`: the client-side tool search of Claude's Messages API.
- `adapters.openai`: the client-executed tool search of OpenAI's Responses API.

Each needs the library that it is for, which is imported with the module and not before. They search
tools that the program holds, and rank them with `pytools_hybrid.ToolCorpus`.
"""
