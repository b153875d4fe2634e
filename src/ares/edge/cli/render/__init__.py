"""How answers look on a terminal: tables, pages, progress."""
