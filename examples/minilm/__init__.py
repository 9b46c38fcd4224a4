"""Sentence embeddings with all-MiniLM-L6-v2: the encoder, its tokenizer and a demonstration."""
