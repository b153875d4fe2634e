"""Identity providers over HTTP."""
