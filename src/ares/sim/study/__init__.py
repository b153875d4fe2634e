"""A study: one trace, several policies and questions of the kind "what if"."""
