"""A model's vocabulary: text to token ids and back, special tokens, and the vocabulary that grammars see.

Knows no templates and no requests. Begin with `vocab`.
"""
