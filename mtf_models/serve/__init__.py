"""A server: texts in, texts and scores out, over HTTP."""
