"""The errors this package raises. A query's text is never one of their causes."""

__all__ = ["RetrievalError", "ToolRankError"]


class ToolRankError(Exception):
    """Base class of every error raised by toolrank."""


class RankingArgumentError(ToolRankError, ValueError):
    """An invalid argument: a negative weight, a limit below one, a bad table name.

    Attributes:
        argument: The name of the argument to change.
    """

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(f"{argument}: {message}")
        self.argument = argument


class RetrievalError(ToolRankError):
    """The database refused a retriever's statement.

    Attributes:
        retriever: The name of the retriever that failed.
    """

    def __init__(self, retriever: str, cause: Exception) -> None:
        super().__init__(
            f"retriever {retriever!r} failed: {cause}. "
            "Check that its table exists and is of the kind it expects."
        )
        self.retriever = retriever
