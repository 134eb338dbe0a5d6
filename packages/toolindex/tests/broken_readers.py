"""Stores that search wrongly in one way."""

from dataclasses import replace
from fnmatch import fnmatchcase

from toolindex import Coverage, ToolFilter

from .memory_reader import MemoryReader
from .memory_store import MemoryStore


class IsComplete(MemoryReader):
    def is_complete(self):
        return True


class IsNeverComplete(MemoryReader):
    def is_complete(self):
        return False


class CountsToolsAsGeneration(MemoryReader):
    def generation(self):
        return len(self.state.records)


class FindsAllWords(MemoryReader):
    def lexical(self, query, *, where, depth):
        return super().lexical(f"{query} mcptools", where=where, depth=depth)


class ReadsNoSlips(MemoryReader):
    def fuzzy(self, query, *, where, depth):
        return self.lexical(query, where=where, depth=depth)


class IsLikeEverything(MemoryReader):
    def fuzzy(self, query, *, where, depth):
        found = super().fuzzy(query, where=where, depth=depth)
        return found or self.lexical("mcptools", where=where, depth=depth)


class ForgetsTheFilterOfSlips(MemoryReader):
    def fuzzy(self, query, *, where, depth):
        return super().fuzzy(query, where=type(where)(), depth=depth)


class AsManySlipsAsThereAre(MemoryReader):
    def fuzzy(self, query, *, where, depth):
        return super().fuzzy(query, where=where, depth=999)


class ReadsQueriesAsExpressions(MemoryReader):
    def lexical(self, query, *, where, depth):
        if '"' in query:
            raise ValueError("the quote is not closed")
        return super().lexical(query, where=where, depth=depth)


class KnowsNoNames(MemoryReader):
    def named(self, query, *, where):
        return []


class TakesWordsForNames(MemoryReader):
    def named(self, query, *, where):
        return super().named(query, where=where) or super().named("merge", where=where)


class NamesWithoutFilter(MemoryReader):
    def named(self, query, *, where):
        return super().named(query, where=type(where)())


class CountsOnlySuccesses(MemoryReader):
    def outcomes(self):
        return {id_: it._replace(failures=0) for id_, it in super().outcomes().items()}


class WorstFirst(MemoryReader):
    def lexical(self, query, *, where, depth):
        return super().lexical(query, where=where, depth=depth)[::-1]


class TwiceTheSame(MemoryReader):
    def lexical(self, query, *, where, depth):
        found = super().lexical(query, where=where, depth=depth)
        return [hit for hit in found for _ in range(2)]


class AsManyAsThereAre(MemoryReader):
    def lexical(self, query, *, where, depth):
        return super().lexical(query, where=where, depth=999)


class FiltersWordsAfterTheCut(MemoryReader):
    def lexical(self, query, *, where, depth):
        allowed = {str(record.id) for record in self.allowed(where)}
        found = super().lexical(query, where=type(where)(), depth=depth)
        return [hit for hit in found if hit.id in allowed]


class FiltersVectorsAfterTheCut(MemoryReader):
    def nearest(self, vector, *, model_id, where, depth):
        allowed = {str(record.id) for record in self.allowed(where)}
        found = super().nearest(vector, model_id=model_id, where=type(where)(), depth=depth)
        return [hit for hit in found if hit.id in allowed]


class ScoresByDistance(MemoryReader):
    def nearest(self, vector, *, model_id, where, depth):
        found = super().nearest(vector, model_id=model_id, where=where, depth=depth)
        return [replace(hit, score=hit.score - 1) for hit in found]


class TakesTheFarthest(MemoryReader):
    def nearest(self, vector, *, model_id, where, depth):
        found = super().nearest(vector, model_id=model_id, where=where, depth=999)
        return found[-depth:]


class SearchesAnotherModel(MemoryReader):
    def nearest(self, vector, *, model_id, where, depth):
        known = [model_id, *self.state.vectors]
        model_id = next((model for model in known if model in self.state.vectors), model_id)
        return super().nearest(vector, model_id=model_id, where=where, depth=depth)


class FindsTheOpposite(MemoryReader):
    def nearest(self, vector, *, model_id, where, depth):
        opposite = [-value for value in vector]
        return super().nearest(opposite, model_id=model_id, where=where, depth=depth)


