"""What an evaluation compares: ways to search, and the settings that choose each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.search import SearchMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytools_hybrid.settings import Settings

_FUSIONS = ("linear", "rrf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way to search.

    Attributes:
        name: What it is called in tables: the mode, and "hybrid (rrf)" for a fusion that is not
            the one of the settings.
        mode: The mode that is asked for.
        settings: The settings that it runs with.
        selected_by: The environment variables that make a search without a mode search like this;
            empty for what such a search does already.
    """

    name: str
    mode: SearchMode
    settings: Settings
    selected_by: Mapping[str, str]

    @property
    def slug(self) -> str:
        """The name as part of a file's name."""
        return self.name.replace(" (", "-").replace(")", "")


def configurations(settings: Settings, mode: SearchMode | None) -> list[Configuration]:
    """Return the configurations to compare.

    Args:
        settings: The settings as they are; "hybrid" is what they give.
        mode: Only this mode, or None for all of them, and both fusions. Without vectors words are
            all that any of them has, and None is bm25 alone.

    Raises:
        SettingsError: Vectors alone are asked for, and there are none.
    """
    has_vectors = settings.embedding_model != "none"
    if mode is SearchMode.VECTOR and not has_vectors:
        raise SettingsError("--mode", "vectors are turned off: the model is 'none'")
    if mode is None and not has_vectors:
        return [Configuration(name="bm25", mode=SearchMode.BM25, settings=settings, selected_by={})]
    other = next(fusion for fusion in _FUSIONS if fusion != settings.fusion)
    every = [
        Configuration(
            name="bm25",
            mode=SearchMode.BM25,
            settings=settings,
            selected_by=_only("bm25", settings.bm25_weight, instead_of="vec"),
        ),
        Configuration(
            name="vector",
            mode=SearchMode.VECTOR,
            settings=settings,
            selected_by=_only("vec", settings.vec_weight, instead_of="bm25"),
        ),
        Configuration(name="hybrid", mode=SearchMode.HYBRID, settings=settings, selected_by={}),
        Configuration(
            name=f"hybrid ({other})",
            mode=SearchMode.HYBRID,
            settings=settings.model_copy(update={"fusion": other}),
            selected_by={"PYTOOLS_FUSION": other},
        ),
    ]
    return [each for each in every if mode is None or each.name == mode.value]


def _only(channel: str, weight: float, *, instead_of: str) -> dict[str, str]:
    wanted = {} if weight else {f"PYTOOLS_{channel.upper()}_WEIGHT": "1"}
    return wanted | {f"PYTOOLS_{instead_of.upper()}_WEIGHT": "0"}
