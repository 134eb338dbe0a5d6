"""What an evaluation compares: ways to search, and the settings that choose each."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.index import configured_embedder
from pytools_hybrid.search import SearchMode, TuningFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytools_hybrid.settings import Settings

_FUSIONS = ("linear", "rrf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way to search.

    Attributes:
        name: What it is called in tables: the mode, "hybrid (rrf)" for a fusion that is not the one
            of the settings, "hybrid (untuned)" for vectors as they are; of several models the
            model's name.
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
        return re.sub(r"[^\w.-]+", "-", self.name).strip("-")


def of_models(
    settings: Settings, models: Sequence[str], mode: SearchMode | None
) -> list[Configuration]:
    """Return a configuration of each of several models, and one without its tuning if it has one.

    Args:
        settings: The settings as they are.
        models: The embedding models, as a setting names them.
        mode: The mode of all of them; None for hybrid.

    Raises:
        SettingsError: Vectors alone are asked for of the model "none".
    """
    mode = mode or SearchMode.HYBRID
    compared: list[Configuration] = []
    for model in dict.fromkeys(models):
        own = settings.model_copy(update={"embedding_model": model})
        for each in configurations(own, mode):
            name = each.name.replace(mode.value, model)
            selected_by = dict(each.selected_by)
            if model != settings.embedding_model:
                selected_by["PYTOOLS_EMBEDDING_MODEL"] = model
            compared.append(replace(each, name=name, selected_by=selected_by))
    return compared


def configurations(settings: Settings, mode: SearchMode | None) -> list[Configuration]:
    """Return the configurations to compare.

    Args:
        settings: The settings as they are; "hybrid" is what they give, with the tuning file that
            they name.
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
    if is_tuned(settings):
        every += [
            replace(
                each,
                name=f"{each.name} (untuned)",
                settings=settings.model_copy(update={"tuning": Path("none")}),
                selected_by={**each.selected_by, "PYTOOLS_TUNING": "none"},
            )
            for each in every
            if each.mode is (mode or SearchMode.HYBRID) and each.settings is settings
        ]
    return [
        each
        for each in every
        if mode is None or (each.mode is mode and each.settings.fusion == settings.fusion)
    ]


def is_tuned(settings: Settings) -> bool:
    """Return whether the tuning file that settings name is one for their model."""
    tuning, _ = TuningFile(settings.tuning).current()
    embedder = configured_embedder(settings)
    return tuning is not None and embedder is not None and tuning.model_id == embedder.model_id


def _only(channel: str, weight: float, *, instead_of: str) -> dict[str, str]:
    wanted = {} if weight else {f"PYTOOLS_{channel.upper()}_WEIGHT": "1"}
    return wanted | {f"PYTOOLS_{instead_of.upper()}_WEIGHT": "0"}