class FindsEachTextOnce(MemoryReader):
    def nearest(self, vector, *, model_id, where, depth):
        found = super().nearest(vector, model_id=model_id, where=where, depth=depth)
        texts = {self.state.records[hit.id].text_hash: hit for hit in reversed(found)}
        return [hit for hit in found if hit in texts.values()]


class SearchesOneModel(MemoryReader):
    def nearest(self, vector, *, model_id, where, depth):
        model_id = "m" if model_id in self.state.vectors else model_id
        return super().nearest(vector, model_id=model_id, where=where, depth=depth)


class NamesAModelAtOnce(MemoryReader):
    def models(self):
        return ["m", *super().models()]


class NamesNoModels(MemoryReader):
    def models(self):
        return []


class CountsCategoriesWithoutSource(MemoryReader):
    def categories(self, where):
        counts = super().categories(where)
        return {("mcptools", category): count for (_, category), count in counts.items()}


class CountsFilteredTools(MemoryReader):
    def categories(self, where):
        return super().categories(type(where)())


class NamesEmptyCategories(MemoryReader):
    def categories(self, where):
        return dict.fromkeys(super().categories(type(where)()), 0) | super().categories(where)


class CountsCategoriesOnce(MemoryReader):
    def categories(self, where):
        return dict.fromkeys(super().categories(where), 1)


class CountsVectorsAndNotTools(MemoryReader):
    def coverage(self, model_id):
        vectors = len(self.state.vectors.get(model_id, ()))
        return Coverage(tools=len(self.state.records), vectors=vectors, dimensions=2)


class WantsEveryId(MemoryReader):
    def entries(self, ids):
        for id_ in ids:
            self.state.records[id_]
        return super().entries(ids)


class FillsGaps(MemoryReader):
    def entries(self, ids):
        found = super().entries(ids)
        return dict.fromkeys(ids, next(iter(found.values()), None)) | found


class LosesTags(MemoryReader):
    def entries(self, ids):
        return {id_: replace(entry, tags=()) for id_, entry in super().entries(ids).items()}


class CutsDescriptions(MemoryReader):
    def entries(self, ids):
        return {
            id_: replace(entry, description=entry.description[:9])
            for id_, entry in super().entries(ids).items()
        }


class TakesAnyTag(MemoryReader):
    def admits(self, where, record):
        tags = where.tags & set(record.tags) or where.tags
        return super().admits(replace(where, tags=tags), record)


class ComparesLettersOfPaths(MemoryReader):
    def admits(self, where, record):
        rest = replace(where, path_prefix=None)
        return record.path.startswith(where.path_prefix or "") and super().admits(rest, record)


class TakesPatternsForIds(MemoryReader):
    def admits(self, where, record):
        named = not where.include or str(record.id) in where.include
        return named and super().admits(replace(where, include=()), record)


class ReadsBracketsAsSets(MemoryReader):
    def admits(self, where, record):
        fits = any(fnmatchcase(str(record.id), pattern) for pattern in where.include)
        return (fits or not where.include) and super().admits(replace(where, include=()), record)


class FitsPartsOfIds(MemoryReader):
    def admits(self, where, record):
        include = [f"{pattern}*" for pattern in where.include]
        return super().admits(replace(where, include=include), record)


class ForgetsCase(MemoryReader):
    def admits(self, where, record):
        return super().admits(replace(where, include=map(str.lower, where.include)), record)


class IncludesBeforeItExcludes(MemoryReader):
    def admits(self, where, record):
        exclude = () if where.include else where.exclude
        return super().admits(replace(where, exclude=exclude), record)


class ExcludesWhatFitsAll(MemoryReader):
    def admits(self, where, record):
        fits = [not ToolFilter(exclude=[p]).passes_id(str(record.id)) for p in where.exclude]
        kept = not (fits and all(fits))
        return kept and super().admits(replace(where, exclude=()), record)


class TakesAnyCategoryForAll(MemoryReader):
    def admits(self, where, record):
        return super().admits(replace(where, categories=()), record)


class JudgesAtOnce(MemoryReader):
    def is_good_enough(self, where, id_):
        seen = any(outcome.tool_id == id_ for outcome in self.state.outcomes)
        return super().is_good_enough(replace(where, min_observations=1), id_) if seen else True


class LetsTheUnknownThrough(MemoryReader):
    def admits(self, where, record):
        return super().admits(replace(where, unknown="include"), record)


