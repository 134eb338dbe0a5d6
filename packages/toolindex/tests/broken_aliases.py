"""Stores that do one thing wrong with aliases."""

from dataclasses import replace

from .memory_store import MemoryStore


class HasNoAliases(MemoryStore):
    def annotate(self, aliases, *, keep=()):
        changed = super().annotate(aliases, keep=keep)
        self.change(aliases={})
        return changed


class CountsEveryName(MemoryStore):
    def annotate(self, aliases, *, keep=()):
        super().annotate(aliases, keep=keep)
        return len(aliases)


class AddsToOldAliases(MemoryStore):
    def annotate(self, aliases, *, keep=()):
        before = self.state.aliases
        changed = super().annotate(aliases, keep=keep)
        merged = {
            id_: (*before.get(id_, ()), *self.state.aliases.get(id_, ()))
            for id_ in {*before, *self.state.aliases}
        }
        self.change(aliases=merged)
        return changed


class AnnotatesUnnoticed(MemoryStore):
    def annotate(self, aliases, *, keep=()):
        generation = self.state.generation
        changed = super().annotate(aliases, keep=keep)
        self.change(generation=generation)
        return changed


class AlwaysHasAnotherState(MemoryStore):
    def annotate(self, aliases, *, keep=()):
        changed = super().annotate(aliases, keep=keep)
        self.change(generation=self.state.generation + 1)
        return changed


class KeepsNoneOfThem(MemoryStore):
    def annotate(self, aliases, *, keep=()):
        return super().annotate(aliases)


class ForgetsThoseOfChangedTools(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        same = {id_ for id_, record in self.state.records.items() if before.get(id_) == record}
        self.change(aliases={k: v for k, v in self.state.aliases.items() if k in same})
        return report


class KeepsThoseOfRemovedTools(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.aliases
        report = super().sync(scanned, **options)
        self.change(aliases={**before, **self.state.aliases})
        return report


class ShowsNoneOfThem(MemoryStore):
    class reader_class(MemoryStore.reader_class):  # noqa: N801
        def entries(self, ids):
            found = super().entries(ids)
            return {id_: replace(entry, aliases=()) for id_, entry in found.items()}


BROKEN = {
    HasNoAliases: "the tools are counted whose aliases are others",
    CountsEveryName: "the tools are counted whose aliases are others",
    AddsToOldAliases: "the tools are counted|which is no alias",
    AnnotatesUnnoticed: "the generation is another after a change of aliases",
    AlwaysHasAnotherState: "the generation is another after a change of aliases, and only then",
    KeepsNoneOfThem: "tools whose aliases are to stay",
    ForgetsThoseOfChangedTools: "is found by its alias",
    KeepsThoseOfRemovedTools: "a tool that comes back has no aliases|which is no alias",
    ShowsNoneOfThem: "the aliases of a tool are those that it was given",
}
"""Each with the promise that it breaks, as a pattern."""
