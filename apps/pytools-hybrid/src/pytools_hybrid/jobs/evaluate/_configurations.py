"""What an evaluation compares: ways to search, and the settings that select them."""

from __future__ import annotations

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
        name: Its name in tables: the mode, "hybrid (rrf)" for a fusion other than the one in the
            settings, "hybrid (untuned)" for search without tuning, or the model's name if there are
            several.
        selected_by: The environment variables that make this the default; empty if it already is.
    """

    name: str
    mode: SearchMode
    settings: Settings
    selected_by: Mapping[str, str]


def of_models(
    settings: Settings, models: Sequence[str], mode: SearchMode | None
) -> list[Configuration]:
    """Return a configuration for each model, and one without tuning for a tuned model.

    Without a `mode` they are hybrid.

    Raises:
        SettingsError: The mode is "vector", and a model is "none".
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

    Without a `mode`, these are all modes and both fusions, or only bm25 if there are no vectors.
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
    """Return whether the settings' tuning file is for their model."""
    tuning, _ = TuningFile(settings.tuning).current()
    embedder = configured_embedder(settings)
    return tuning is not None and embedder is not None and tuning.model_id == embedder.model_id


def _only(channel: str, weight: float, *, instead_of: str) -> dict[str, str]:
    wanted = {} if weight else {f"PYTOOLS_{channel.upper()}_WEIGHT": "1"}
    return wanted | {f"PYTOOLS_{instead_of.upper()}_WEIGHT": "0"}
