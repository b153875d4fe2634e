"""Identity providers: their keys, and the codes that their logins give."""
