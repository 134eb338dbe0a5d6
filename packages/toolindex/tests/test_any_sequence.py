"""After any sequence of changes, the index equals the last scan, and its tables agree."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from toolindex import ToolIndex

IDS = [f"{s}:{c}:{n}" for s in ("mcptools", "gentools") for c in ("a", "b") for n in ("x", "y")]
TEXTS = ["Send a message.", "Merge files.", "Nul \0 byte.", "名前 🛠", "Send Send send sending."]
MODELS = ["first", "second"]

annotations = st.dictionaries(
    st.sampled_from([*IDS, "gone", "\ud800"]),
    st.lists(
        st.sampled_from(["post it", "Post it", "送信", "a\0b", "a\ud800b", "", "camelCase"]),
        max_size=3,
    ),
)
scans = st.dictionaries(st.sampled_from(IDS), st.sampled_from(TEXTS))


@pytest.fixture
def machine(tmp_path_factory, report, embed, check_sound, contents):
    class AnySequence(RuleBasedStateMachine):
        """Full and partial syncs, vectors of two models, reopening."""

        @initialize()
        def open(self):
            self.path = tmp_path_factory.mktemp("any") / "search.db"
            self.index = ToolIndex(self.path)
            self.files = {}
            self.embedded = {model: set() for model in MODELS}
            self.used = set()
            self.aliases = {}

        @rule(files=scans)
        def sync_all(self, files):
            done = self.index.sync(report(files), reader_version="1")
            assert done.added == len(files.keys() - self.files.keys())
            assert done.removed == len(self.files.keys() - files.keys())
            assert done.added + done.updated + done.unchanged == len(files)
            again = self.index.sync(report(files), reader_version="1")
            assert (again.added, again.updated, again.removed) == (0, 0, 0)
            assert again.unchanged == len(files)
            self.files = files
            self.forget_aliases()

        @rule(files=scans, category=st.sampled_from(["mcptools/a", "gentools/b", "gentools"]))
        def sync_within(self, files, category):
            inside = {
                id_: text
                for id_, text in files.items()
                if id_.replace(":", "/").startswith(f"{category}/")
            }
            outside = {
                id_: text
                for id_, text in self.files.items()
                if not id_.replace(":", "/").startswith(f"{category}/")
            }
            self.index.sync(report(inside), reader_version="1", within=[category])
            self.files = outside | inside
            self.forget_aliases()

        def forget_aliases(self):
            self.aliases = {id_: a for id_, a in self.aliases.items() if id_ in self.files}

        @rule(version=st.sampled_from(["1", "2"]))
        def sync_by_another_reader(self, version):
            self.index.sync(report(self.files), reader_version=version)

        @rule(model=st.sampled_from(MODELS), limit=st.integers(1, 5))
        def embed(self, model, limit):
            if texts := self.index.pending(model, limit=limit):
                self.index.put_vectors(
                    model, {hash_: embed(text, model) for hash_, text in texts.items()}
                )
                self.embedded[model] |= set(texts.values())
                self.used.add(model)

        @rule(model=st.sampled_from(MODELS))
        def use_model(self, model):
            assert self.index.use_model(model) == bool(self.embedded[model])
            if self.embedded[model]:
                self.used.add(model)

        @rule(aliases=annotations, keep=st.sets(st.sampled_from(IDS)))
        def annotate(self, aliases, keep):
            kept = {id_: texts for id_, texts in self.aliases.items() if id_ in keep}
            given = {
                id_: tuple(text.encode("utf-8", "replace").decode() for text in texts)
                for id_, texts in aliases.items()
                if texts and id_ in self.files and id_ not in keep
            }
            ids = {*kept, *given, *self.aliases}
            after = kept | given
            changed = sum(self.aliases.get(id_) != after.get(id_) for id_ in ids)
            assert self.index.annotate(aliases, keep=keep) == changed
            self.aliases = after

        @rule()
        def reopen(self):
            self.index.close()
            self.index = ToolIndex(self.path)

        @invariant()
        @precondition(lambda self: hasattr(self, "index"))
        def the_index_equals_the_files(self):
            assert contents(self.index) == self.files

        @invariant()
        @precondition(lambda self: hasattr(self, "index"))
        def the_aliases_are_those_given(self):
            with self.index.reading() as reader:
                entries = reader.entries(IDS)
            held = {id_: entry.aliases for id_, entry in entries.items() if entry.aliases}
            assert held == self.aliases

        @invariant()
        @precondition(lambda self: hasattr(self, "index"))
        def no_text_is_embedded_twice_by_one_model(self):
            for model in MODELS:
                pending = set(self.index.pending(model, limit=100).values())
                assert not pending & self.embedded[model]

        @invariant()
        @precondition(lambda self: hasattr(self, "index"))
        def the_tables_agree(self):
            check_sound(self.path)
            with self.index.reading() as reader:
                assert set(reader.models()) == self.used

        def teardown(self):
            self.index.close()

    return AnySequence


def test_any_sequence_of_changes_leaves_the_index_equal_to_the_files(machine):
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=12))
