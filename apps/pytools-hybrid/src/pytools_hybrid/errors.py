"""The errors of the application: what a user has to mend."""

__all__ = ["EmbeddingError", "PytoolsError", "SettingsError"]


class PytoolsError(Exception):
    """Root of every error raised by pytools-hybrid itself."""


class SettingsError(PytoolsError):
    """A setting that cannot work; commands end with exit code 2.

    Attributes:
        setting: The flag or variable to change.
    """

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting


class EmbeddingError(PytoolsError):
    """The embedding model gave no vectors; search goes on without them.

    Attributes:
        model: The model as it was configured.
    """

    def __init__(self, model: str, message: str) -> None:
        super().__init__(f"embedding model {model!r}: {message}")
        self.model = model
