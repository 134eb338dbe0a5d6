"""The training of toolembed's own models: tables of word vectors, and a small transformer."""