class KnowsNoLatency(MemoryReader):
    def is_fast_enough(self, where, id_):
        return True


class SeesNoOutcomes(MemoryReader):
    def usage_generation(self):
        return 1


def with_reader(reader):
    return type(reader.__name__, (MemoryStore,), {"reader_class": reader})


BROKEN = {
    with_reader(IsComplete): "a new store does not hold a whole tree",
    with_reader(IsNeverComplete): "a store that was synced holds a whole tree",
    with_reader(CountsToolsAsGeneration): "the generation is another after every change",
    with_reader(KnowsNoNames): "a tool is found by its name",
    with_reader(TakesWordsForNames): "a tool is found by its name",
    with_reader(NamesWithoutFilter): "a tool is found by its name",
    with_reader(CountsOnlySuccesses): "successes, failures and latencies are summed up",
    with_reader(FindsAllWords): "tools that share words with a query are found, and no others",
    with_reader(ReadsNoSlips): "a tool is found by a word that is right, misspelt or cut short",
    with_reader(IsLikeEverything): "no word is like that one",
    with_reader(ForgetsTheFilterOfSlips): "a filter holds for misspelt words",
    with_reader(AsManySlipsAsThereAre): "no more than asked for",
    with_reader(ReadsQueriesAsExpressions): "Any string is a query.*But it raised ValueError",
    with_reader(WorstFirst): "candidates come best first",
    with_reader(TwiceTheSame): "each tool comes once",
    with_reader(AsManyAsThereAre): "as many candidates as asked for",
    with_reader(FiltersWordsAfterTheCut): "lets all of its tools through, by words",
    with_reader(FiltersVectorsAfterTheCut): "lets all of its tools through, by meaning",
    with_reader(ScoresByDistance): "is the cosine",
    with_reader(TakesTheFarthest): "the nearest tools are those that are kept",
    with_reader(SearchesOneModel): "models do not disturb each other",
    with_reader(NamesNoModels): "models whose vectors can be searched are named",
    with_reader(CountsCategoriesWithoutSource): "tools are counted by source and category",
    with_reader(CountsCategoriesOnce): "tools are counted by source and category",
    with_reader(CountsFilteredTools): "only tools that .* lets through are counted",
    with_reader(NamesEmptyCategories): "only tools that .* lets through are counted",
    with_reader(CountsVectorsAndNotTools): "coverage counts tools, and those with a vector",
    with_reader(WantsEveryId): "But it raised KeyError",
    with_reader(LosesTags): "the tags of .* are as scanned",
    with_reader(CutsDescriptions): "the description of .* is as scanned",
    with_reader(TakesAnyTag): r"tags=.*lets all of its tools through",
    with_reader(ComparesLettersOfPaths): r"path_prefix='mcptools/pdf'.*lets all of its tools",
    with_reader(TakesAnyCategoryForAll): r"categories=.*lets all of its tools through",
    with_reader(TakesPatternsForIds): r"include=.*\*:mail:\*.*lets all of its tools through",
    with_reader(ReadsBracketsAsSets): r"include=.*\[m\]erge.*lets all of its tools through",
    with_reader(FitsPartsOfIds): r"include=.*lets all of its tools through",
    with_reader(ForgetsCase): r"include=.*Mail.*lets all of its tools through",
    with_reader(IncludesBeforeItExcludes): r"exclude=.*read.*lets all of its tools through",
    with_reader(ExcludesWhatFitsAll): r"exclude=.*bulk.*lets all of its tools through",
    with_reader(JudgesAtOnce): r"min_success_rate=0.5.*lets all of its tools through",
    with_reader(LetsTheUnknownThrough): r"unknown='exclude'.*lets all of its tools through",
    with_reader(KnowsNoLatency): r"max_latency_ms=50.*lets all of its tools through",
    with_reader(SeesNoOutcomes): "the usage generation is another after every change",
    with_reader(SearchesAnotherModel): "a model without vectors finds nothing",
    with_reader(FindsTheOpposite): "tools come by the cosine of their vectors",
    with_reader(FindsEachTextOnce): "a text's vector serves all tools",
    with_reader(NamesAModelAtOnce): "a new store has vectors of no model",
    with_reader(FillsGaps): "an id that is gone is left out of the details",
}
"""Each with the promise that it breaks, as a pattern."""
